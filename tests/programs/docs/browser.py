"""Runs a script in a page of the site, in headless Chromium: the part of site_test.py that needs a browser.

The site is served on loopback, together with the page of the test, which therefore may look into frames with pages of the site. The script
hands its result to done(value), and the value comes back as JSON.
"""
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PAGE = """<!doctype html><meta charset="utf-8"><body><script>
const done = value => fetch("/result", {method: "POST", body: JSON.stringify(value)});
const frame = (address, width) => new Promise(loaded => {
  const one = document.createElement("iframe");
  one.style.cssText = `width: ${width}px; height: 900px; border: 0`;
  one.onload = () => loaded(one);
  one.src = address;
  document.body.append(one);
});
const sleep = time => new Promise(over => setTimeout(over, time));
// A page that leads to another one loads twice, and in between the frame's document has no element.
const complete = async one => {
  for (let tries = 0; tries < 1200; ++tries) {
    if (one.contentDocument?.documentElement && one.contentDocument.readyState === "complete") return;
    await sleep(50);
  }
  throw new Error(`${one.src} is not loaded after a minute`);
};
(async () => { %s })().catch(error => done({error: String(error)}));
</script></body>"""


def program():
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments, page, answer, **keys):
        self.page, self.answer = page, answer
        super().__init__(*arguments, **keys)

    def do_GET(self):
        if self.path != "/page-of-the-test":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page.encode())

    def do_POST(self):
        self.answer["value"] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.answer["came"].set()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):  # a frame that is taken away has not read all
        pass


def command(home):
    return [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
            f"--user-data-dir={home}/profile", "--window-size=1920,1080"]


def from_disk(page, query):
    """A page as it is when its scripts are done, read from the disk and not from a server."""
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run([*command(home), "--virtual-time-budget=20000", "--dump-dom", f"file://{page}{query}"], capture_output=True, text=True,
                              timeout=300, env={**os.environ, "HOME": home}).stdout


def run(site, script, seconds=600):
    """What `script` hands to done(). An error of the script, or a browser that says nothing for so long, is a RuntimeError."""
    answer = {"came": threading.Event()}
    handler = functools.partial(Handler, directory=str(site), page=PAGE % script, answer=answer)
    with Server(("127.0.0.1", 0), handler) as server, tempfile.TemporaryDirectory() as home:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        log = pathlib.Path(home, "log")
        address = f"http://127.0.0.1:{server.server_address[1]}/page-of-the-test"
        with open(log, "w") as out:
            browser = subprocess.Popen([*command(home), address], stdout=out, stderr=out, env={**os.environ, "HOME": home}, start_new_session=True)
        try:
            came = answer["came"].wait(seconds)
        finally:
            os.killpg(browser.pid, 9)
            browser.wait()
            server.shutdown()
        if not came:
            raise RuntimeError(f"{program()} has said nothing for {seconds} s: {log.read_text()[-1500:]}")
    value = answer["value"]
    if isinstance(value, dict) and "error" in value:
        raise RuntimeError(f"the page of the test: {value['error']}")
    return value
