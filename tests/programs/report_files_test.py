#!/usr/bin/env python3
"""The files that weft-report writes of a job of 1,024 ranks, two runs compared, and what a terminal shows.

usage: report_files_test.py WEFT_REPORT
"""
import html.parser
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import nccl_log_of_many

report = str(pathlib.Path(sys.argv[1]).resolve())
failures = 0


def expect(holds, words):
    global failures
    if not holds:
        failures += 1
        print(f"FAILED: {words}")


def run(*arguments, **more):
    return subprocess.run([report, *map(str, arguments)], capture_output=True, text=True, timeout=60, **more)


class Page(html.parser.HTMLParser):
    """Checks that every element is closed in turn, and gathers headings and what stands in them."""

    empty = {"meta", "br", "line", "rect", "circle"}

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.words, self.kinds = [], [], "", set()

    def handle_starttag(self, tag, attributes):
        self.kinds.add(tag)
        if tag in ("h1", "h2", "h3"):
            self.headings.append(tag)
        if tag == "svg":
            of = dict(attributes)
            expect(of.get("role") == "img" or of.get("aria-hidden") == "true", "a drawing has neither a role nor is it hidden")
        if dict(attributes).get("class", "").startswith("scroll"):
            expect(dict(attributes).get("tabindex") == "0", "a box that scrolls cannot be reached by keyboard")
        if tag not in self.empty:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.kinds.add(tag)

    def handle_endtag(self, tag):
        if tag in self.empty:
            return
        expect(self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}")
        if self.open:
            self.open.pop()

    def handle_data(self, data):
        self.words += data


def check_page(content):
    page = Page()
    page.feed(content)
    expect(page.open == [], f"not closed: {page.open}")
    expect(page.headings[0] == "h1" and page.headings.count("h1") == 1, f"headings {page.headings[:5]}")
    expect(all(b <= a or int(b[1]) == int(a[1]) + 1 for a, b in zip(page.headings, page.headings[1:])), f"a level is left out: {page.headings}")
    expect(not page.kinds & {"script", "link", "img", "iframe", "object"}, f"{page.kinds}")
    return page.words


def check_many(work):
    log = work / "many.log"
    log.write_text("\n".join(nccl_log_of_many.lines(128, 8, 8)) + "\n")
    files = {kind: work / f"many.{kind}" for kind in ("json", "sarif", "markdown", "html")}
    done = run("nccl", log, *[word for kind, path in files.items() for word in (f"--{kind}", path)])
    expect(done.returncode == 2, f"status {done.returncode}: {done.stderr}")
    size = files["html"].stat().st_size
    expect(size <= 300_000, f"the page of 1,024 ranks has {size} bytes")
    words = check_page(files["html"].read_text())
    for part in ("version-mismatch", "≠ 2.27.5+cuda13.0", "7 IB; without mlx5_7:1/IB", "node0127 → node0000", "1023"):
        expect(part in words, f"the page does not say {part}")
    sarif = json.loads(files["sarif"].read_text())["runs"][0]
    first = sarif["results"][0]
    place = first["locations"][0]["physicalLocation"]
    line = log.read_text().splitlines()[place["region"]["startLine"] - 1]
    expect(first["ruleId"] == "version-mismatch" and place["region"]["snippet"]["text"] == line, f"SARIF says {first}")
    markdown = files["markdown"].read_text()
    expect(markdown.startswith("# NCCL job: ranks run NCCL") and "node0001 and 125 more" in markdown, markdown[:400])
    expect(len(done.stdout.splitlines()) < 60, f"{len(done.stdout.splitlines())} lines for people")
    hosts = json.loads(files["json"].read_text())["hosts"]
    expect(len(hosts) == 128 and hosts[127]["ranks"] == list(range(1016, 1024)) and len(hosts[0]["nics"]) == 8, "hosts in the JSON")
    return log, files["json"]


