#!/usr/bin/env python3
"""Opens every page of the site in Chromium, from its files and without a network: check.py SITE [PICTURES]

Each is opened on a wide screen and on a phone, light and dark. It must load all that it asks for, ask for nothing of the web, print no
error, and be no wider than the screen. Then the search has to find a word, from a file and from a server. PICTURES is a folder for
screenshots of some pages.
"""
import base64
import functools
import glob
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SCREENS = [(1280, 900, "light"), (1280, 900, "dark"), (390, 800, "light"), (390, 800, "dark")]
SHOWN = ("index.html", "docs/reference.html", "docs/plan.html")


class Browser:
    """A Chromium, driven by the Chrome DevTools Protocol through two pipes."""

    def __init__(self, profile):
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        args = [shutil.which("chromium") or sys.exit("there is no chromium: apt-get install chromium"), "--headless=new",
                "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                "--disable-background-networking", "--disable-component-update", "--user-data-dir=" + profile,
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "about:blank"]
        if os.geteuid() == 0:
            args.append("--no-sandbox")

        def pipes():  # the browser reads 3 and writes 4
            os.dup2(to_browser, 13)
            os.dup2(from_browser, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        self.process = subprocess.Popen(args, preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.count, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.call(domain + ".enable")

    def read(self):
        while b"\0" not in self.rest:
            some = os.read(self.into, 1 << 20)
            if not some:
                sys.exit("chromium ended")
            self.rest += some
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.count:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, script):
        return self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)["result"].get("value")

    def until(self, script, what):
        for _ in range(300):
            got = self.value(script)
            if got:
                return got
            time.sleep(0.1)
        return f"{what} did not come"

    def screen(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url):
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.read())
        self.value("new Promise(done => requestAnimationFrame(() => setTimeout(done, 30)))")

    def complaints(self):
        """What went wrong since the page was opened, and what it asked of the web."""
        found = []
        for e in self.events:
            method, p = e.get("method"), e.get("params", {})
            if method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                found.append(p["entry"]["text"] + " " + p["entry"].get("url", ""))
            elif method == "Runtime.exceptionThrown":
                found.append(str(p["exceptionDetails"].get("exception", p["exceptionDetails"])))
            elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning"):
                found.append(str([a.get("value") for a in p["args"]]))
            elif method == "Network.requestWillBeSent" and p["request"]["url"].split(":")[0] in ("http", "https", "ws", "wss") \
                    and not p["request"]["url"].startswith("http://127.0.0.1:"):
                found.append("asks for " + p["request"]["url"])
        return found

    def picture(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def search(browser, url):
    """What the search of a page finds for a word that many pages have."""
    browser.open(url)
    browser.value("document.querySelector('[data-md-toggle=search]').click(); "
                  "var i = document.querySelector('[data-md-component=search-query]'); i.focus(); i.value = 'accumulation'; "
                  "i.dispatchEvent(new Event('keyup')); i.dispatchEvent(new Event('input', {bubbles: true}))")
    return browser.until("document.querySelectorAll('.md-search-result__item').length", "a result of the search")


def check(browser, site, pictures):
    wrong = []
    pages = sorted(os.path.relpath(p, site) for p in glob.glob(site + "/**/*.html", recursive=True))
    pages.remove("404.html")  # it has absolute links, as it is shown in place of any page
    for width, height, scheme in SCREENS:
        browser.screen(width, height, scheme)
        for page in pages:
            browser.open("file://" + os.path.join(site, page))
            found = browser.complaints()
            wide = browser.value("document.documentElement.scrollWidth")
            if wide > width:
                found.append(f"it is {wide} wide")
            back = browser.value("getComputedStyle(document.body).backgroundColor")
            if (back == "rgb(255, 255, 255)") != (scheme == "light"):
                found.append(f"its background is {back}")
            broken = browser.value("Array.from(document.images).filter(i => !i.naturalWidth).map(i => i.src).join(' ')")
            if broken:
                found.append("it does not show " + broken)
            wrong += [f"{page} ({width}, {scheme}): {w}" for w in found]
            if pictures and page in SHOWN:
                browser.picture(os.path.join(pictures, f"{page.replace('/', '-')}-{width}-{scheme}.png"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for url in ("file://" + site + "/index.html", f"http://127.0.0.1:{server.server_port}/index.html"):
        got = search(browser, url)
        if not isinstance(got, int) or browser.complaints():
            wrong.append(f"the search of {url}: {got} {browser.complaints()}")
        if pictures:
            browser.picture(os.path.join(pictures, f"search-{url.split(':')[0]}.png"))
    server.shutdown()
    return pages, wrong


def main(site, pictures=None):
    site = os.path.abspath(site)
    if pictures:
        os.makedirs(pictures, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            pages, wrong = check(browser, site, pictures)
        finally:
            browser.process.terminate()
            browser.process.wait()
    print("\n".join(wrong + [f"{len(pages)} pages, each opened {len(SCREENS)} times: {len(wrong)} complaints"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
