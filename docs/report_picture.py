#!/usr/bin/env python3
"""Makes the pictures of report.md: the plots of make demo and of a small sweep, and the page as Chromium shows it.

make build first. It needs what the demos need, and chromium for the picture of the page: report_picture.py [FOLDER]
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "examples", "sisr")
LAUNCH = os.path.join(HERE, "..", "bin", "launch")
RUN = [LAUNCH, "--as-asked", "--memory", "800MiB", "--", "python3", "train.py", "-opt", "options/demo.yml"]
SWEEP = [LAUNCH, "sweep", "--name", "lrs", "--as-asked", "--memory", "250MiB", "--grid", "batch=2,4,32", "--grid",
         "--manual_seed=1..3", "--", "python3", "train.py", "-opt", "options/batch{batch}.yml", "--name", "{name}"]


def main(to):
    work = tempfile.mkdtemp()
    try:
        for name in ("train.py", "gen_data.py", "sisr", "options"):
            source = os.path.join(EXAMPLE, name)
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, os.path.join(work, name))
        env = {"PATH": "/usr/bin:/bin", "HOME": work, "LANG": "C.UTF-8"}

        def run(args, state="run"):  # the run and the sweep learn nothing from each other
            subprocess.run(args, cwd=work, env=env | {"XDG_STATE_HOME": os.path.join(work, state)}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        run(["python3", "gen_data.py", "--val-size", "24"])
        with open(work + "/options/demo.yml") as f:
            recipe = f.read()
        for batch in (2, 4, 32):
            text = recipe.replace("batch_size_per_gpu: 32", f"batch_size_per_gpu: {batch}").replace("lq_size: 40", "lq_size: 24")
            with open(f"{work}/options/batch{batch}.yml", "w") as f:
                f.write(text)
        run(SWEEP, "sweep")
        run(["python3", "gen_data.py"])
        run(RUN)
        made = work + "/made"
        run([LAUNCH, "report", "--format", "svg", "--output", made])
        run([LAUNCH, "report", "lrs", "--format", "svg", "--output", made], "sweep")
        run([LAUNCH, "report", "--output", work + "/page.html"])
        for name in os.listdir(made):
            plot = name.rsplit("-", 1)[1]
            if plot in ("memory.svg", "breakdown.svg", "parallel.svg"):
                shutil.copy(os.path.join(made, name), os.path.join(to, "report-" + plot))
        if not shutil.which("chromium"):
            sys.exit("there is no chromium here: the picture of the page stays as it is")
        run(["chromium", "--headless=new", *(["--no-sandbox"] if os.geteuid() == 0 else []), "--disable-gpu",
             "--hide-scrollbars", "--window-size=900,1220", "--user-data-dir=" + work + "/chromium",
             "--screenshot=" + os.path.join(to, "report.png"), "file://" + work + "/page.html"])
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else HERE)
