#!/usr/bin/env python3
"""Records launch on examples/sisr in a pseudo-terminal, and draws it as docs/launch.svg, the picture of the README.

    make build && docs/picture.py

The picture has the lines that are named in KEEP, as they were printed and with their colours; "…" stands for the others.
Lines appear one after another; without animation all are there.
"""

import html
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS, FONT, ROW, LEFT, TOP = 104, 13, 18, 16, 44
COMMAND = "launch --as-asked --memory 800MiB -- python3 train.py -opt options/demo.yml"
KEEP = [r"^launch: (\S+ · |out of|attempt|succeeded|run )", r"RuntimeError", r"iter: +\d+,", r"End of training"]
SPEED, LONGEST = 8, 0.8  # times as fast as it was; seconds between two lines at most
STYLE = {"1": "b", "31": "r", "32": "g", "33": "y"}


def record():
    """The lines that were printed, each with the second at which it was."""
    work = tempfile.mkdtemp()
    try:
        for name in ("train.py", "gen_data.py", "sisr", "options"):
            source = os.path.join(HERE, "..", "examples", "sisr", name)
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, os.path.join(work, name))
        env = {"PATH": os.path.join(HERE, "..", "bin") + ":/usr/bin:/bin", "HOME": work, "TERM": "xterm", "LANG": "C.UTF-8"}
        subprocess.run(["python3", "gen_data.py"], cwd=work, env=env, check=True, stdout=subprocess.DEVNULL)
        terminal, end = pty.openpty()
        start = time.monotonic()
        run = subprocess.Popen(COMMAND.split(), cwd=work, env=env, stdin=end, stdout=end, stderr=end)
        os.close(end)
        lines, rest = [], b""
        while True:
            try:
                some = os.read(terminal, 65536)
            except OSError:  # the terminal has no other end any more
                some = b""
            if not some:
                break
            *whole, rest = (rest + some).split(b"\n")
            lines += [(time.monotonic() - start, l.decode().rstrip("\r").replace(work, "~")) for l in whole]
        if run.wait() != 0:
            sys.exit("the run did not succeed:\n" + "\n".join(l for _, l in lines))
        return lines
    finally:
        shutil.rmtree(work)


def rows(lines):
    """The rows of the picture: the second, whether a program printed it, and the text with its colours."""
    out = [(0, "p", "$ " + COMMAND)]
    for at, line in lines:
        bare = re.sub(r"\x1b\[[\d;]*m", "", line)
        if not any(re.search(k, bare) for k in KEEP):
            if out[-1][2] != "…":
                out.append((at, "d", "…"))
        elif bare.startswith("launch:"):
            for i, part in enumerate(wrapped(line)):
                out.append((at, "p", part))
        else:
            out.append((at, "d", bare if len(bare) <= COLUMNS else bare[: COLUMNS - 1] + "…"))
    return out


def wrapped(line):
    """A line in pieces of at most COLUMNS characters, colours not counted."""
    pieces, n = [""], 0
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        if part.startswith("\x1b"):
            pieces[-1] += part
            continue
        for word in re.split(r"(?<= )", part):
            if n + len(word.rstrip()) > COLUMNS:
                pieces.append("    ")
                n = 4
            pieces[-1] += word
            n += len(word)
    return pieces


def spans(text):
    out, style = "", ""
    for part in re.split(r"\x1b\[([\d;]*)m", text):
        if part in STYLE or part == "0":
            style = STYLE.get(part, "")
        elif part:
            out += f'<tspan class="{style}">{html.escape(part)}</tspan>' if style else html.escape(part)
    return out


def draw(lines):
    width, height = int(LEFT * 2 + COLUMNS * FONT * 0.603), TOP + ROW * len(lines) + 8
    body, at, before = [], 0.0, 0.0
    for i, (second, kind, text) in enumerate(lines):
        at += min((second - before) / SPEED, LONGEST)
        before = second
        body.append(f'<text class="{kind}" x="{LEFT}" y="{TOP + ROW * i + 8}" style="animation-delay:{at:.2f}s">{spans(text)}</text>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<title>{html.escape(COMMAND)}</title>
<style>
text {{ font: {FONT}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: #e6edf3; animation: show .01s both; }}
.d {{ fill: #8b949e; }} .b {{ font-weight: bold; }} .r {{ fill: #ff7b72; font-weight: bold; }} .g {{ fill: #56d364; font-weight: bold; }} .y {{ fill: #e3b341; }}
@keyframes show {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none; }} }}
</style>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="#161b22" stroke="#57606a"/>
<circle cx="18" cy="17" r="5" fill="#ff7b72"/><circle cx="36" cy="17" r="5" fill="#e3b341"/><circle cx="54" cy="17" r="5" fill="#56d364"/>
<g xml:space="preserve">
{chr(10).join(body)}
</g>
</svg>
"""


if __name__ == "__main__":
    picture = draw(rows(record()))
    with open(os.path.join(HERE, "launch.svg"), "w", encoding="utf-8") as f:
        f.write(picture)
