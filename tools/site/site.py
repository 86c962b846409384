#!/usr/bin/env python3
"""Makes the site of the pages: site.py SOURCES SITE, where SOURCES is a folder for what the site is made of.

The pages keep their places, so that their links hold: README.md is the start page, docs/README.md has the order of the others and
their groups. Files that a page leads to come along; a file that is no page and no picture becomes a page that shows it. Nothing is
loaded from the web, neither here nor by the site.
"""
import os
import re
import shutil
import subprocess
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
AS_THEY_ARE = (".svg", ".png", ".json", ".csv")
LINK = re.compile(r'(\]\(|(?:src|href)=")([^)"\s#:]+)(#[^)"\s]*)?(?=[)"])')
ROW = re.compile(r"^\| \[[^\]]*\]\(([^)#]+)\)")
ABOUT = ["SKILL.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
FENCES = {".go": "go", ".py": "python", ".proto": "protobuf"}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def groups():
    """The groups of docs/README.md with their pages."""
    found, pages = [], []
    for line in read("docs/README.md").splitlines():
        if line.startswith("## "):
            pages = []
            found.append((line[3:], pages))
        row = ROW.match(line)
        if row and row[1].endswith(".md") and not row[1].startswith("../"):
            pages.append("docs/" + row[1])
    return found


class Site:
    """The sources of the site: the pages, and what they lead to."""

    def __init__(self, sources):
        self.sources, self.made = sources, {}

    def write(self, path, text):
        path = os.path.join(self.sources, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def page(self, path):
        """Takes a page over, and what it leads to."""
        if path in self.made:
            return
        self.made[path] = path
        text = read(path)
        if text.startswith("---\n"):  # fields for an agent
            text = text[text.index("\n---\n", 4) + 5:]
        out, code = [], False
        for line in text.split("\n"):
            if line.startswith("```"):
                code = not code
            if not code and re.fullmatch(r"<!-- .* -->", line):
                continue
            out.append(line if code else LINK.sub(lambda m: self.link(path, m), line))
        self.write(path, "\n".join(out))

    def link(self, page, match):
        """The link of a page, to what shows its target on the site."""
        folder = os.path.dirname(page)
        to = os.path.normpath(os.path.join(folder, match[2]))
        if not os.path.exists(os.path.join(ROOT, to)) or to.startswith(".."):
            sys.exit(f"{page}: {match[2]} is not there")
        return match[1] + os.path.relpath(self.target(to), folder or ".") + (match[3] or "")

    def target(self, path):
        if path in self.made:
            return self.made[path]
        full = os.path.join(ROOT, path)
        if os.path.isdir(full):
            return self.folder(path)
        if path.endswith(".md"):
            self.page(path)
        elif path.endswith(AS_THEY_ARE):
            self.made[path] = path
            os.makedirs(os.path.dirname(os.path.join(self.sources, path)), exist_ok=True)
            shutil.copy(full, os.path.join(self.sources, path))
        else:
            self.made[path] = path + ".md"
            text = "".join("    " + line for line in read(path).splitlines(True))
            kind = FENCES.get(os.path.splitext(path)[1])
            shown = f"~~~~{kind}\n{read(path)}\n~~~~\n" if kind else text
            self.write(path + ".md", f"# {path}\n\n{shown}")
        return self.made[path]

    def folder(self, path):
        """The page of a folder: its own README, or the list of its files."""
        if os.path.exists(os.path.join(ROOT, path, "README.md")):
            self.page(path + "/README.md")
            self.made[path] = path + "/README.md"
            return self.made[path]
        self.made[path] = path + "/README.md"
        names = subprocess.run(["git", "ls-files", path], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
        lines = []
        for name in names:
            inside = os.path.relpath(name, path)
            shown = name.endswith(AS_THEY_ARE)
            lines.append(f"- [{inside}]({os.path.relpath(self.target(name), path)})" if shown else f"- `{inside}`")
        self.write(path + "/README.md", f"# {path}\n\n" + "\n".join(lines) + "\n")
        return self.made[path]


def nav(found):
    pages = [{"launch": "README.md"}, {"All pages": "docs/README.md"}]
    pages += [{title: of} for title, of in found]
    return pages + [{"About": ABOUT}]


def main(sources, site):
    shutil.rmtree(sources, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    found = groups()
    own = ["README.md", "docs/README.md", *(p for _, of in found for p in of), *ABOUT]
    s = Site(os.path.join(sources, "pages"))
    for path in own:
        s.page(path)
    s.write("assets/iframe-worker.js", read("tools/site/worker.js"))
    others = {p for p in s.made.values() if p.endswith(".md")} - set(own)
    settings = {"INHERIT": os.path.join(HERE, "mkdocs.yml"), "docs_dir": os.path.abspath(s.sources),
                "site_dir": os.path.abspath(site), "nav": nav(found), "not_in_nav": "\n".join(sorted(others))}
    config = os.path.join(sources, "mkdocs.yml")
    with open(config, "w", encoding="utf-8") as f:
        yaml.safe_dump(settings, f, sort_keys=False, allow_unicode=True)
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", config], env=env, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
