"""Makes an environment with torch 2 for the tests of the tracer (core/trace), once, and prints its Python.

torch of PyPI is built with CUDA, as the tracer needs it, and the libraries of CUDA beside it are 4 GB that the tests
never call. So torch comes alone (539 MB to download, 1.4 GB in $XDG_CACHE_HOME/launch-tests, else in ~/.cache), and one
library stands for all that it is linked with: it has the names and the versions that are asked for, and each
function of it returns 0.

    python3 tools/tracetorch/env.py

Without a package index it prints nothing and exits with 75.
"""
import fcntl
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRY_LATER = 75
CUDA = re.compile(r"_*(cu[A-Z]|cu[a-z]+[A-Z]|nv|nccl|cufile)")  # functions of CUDA's libraries


def run(*argv, **more):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def stand_in(torch, folder):
    """Builds the library, under each name that torch's own libraries need."""
    own, needed, defined, wanted = set(os.listdir(torch)), set(), set(), {}
    for path in glob.glob(torch + "/*.so"):
        needed.update(re.findall(r"\(NEEDED\).*\[(lib(?:cu|nv|nccl).*)\]", run("readelf", "-d", path)))
        for line in run("nm", "-D", path).splitlines():
            *_, kind, name = line.split()
            name, _, version = name.partition("@")
            if kind in "Uw":
                wanted[name] = version.lstrip("@")
            else:
                defined.add(name)
    names = sorted(n for n in wanted if n not in defined and CUDA.match(n))
    versions = {}
    for n in names:
        if wanted[n]:
            versions.setdefault(wanted[n], []).append(n)
    os.makedirs(folder)
    source, script, library = (os.path.join(folder, "standin." + end) for end in ("c", "map", "so"))
    with open(source, "w") as f:
        f.writelines("int %s(void) { return 0; }\n" % n for n in names)
    with open(script, "w") as f:
        f.writelines("%s { global: %s; };\n" % (v, "; ".join(of)) for v, of in sorted(versions.items()))
    run("cc", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-w", "-Wl,--version-script=" + script, "-o", library, source)
    for name in needed - own:
        os.symlink(os.path.basename(library), os.path.join(folder, name))


def make(env):
    """The environment, from its beginning."""
    pip = (os.path.join(env, "bin", "python"), "-m", "pip", "--disable-pip-version-check")
    run(sys.executable, "-m", "venv", env)
    probe = os.path.join(env, "probe")
    if subprocess.run([*pip, "download", "-q", "--no-deps", "-d", probe, "mpmath<1.4"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode:
        shutil.rmtree(env)
        sys.exit(TRY_LATER)
    run(*pip, "install", "-q", "--no-cache-dir", "--no-deps", "--require-hashes", "-r", os.path.join(HERE, "torch.txt"))
    torch, = glob.glob(env + "/lib/python*/site-packages/torch/lib")
    stand_in(torch, os.path.join(torch, "..", "..", "nvidia", "cu13", "lib"))
    run(pip[0], "-c", "import torch; assert torch.version.cuda and float(torch.ones(2).sum()) == 2")


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    with open(os.path.join(HERE, "torch.txt")) as f:
        version, = re.findall(r"^torch==([\w.]+)", f.read(), re.M)
    env = os.path.join(cache, "launch-tests", "torch-%s-python%d.%d" % (version, *sys.version_info[:2]))
    ready = os.path.join(env, "ready")
    os.makedirs(os.path.dirname(env), exist_ok=True)
    alone = open(env + ".lock", "w")  # `make test` begins early with this, and another waits for it
    fcntl.flock(alone, fcntl.LOCK_EX)
    if not os.path.exists(ready):
        shutil.rmtree(env, ignore_errors=True)
        make(env)
        open(ready, "w").close()
    print(os.path.join(env, "bin", "python"))


main()
