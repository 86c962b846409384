#!/usr/bin/env python3
"""Lists the lines of Go that are too long and were written since a commit.

    longlines.py GOLANGCI-LINT COMMIT

What is too long is up to linter lll and .golangci.yml. A line that was only moved or indented is not new: its text is one
of a Go file of the commit. Exits 1 if there is such a line, and 0 with a note where git does not have the commit.
"""
import json
import subprocess
import sys

linter, since = sys.argv[1:]
if subprocess.run(["git", "cat-file", "-e", since + "^{commit}"], stderr=subprocess.DEVNULL).returncode:
    sys.exit(print(f"long lines are not checked: git does not have commit {since}, which tells old lines from new"))
old = subprocess.run(["git", "grep", "-h", "-e", "", since, "--", "*.go"], stdout=subprocess.PIPE, check=True).stdout.decode()
old = {line.strip() for line in old.splitlines()}
run = subprocess.run([linter, "run", "--enable-only=lll", "--output.json.path=stdout", "--show-stats=false",
                      "--issues-exit-code=0", "./..."], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
if run.returncode:
    sys.exit(run.stderr.decode())
found = json.loads(run.stdout)["Issues"] or []
new = [i for i in found if i["SourceLines"][0].strip() not in old]
for i in new:
    print(f'{i["Pos"]["Filename"]}:{i["Pos"]["Line"]}: {i["Text"]}')
sys.exit(bool(new))
