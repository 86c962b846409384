#!/usr/bin/env python3
"""Records launch on examples/sisr in a pseudo-terminal, and draws what it prints:

    docs/launch.svg    a run, the picture of the README. Lines appear one after another; without animation all are there
    docs/plan.svg      its plan
    docs/top.svg       launch top on a machine that is made up: runs of tools/liveruns, and cards of the tests' driver

    make build && docs/picture.py [launch] [plan] [top]

A picture has the lines that its KEEP names, as they were printed and with their colours; "…" stands for the others.
"""

import codecs
import fcntl
import html
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS, FONT, ROW, LEFT, TOP = 104, 13, 18, 16, 44
CELL = FONT * 0.603  # the width of a character
TRAIN = "--memory 800MiB -- python3 train.py -opt options/demo.yml"
PICTURES = {  # of each its command, and which lines it keeps
    "launch": ("launch --as-asked " + TRAIN,
               [r"^launch: (\S+ · |out of|attempt|what died|changed|succeeded)", r"RuntimeError", r"iter: +\d+,", r"End of training"]),
    "plan": ("launch plan " + TRAIN, [r""]),
    "top": ("launch top", [r""]),
}
SCREEN = 20  # lines of launch top's screen
CARDS = """driver 550.54.15
gpu NVIDIA_RTX_A5000 GPU-0 25769803776 402653184 18683527168 8.6
gpu NVIDIA_RTX_A5000 GPU-1 25769803776 402653184 21260075008 8.6
gpu NVIDIA_RTX_A5000 GPU-2 25769803776 402653184 6442450944 8.6
gpu NVIDIA_RTX_A5000 GPU-3 25769803776 402653184 22763536384 8.6
busy 0 97
busy 1 100
busy 2 41
busy 3 88
proc 0 {} 1395864371
proc 3 {} 2147483648
"""
SPEED, LONGEST = 8, 0.8  # times as fast as it was; seconds between two lines at most
STYLE = {"1": "b", "2": "d", "7": "v", "31": "r", "32": "g", "33": "y", "34": "l", "35": "m", "36": "c"}


def record(command):
    """The lines that a command prints, each with the second at which it was."""
    work = tempfile.mkdtemp()
    try:
        for name in ("train.py", "gen_data.py", "sisr", "options"):
            source = os.path.join(HERE, "..", "examples", "sisr", name)
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, os.path.join(work, name))
        env = {"PATH": os.path.join(HERE, "..", "bin") + ":/usr/bin:/bin", "HOME": work, "TERM": "xterm", "LANG": "C.UTF-8"}
        subprocess.run(["python3", "gen_data.py"], cwd=work, env=env, check=True, stdout=subprocess.DEVNULL)
        terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        start = time.monotonic()
        run = subprocess.Popen(command.split(), cwd=work, env=env, stdin=end, stdout=end, stderr=end)
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


def top():
    """The lines of launch top's screen, with their colours."""
    work, running = tempfile.mkdtemp(), []
    try:
        root = os.path.join(HERE, "..")
        subprocess.run(["go", "build", "-o", work + "/liveruns", "./tools/liveruns"], cwd=root, check=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", work + "/libnvidia-ml.so.1",
                        root + "/core/gpu/drivers/testdata/fakenvml.c"], check=True)
        for name in ("jupyter-lab", "ollama"):  # the other processes
            shutil.copy("/bin/sleep", os.path.join(work, name))
            running.append(subprocess.Popen([os.path.join(work, name), "600"]))
        with open(work + "/cards", "w", encoding="utf-8") as f:
            f.write(CARDS.format(*(p.pid for p in running)))
        env = {"PATH": "/usr/bin:/bin", "HOME": work, "TERM": "xterm", "LANG": "C.UTF-8", "XDG_STATE_HOME": work,
               "LD_LIBRARY_PATH": work, "FAKE_NVML_STATE": work + "/cards"}
        running.append(subprocess.Popen([work + "/liveruns", "-state", work + "/launch"], stdin=subprocess.PIPE))
        time.sleep(5)
        terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", SCREEN - 1, COLUMNS, 0, 0))
        shown = subprocess.Popen([root + "/bin/launch", "top", "--refresh", "1s"], env=env, stdin=end, stdout=end,
                                 stderr=end, start_new_session=True)
        os.close(end)
        began, screen, stage = time.monotonic(), Screen(SCREEN, COLUMNS), 0
        while True:
            try:
                some = os.read(terminal, 65536)
            except OSError:  # it has ended
                break
            passed = time.monotonic() - began
            if stage == 0 and passed > 4:  # it draws all of a larger screen, and scrolls nothing from then on
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", SCREEN, COLUMNS, 0, 0))
                shown.send_signal(signal.SIGWINCH)
                stage = 1
            elif stage == 1 and passed < 7:
                screen.feed(some)
            elif stage == 1:
                os.write(terminal, b"q")
                stage = 2
        if shown.wait() != 0:
            sys.exit("launch top failed")
        return [(0, line) for line in screen.lines()]
    finally:
        for p in running:
            p.kill()
            p.wait()
        shutil.rmtree(work)


