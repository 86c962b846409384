"""What several of the points have in common: user namespaces, and folders that differ from job to job."""
import contextlib, os, struct, time

from box import PYTHON, NotMade, need, over, trial
from trials_state import holding, part


def namespace(box):
    """Starts a command as the victim in a user namespace of its own, where every other account has one and the same number."""
    line = ["unshare", "--user", "--map-root-user"]
    if box.run([*line, "true"]).code != 0:
        raise NotMade("user namespaces are not to be had here")
    return line


@trial("F", "two launches of different TMPDIR, as a batch system gives its jobs, share one machine's memory: 75")
def _(box):
    for d in "a", "b":
        box.mkdir("jobs/" + d, mode=0o700)
    first = holding(box, 0.85, env={"TMPDIR": box.path("jobs/a")})
    done = box.launch("--memory", part(0.85), "--", "sh", "-c", "echo ran > ran", seconds=10, env={"TMPDIR": box.path("jobs/b")})
    box.write("work/end", "")
    need(box.finish(first).code == 0, "the first did not end")
    need(done.code == 75 and not os.path.exists(box.path("work/ran")), repr(done))


@trial("2", "in a user namespace, where all others look alike, another's link in place of the state folder is not followed", second=True)
def _(box):
    line = namespace(box)
    box.mkdir("home/.ssh", mode=0o700)
    box.as_("other", lambda: os.symlink(box.path("home/.ssh"), box.path("tmp/launch-0")))
    before = box.tree("home")
    done = box.run([*line, box.binary, "--", "sh", "-c", "exit 3"], env={"HOME": None})
    need(box.tree("home") == before, f"something was written through another account's link: {os.listdir(box.path('home/.ssh'))}")
    need(done.code == 3, repr(done))


@trial("2", "in a user namespace --json-file follows no link of another's in a shared folder", second=True)
def _(box):
    line = namespace(box)
    box.write("home/thesis", "three years")
    box.as_("other", lambda: os.symlink(box.path("home/thesis"), box.path("tmp/r.json")))
    done = box.run([*line, box.binary, "--json-file", box.path("tmp/r.json"), "--", "sh", "-c", "exit 3"])
    need(box.read("home/thesis") == "three years", f"the thesis is now {box.read('home/thesis')[:60]!r}")
    need(done.code == 3, repr(done))


@trial("13", "in a user namespace, where /home looks like another's, a plugin of the user's own is run", second=True)
def _(box):
    line = namespace(box)
    box.need_shared()
    box.write("home/bin/launch-plugin-evil", f"#!/bin/sh\n: > {box.path('work/asked')}\nexit 1\n", mode=0o755)
    over(box.dir, "/mnt")  # root's, as /home is; those above the box are shared ones
    try:
        done = box.run([*line, box.binary, "plugins", "trust", "evil"], env={"PATH": "/mnt/home/bin:/usr/bin:/bin", "HOME": "/mnt/home"})
    finally:
        over(None, "/mnt")
    need(os.path.exists(box.path("work/asked")), f"it was not asked: {done}")


@trial("13", "in a user namespace a plugin of another account is not run", second=True)
def _(box):
    line = namespace(box)
    box.write("theirs/launch-plugin-evil", f"#!/bin/sh\n: > {box.path('work/asked')}\nexit 1\n", mode=0o755, who="other")
    done = box.run([*line, box.binary, "plugins"], env={"PATH": box.path("theirs") + ":/usr/bin:/bin"})
    need("belongs to" in done.out + done.err or "others can write" in done.out + done.err, f"it is not named: {done}")
    need(not os.path.exists(box.path("work/asked")), f"it was asked: {done}")


@trial("13", "a plugin that an access list lets another account write is not run", second=True)
def _(box):
    path = box.write("home/bin/launch-plugin-evil", f"#!/bin/sh\n: > {box.path('work/asked')}\nexit 1\n", mode=0o755)
    mine, write, mask, none = 0o7, 0o7, 0o7, 0xffffffff
    entries = (1, mine, none), (2, write, box.uid("other")), (4, 5, none), (0x10, mask, none), (0x20, 5, none)  # acl(5)
    try:
        os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries))
    except OSError as e:
        raise NotMade(f"there are no access lists: {e}")
    done = box.launch("plugins", env={"PATH": box.path("home/bin") + ":/usr/bin:/bin"})
    need("belongs to" in done.out + done.err or "others can write" in done.out + done.err, f"it is not named: {done}")
    need(not os.path.exists(box.path("work/asked")), f"it was asked: {done}")


