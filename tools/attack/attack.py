"""Attacks `launch`, and provokes what must not turn a wrong result into a success: a table of trials, each as it must be or not.

    python3 attack.py [--quick] [--launch PATH] [--only WORD] [--point P] [--jobs N] [--list] [-v]

Trials are made as root and from a second account, in a mount namespace with a temporary folder of their own; without root
those that need it stand at the end as not made, never as right. It ends with 1 where any is not as it must be.

--quick makes only those of a few seconds: the tests run that.
"""
import argparse, concurrent.futures, importlib, os, shutil, subprocess, sys, tempfile, traceback

import box

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_LATE = 2  # trials that may have needed a second time
POINTS = [*"ABCDEF", *map(str, range(1, 15))]


def outside(a):
    """Returns this program's path, or that of a copy where it lies below /tmp: trials put a folder of their own there."""
    me = os.path.realpath(__file__)
    if not me.startswith("/tmp/"):
        return me
    tree = tempfile.mkdtemp(prefix="attack-tree-", dir="/var/tmp")
    os.chmod(tree, 0o755)
    os.environ["ATTACK_TREE"] = tree
    shutil.copytree(HERE, os.path.join(tree, "tools/attack"))
    shutil.copytree(os.path.join(HERE, "../../examples"), os.path.join(tree, "examples"), ignore=shutil.ignore_patterns("experiments", "datasets", "tb_logger"))
    os.mkdir(os.path.join(tree, "bin"))
    for name, path in (("launch", a.launch), ("plugin", a.plugin)):
        if os.path.exists(path):
            sys.argv += [f"--{name}", shutil.copy(path, os.path.join(tree, "bin", name))]
    os.chdir(tree)
    return os.path.join(tree, "tools/attack/attack.py")


def alone(a):
    """Makes this process' mounts its own, with a fresh temporary folder, as root; else it does nothing."""
    if os.getuid() != 0 or os.environ.get("ATTACK_ALONE"):
        return
    try:
        subprocess.run(["unshare", "--mount", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return
    os.environ["ATTACK_ALONE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, outside(a), *sys.argv[1:]])


def make(t, top, launch, keep):
    b = box.Box(top, launch, t.victim)
    try:
        t.run(b)
        return "as it must be", ""
    except box.NotMade as e:
        return "not made", str(e)
    except box.Wrong as e:
        return "WRONG", str(e)
    except Exception:
        return "BROKEN", traceback.format_exc(limit=-3)
    finally:
        if keep:
            print("kept", b.dir, file=sys.stderr)
        else:
            b.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--launch", default=os.path.join(HERE, "../../bin/launch"))
    p.add_argument("--plugin", default=os.path.join(HERE, "../../bin/attack-plugin"), help="the hostile plugin; without one it is built, where there is Go")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--only", default="", help="trials whose words hold this")
    p.add_argument("--point", default="", help="trials of one point")
    p.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    p.add_argument("--list", action="store_true")
    p.add_argument("--keep", action="store_true", help="keep the folders of the trials")
    p.add_argument("-v", action="store_true", help="print all of what a trial found")
    a = p.parse_args()
    alone(a)
    for name in sorted(os.listdir(HERE)):
        if name.startswith("trials_") and name.endswith(".py"):
            importlib.import_module(name[:-3])
    trials = [t for t in box.TRIALS if a.only.lower() in t.what.lower() and (not a.point or t.point == a.point) and (t.quick or not a.quick)]
    trials.sort(key=lambda t: POINTS.index(t.point))
    if a.list:
        for t in trials:
            print(f"{t.point:>3}  {t.what}")
        return 0
    top = tempfile.mkdtemp(prefix="attack-", dir="/var/tmp")
    os.chmod(top, 0o755)
    if os.environ.get("ATTACK_ALONE"):  # nothing of the machine's own temporary folder is touched
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm"], check=False)
    launch = os.path.join(top, "launch")
    shutil.copy(a.launch, launch)
    os.chmod(launch, 0o755)
    if os.path.exists(a.plugin):
        shutil.copy(a.plugin, os.path.join(top, "plugin"))
    elif shutil.which("go"):
        subprocess.run(["go", "build", "-o", os.path.join(top, "plugin"), "./tools/attack/plugin"], cwd=os.path.join(HERE, "../.."), check=False)
    can = [t for t in trials if os.getuid() == 0 or not (t.second or t.root)]
    rows = {}
    # Those of F claim the machine's memory: one after the other, after the others.
    for some, jobs in ([t for t in can if t.point != "F"], a.jobs), ([t for t in can if t.point == "F"], 1):
        with concurrent.futures.ProcessPoolExecutor(max_workers=jobs) as pool:
            todo = {pool.submit(make_by_number, box.TRIALS.index(t), top, launch, a.keep): t for t in some}
            for f in concurrent.futures.as_completed(todo):
                rows[todo[f]] = f.result()
                if rows[todo[f]][0] not in ("as it must be", "not made"):
                    print("!", todo[f].point, todo[f].what, file=sys.stderr, flush=True)
    # What is not as it must be is made once more, alone: a trial waits for seconds at most, and the machine may have been busy. It is
    # reported all the same, and more than a few of these are too many.
    late = {}
    for t in [t for t in can if rows[t][0] in ("WRONG", "BROKEN")][:20]:
        first = rows[t]
        rows[t] = make_by_number(box.TRIALS.index(t), top, launch, a.keep)
        if rows[t][0] == "as it must be":
            late[t] = first
    if len(late) > MOST_LATE:
        rows.update(late)
        late = {}
    wrong = 0
    for t in can:
        verdict, found = rows[t]
        wrong += verdict not in ("as it must be", "not made")
        print(f"{t.point:>3}  {verdict:<14} {'2nd' if t.second else '   '}  {t.what}")
        if found:
            print("".join(f"        {line}\n" for line in (found if a.v else found[:700]).splitlines()), end="")
    for t in trials:
        if t not in rows:
            print(f"{t.point:>3}  not made       {'2nd' if t.second else '   '}  {t.what} (needs root)")
    for t, (verdict, found) in late.items():
        print(f"\nonly at the second time, alone: {t.point} {t.what}\n        the first time {verdict}: " + found[-2000:].replace("\n", "\n        "))
    if wrong:  # once more, last: whoever reads only the end of a long log reads these
        print("\nnot as they must be:")
        for t in can:
            if rows[t][0] not in ("as it must be", "not made"):
                print(f"{t.point:>3}  {rows[t][0]:<14} {'2nd' if t.second else '   '}  {t.what}")
                print("".join(f"        {line}\n" for line in rows[t][1][-3000:].splitlines()), end="")
    second = sum(t.second for t in can)
    right = sum(rows[t][0] == "as it must be" for t in can)
    print(f"{len(can)} trials, {second} of them from a second account: {right} as they must be, {wrong} not" +
          (f"; {len(trials) - len(can)} not made, which need root" if len(can) < len(trials) else ""))
    if not a.keep:
        shutil.rmtree(top, ignore_errors=True)
    if os.environ.get("ATTACK_TREE"):
        shutil.rmtree(os.environ["ATTACK_TREE"], ignore_errors=True)
    return 1 if wrong else 0


def make_by_number(i, top, launch, keep):
    return make(box.TRIALS[i], top, launch, keep)


if __name__ == "__main__":
    sys.exit(main())