class Screen:
    """As much of a terminal as the screen of launch top needs (ECMA-48)."""

    def __init__(self, lines, columns):
        self.cells = [[(" ", "")] * columns for _ in range(lines)]
        self.x = self.y = 0
        self.bold = self.colour = ""
        self.last, self.bytes, self.rest = " ", codecs.getincrementaldecoder("utf-8")(), ""

    def feed(self, some):
        text = self.rest + self.bytes.decode(some)
        tokens = re.compile(r"\x1b\[([<=>?]?)([\d;]*)[ -/]*([@-~])|\x1b[()].|\x1b[^\[]|([^\x1b])", re.S)
        at = 0
        while match := tokens.match(text, at):
            at = match.end()
            if match[4]:
                self.put(match[4])
            elif match[3] and not match[1]:
                self.control(match[3], [int(n or 0) for n in match[2].split(";")])
        self.rest = text[at:]

    def put(self, char):
        if char == "\r":
            self.x = 0
        elif char == "\n":
            self.y += 1
        elif char == "\b":
            self.x -= 1
        elif char >= " " and self.y < len(self.cells) and self.x < len(self.cells[0]):
            self.cells[self.y][self.x] = (char, self.colour or self.bold)
            self.x, self.last = self.x + 1, char

    def control(self, kind, args):
        n = max(1, args[0])
        if kind == "m":
            for a in args:
                if a in (0, 22, 27):
                    self.bold = ""
                if a in (0, 39):
                    self.colour = ""
                if a in (1, 2, 7):
                    self.bold = str(a)
                if 30 <= a <= 37:
                    self.colour = str(a)
        elif kind == "H":
            self.y, self.x = n - 1, max(1, (args + [1])[1]) - 1
        elif kind in "G`":
            self.x = n - 1
        elif kind == "d":
            self.y = n - 1
        elif kind in "ABCD":
            self.x += {"C": n, "D": -n}.get(kind, 0)
            self.y += {"B": n, "A": -n}.get(kind, 0)
        elif kind == "b":
            for _ in range(n):
                self.put(self.last)
        elif kind in "JKX":
            line = self.cells[self.y]
            until = self.x + n if kind == "X" else len(line)
            from_ = 0 if kind in "JK" and args[0] == 2 else self.x
            line[from_:until] = [(" ", "")] * (until - from_)
            if kind == "J":
                for y in range(0 if args[0] == 2 else self.y + 1, len(self.cells)):
                    self.cells[y] = [(" ", "")] * len(line)

    def lines(self):
        for line in self.cells:
            text, style = "", ""
            for char, its in line:
                if its != style:
                    text += "\x1b[0m" + (f"\x1b[{its}m" if its else "")
                    style = its
                text += char
            yield text.rstrip() + "\x1b[0m"


def rows(command, keep, lines):
    """The rows of the picture: the second, whether a program printed it, and the text with its colours."""
    out, goes_on = [(0, "p", "$ " + command)], False
    for at, line in lines:
        bare = re.sub(r"\x1b\[[\d;]*m", "", line)
        if goes_on and bare.startswith("    "):  # the rest of a line of launch's, which it has wrapped itself
            out.append((at, "p", line))
            continue
        goes_on = bare.startswith("launch:") and any(re.search(k, bare) for k in keep)
        if not any(re.search(k, bare) for k in keep):
            if out[-1][2] != "…":
                out.append((at, "d", "…"))
        elif bare.startswith("launch:") or command.startswith(("launch plan", "launch top")):
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
    """A line's runs of one style, each where its first character stands in a terminal."""
    out, style, column = "", "", 0
    for i, part in enumerate(re.split(r"\x1b\[([\d;]*)m", text)):
        if i % 2:
            style = STYLE.get(part, "")
            continue
        for run in re.findall(r"[─-╿▀-▟]+|[^─-╿▀-▟]+", part):  # glyphs of bars are apart: another font may have them
            if run.strip():
                bar = f' textLength="{len(run) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"' if run[0] > "─" else ""
                name = f' class="{style}"' if style else ""
                out += f'<tspan x="{LEFT + column * CELL:.1f}"{name}{bar}>{html.escape(run)}</tspan>'
            column += len(run)
    return out


def draw(command, lines, moving):
    width, height = int(LEFT * 2 + COLUMNS * CELL), TOP + ROW * len(lines) + 8
    body, at, before = [], 0.0, 0.0
    for i, (second, kind, text) in enumerate(lines):
        at += min((second - before) / SPEED, LONGEST)
        before = second
        delay = f' style="animation-delay:{at:.2f}s"' if moving else ""
        body.append(f'<text class="{kind}" x="{LEFT}" y="{TOP + ROW * i + 8}"{delay}>{spans(text)}</text>')
    move = """
text { animation: show .01s both; }
@keyframes show { from { opacity: 0; } to { opacity: 1; } }
@media (prefers-reduced-motion: reduce) { text { animation: none; } }""" if moving else ""
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<title>{html.escape(command)}</title>
<style>
text {{ font: {FONT}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: #e6edf3; }}
.d {{ fill: #8b949e; }} .b {{ font-weight: bold; }} .r {{ fill: #ff7b72; font-weight: bold; }} .g {{ fill: #56d364; font-weight: bold; }} .y {{ fill: #e3b341; }}
.l {{ fill: #6cb6ff; }} .m {{ fill: #dcbdfb; }} .c {{ fill: #56d4dd; }} .v {{ font-weight: bold; }}{move}
</style>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="#161b22" stroke="#57606a"/>
<circle cx="18" cy="17" r="5" fill="#ff7b72"/><circle cx="36" cy="17" r="5" fill="#e3b341"/><circle cx="54" cy="17" r="5" fill="#56d364"/>
<g xml:space="preserve">
{chr(10).join(body)}
</g>
</svg>
"""


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        command, keep = PICTURES[name]
        picture = draw(command, rows(command, keep, top() if name == "top" else record(command)), moving=name == "launch")
        with open(os.path.join(HERE, name + ".svg"), "w", encoding="utf-8") as f:
            f.write(picture)