@trial("D", "a run killed after its last step is over: going on from its last state, with none left, is a success")
def _(box):
    box.trainer(progress=r"'step (?P<iteration>\d+)/(?P<total>\d+)'")
    p = box.start([box.binary, "--", PYTHON, "train.py", "--total", "--steps", "3", "--slow-end", "5"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0003.pt")))
    time.sleep(0.3)
    p.kill()
    p.wait()
    done = box.launch("resume", "last")
    need(done.code == 0 and "0003.pt" in done.err, repr(done))


@trial("7", "a SIGTERM that is ignored where launch is started is ignored by the program, and while launch plans")
def _(box):
    for wait in (0.03, 0.6):
        p = box.start(["sh", "-c", f"trap '' TERM; exec {box.binary} -- sh -c 'sleep 1.5; echo survived; exit 3'"])
        time.sleep(wait)
        p.terminate()
        done = box.finish(p)
        need(done.code == 3 and done.out == "survived\n", repr(done))


def contend(box, names, seconds, target, each):
    """Has another account put links, folders and files of its own at those names of the shared folder, over and over, while each() is
    called again and again."""
    story = ("import os, random, sys, time\nwhile True:\n    for name in sys.argv[2:]:\n        try:\n            random.choice([lambda: os.symlink(sys.argv[1], name), "
             "lambda: os.mkdir(name, 0o777), lambda: os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o666))])()\n        except OSError:\n            pass\n"
             "        time.sleep(random.random() / 300)\n        for end in os.unlink, os.rmdir:\n            try:\n                end(name)\n            except OSError:\n                pass\n")
    p = box.start([PYTHON, "-c", story, target, *names], who="other")
    end, n = time.time() + seconds, 0
    while time.time() < end:
        each(n)
        n += 1
    p.kill()
    need(n > 20, f"only {n} times")


@trial("2", "links, folders and files of another's that come and go where the state folder, claims and locks are: nothing of the home is changed",
       second=True, quick=False)
def _(box):
    box.need_shared()
    box.mkdir("home/.ssh", mode=0o700)
    before = box.tree("home")
    uid = box.uid("victim")
    names = [f"/tmp/launch-{uid}", f"/tmp/launch-claims-{uid}", f"/tmp/launch-locks-{uid}"]

    def each(n):
        done = box.launch("--memory", "200MiB", "--", "sh", "-c", "exit 3", env={"HOME": None})
        need(done.code == 3, repr(done))
        need(box.tree("home") == before, f"the home folder changed: {done}")
        for name in names:  # what launch could make of its own ends the contest
            try:
                if os.lstat(name).st_uid == uid:
                    need(os.lstat(name).st_mode & 0o022 == 0, f"{name} is open")
                    os.system(f"rm -rf {name}")
            except FileNotFoundError:
                pass

    contend(box, names, 20, box.path("home/.ssh"), each)


@trial("2", "links, folders and files of another's that come and go where --json-file is: nothing of the home is changed", second=True, quick=False)
def _(box):
    box.need_shared()
    box.write("home/thesis", "three years")
    before = box.tree("home")

    def each(n):
        done = box.launch("--json-file", "/tmp/r.json", "--", "sh", "-c", "exit 3", env={"XDG_STATE_HOME": box.mkdir("state")})
        need(done.code in (3, 125), repr(done))
        need(box.tree("home") == before, f"the home folder changed: {done}")
        with contextlib.suppress(FileNotFoundError):
            if os.lstat("/tmp/r.json").st_uid == box.uid("victim"):
                os.unlink("/tmp/r.json")

    contend(box, ["/tmp/r.json"], 10, box.path("home/thesis"), each)


@trial("1", "a settings file that changes hands while launch reads it is not believed", second=True, quick=False)
def _(box):
    box.need_shared()
    folder = box.mkdir("tmp/shared", who="other", mode=0o1777)
    mine = box.write("home/mine.yaml", "quiet: true\n")
    evil = box.write("theirs.yaml", "allow: recipe\njson-file: /tmp/evil.json\nstate-dir: /tmp/evil\n", who="other")
    path = os.path.join(folder, ".launch.yaml")
    story = ("import os, sys\nwhile True:\n    for target in sys.argv[2:]:\n        try:\n            os.symlink(target, sys.argv[1])\n"
             "            os.unlink(sys.argv[1])\n            os.link(sys.argv[3], sys.argv[1])\n            os.unlink(sys.argv[1])\n        except OSError:\n            pass\n")
    p = box.start([PYTHON, "-c", story, path, mine, evil], who="other")
    for _ in range(150):
        done = box.launch("--", "sh", "-c", "exit 3", cwd="tmp/shared")
        need(done.code == 3, repr(done))
        need(not os.path.exists("/tmp/evil.json") and not os.path.exists("/tmp/evil"), f"another's settings were taken: {done}")
    p.kill()