def check_diff(work, log, earlier):
    mended = work / "mended.log"
    mended.write_text("".join(line.replace("2.27.5", "2.28.9") + "\n" for line in log.read_text().splitlines() if "NET/Socket" not in line))
    better = run("diff", earlier, mended)
    expect(better.returncode == 0 and "no new finding, 1 is gone" in better.stdout, f"{better.returncode}: {better.stdout[:300]}{better.stderr}")
    files = {kind: work / f"diff.{kind}" for kind in ("json", "sarif", "markdown", "html")}
    worse = run("diff", mended, earlier, *[word for kind, path in files.items() for word in (f"--{kind}", path)])
    expect(worse.returncode == 2 and worse.stdout.startswith("1 new finding, 0 are gone, 2 are the same"), f"{worse.returncode}: {worse.stdout[:300]}{worse.stderr}")
    expect(re.search(r"^NCCL +2.28.9\+cuda13.0 +2.27.5\+cuda13.0, 2.28.9\+cuda13.0$", worse.stdout, re.M), worse.stdout)
    machine = json.loads(files["json"].read_text())
    expect([one["cause"] for one in machine["new"]] == ["version-mismatch"] and machine["gone"] == [] and
           {"what": "channels by TCP", "before": "0", "after": "16"} in machine["facts"], f"{machine['facts']}")
    expect(len(json.loads(files["sarif"].read_text())["runs"][0]["results"]) == 1, "SARIF has the new finding")
    check_page(files["html"].read_text())
    for arguments, words in ((["diff"], "takes two runs, not 0"), (["diff", log], "takes two runs, not 1"), (["diff", "-", "-"], "- is named twice"),
                             (["diff", log, "/nowhere"], "there is no '/nowhere'"), (["diff", log, log, "--bogus"], "weft-report diff --help")):
        done = run(*arguments)
        expect(done.returncode == 42 and words in done.stderr and done.stderr.count("\n") == 1, f"{arguments}: {done.returncode}, {done.stderr}")
    broken = work / "broken.json"
    broken.write_text('{"findings":[{"cause":7}]}')
    done = run("diff", broken, log)
    expect(done.returncode == 42 and "findings[0].cause is 7 and no string" in done.stderr, done.stderr)


def on_terminal(columns, *arguments):
    """What a command shows on a terminal of so many columns."""
    import fcntl
    import struct
    import termios

    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([report, *map(str, arguments)], stdout=terminal, stderr=subprocess.DEVNULL)
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    process.wait(timeout=60)
    os.close(controller)
    return shown.decode().replace("\r\n", "\n")


def check_terminal(work):
    log = work / "small.log"
    log.write_text("node1:7:7 [0] x.cc:1 NCCL WARN Error: failed to extend /dev/shm/nccl-\033[2Jx to 9637892 bytes, error: No space left on device (28)\n")
    plain = run("nccl", log).stdout
    expect("\033" not in plain and all(line.startswith(("1 critical", "critical:", "    ", "")) for line in plain.splitlines()), "colours in a file")
    for columns, most in ((90, 90), (40, 80), (300, 120)):
        shown = on_terminal(columns, "nccl", log)
        expect("\033[1;31mcritical\033[0m: /dev/shm is too small" in shown and "\033[2J" not in shown, f"{columns} columns: {shown!r}")
        lines = [re.sub(r"\033\[[0-9;]*m", "", line) for line in shown.splitlines()]
        expect(max(map(len, lines)) <= most, f"{columns} columns: a line has {max(map(len, lines))}")
        expect(re.sub(r"\s+", " ", " ".join(lines)).strip() == re.sub(r"\s+", " ", plain).strip(), f"{columns} columns show other words")


def check_others(work):
    settings = work / "settings.env"
    settings.write_text("NCCL_IB_DISABEL=1\n")
    for kind, words in (("sarif", '"id":"unknown-variable"'), ("markdown", "# settings of NCCL: NCCL\\_IB"), ("html", "<h1>weft-report: settings of NCCL</h1>")):
        path = work / f"settings.{kind}"
        done = run("env", settings, f"--{kind}", path)
        expect(done.returncode == 1 and words.replace("\\", "") in path.read_text(), f"env --{kind}: {done.stderr}{path.read_text()[:300]}")
    done = run("nccl", settings, "--rules", "--html", work / "x.html")
    expect(done.returncode == 42, "--html beside --rules")
    done = run("nccl", work / "small.log", "--html", "-", "--json", "-")
    expect(done.returncode == 42 and "--json - is what --html names" in done.stderr, f"two files on standard output: {done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        log, earlier = check_many(work)
        check_diff(work, log, earlier)
        check_terminal(work)
        check_others(work)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
