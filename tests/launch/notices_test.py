#!/usr/bin/env python3
"""weft-launch --notice-http and --notice-file: which requests are a notice, which are refused, and that the ranks get SIGUSR1.

usage: notices_test.py PATH_OF_WEFT_LAUNCH
"""

import hashlib
import hmac
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

LAUNCH = sys.argv[1]
TOKEN = "0123456789abcdef" * 2
RANK = "trap 'echo rank $WEFT_RANK saves; exit 75' USR1; echo rank $WEFT_RANK runs; while :; do sleep 0.05; done"
failures = 0


def check(name, holds, shown=""):
    global failures
    print(f"{'ok' if holds else 'FAILED'}: {name}{'' if holds else ': ' + str(shown)}", flush=True)
    failures += not holds


def free_port(address="127.0.0.1"):
    with socket.socket() as one:
        one.bind((address, 0))
        return one.getsockname()[1]


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "RANK", "WORLD_SIZE", "MASTER_"))}
    return kept | more


class Job:
    """Two ranks that run until they are told to save."""

    def __init__(self, folder, *options, **env):
        self.path = pathlib.Path(folder) / "out"
        with open(self.path, "w") as out:
            self.process = subprocess.Popen([LAUNCH, "-n", "2", *options, "sh", "-c", RANK], env=environment(**env), stdout=out, stderr=subprocess.STDOUT)
        self.until(lambda: self.said().count(" runs") == 2)

    def said(self):
        return self.path.read_text()

    def until(self, holds, seconds=20):
        end = time.monotonic() + seconds
        while not holds() and time.monotonic() < end:
            time.sleep(0.02)
        return holds()

    def ended(self):
        """After a notice: its status, with what was said."""
        try:
            return self.process.wait(20), self.said()
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None, self.said()

    def has_notice(self):
        return " saves" in self.said() or self.process.poll() is not None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def sent(port, request, address="127.0.0.1"):
    """The first line of the answer; empty: none."""
    with socket.create_connection((address, port), 10) as one:
        one.sendall(request)
        answer = b""
        try:
            while piece := one.recv(4096):
                answer += piece
        except ConnectionError:
            pass
    return answer.decode(errors="replace").split("\r\n")[0]


def request(method="POST", target="/notice", *headers, body=b""):
    lines = [f"{method} {target} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def proof(token):
    return "Authorization: Bearer " + hmac.new(token.encode(), b"weft notice", hashlib.sha256).hexdigest()


def refused(name, words, *options, **env):
    run = subprocess.run([LAUNCH, "-n", "1", *options, "true"], env=environment(**env), capture_output=True, text=True, timeout=20, check=False)
    check(name, run.returncode == 42 and words in run.stderr and run.stderr.count("\n") == 1, (run.returncode, run.stderr))


def expect_notice(name, job, by):
    status, said = job.ended()
    check(name, status == 75 and said.count(" saves") == 2 and f"a notice {by}" in said, (status, said))


refused("no port", "--notice-http 0: '0' is no port from 1 to 65535", "--notice-http", "0")
refused("a port too high", "'65536' is no port", "--notice-http", "127.0.0.1:65536")
refused("a name", "'localhost' is no address", "--notice-http", "localhost:9402")
refused("beyond loopback without a token", "every process that reaches that address could end the job; set WEFT_TOKEN", "--notice-http", "0.0.0.0:9402")
refused("beyond loopback in IPv6", "could end the job", "--notice-http", "[::]:9402")
refused("a token too short", "the job's token of WEFT_TOKEN has 5 bytes", "--notice-http", "9402", WEFT_TOKEN="short")
with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    refused("a port that is taken", "cannot listen there: Address already in use", "--notice-http", str(taken.getsockname()[1]))

with tempfile.TemporaryDirectory() as folder:
    port = free_port()
    job = Job(folder, "--notice-http", str(port))
    for name, what, expected in (
            ("GET", request("GET"), "405"),
            ("another target", request("POST", "/notices"), "404"),
            ("a page in a browser", request("POST", "/notice", "Origin: http://evil.example"), "403"),
            ("no HTTP", b"\x16\x03\x01 nothing\r\n\r\n", "400"),
            ("a header too long", request("POST", "/notice", "X: " + "x" * 5000), "400"),
            ("a body too long", request(body=b"x" * 2000), "400")):
        line = sent(port, what)
        check(f"{name} is refused", f" {expected} " in line, line)
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    check("nothing of that was a notice", not job.has_notice(), job.said())
    line = sent(port, request())
    check("among 40 connections that send nothing a request is answered", " 202 " in line, line)
    expect_notice("a notice by HTTP reaches all ranks", job, "by HTTP from 127.0.0.1")
    for one in idle:
        one.close()

with tempfile.TemporaryDirectory() as folder:
    port = free_port()
    job = Job(folder, "--notice-http", f"0.0.0.0:{port}", WEFT_TOKEN=TOKEN)
    right = proof(TOKEN)
    for name, headers in (("no proof", []), ("the token itself", ["Authorization: Bearer " + TOKEN]), ("another's proof", [proof(TOKEN[::-1])]),
                          ("half a proof", [right[:-1]]), ("a proof with more", [right + "0"]), ("another scheme", [right.replace("Bearer", "Basic")])):
        line = sent(port, request("POST", "/notice", *headers))
        check(f"{name} is refused", " 401 " in line, line)
    check("nothing of that was a notice", not job.has_notice(), job.said())
    with socket.create_connection(("127.0.0.1", port), 20) as slow:
        begin = time.monotonic()
        check("who sends nothing is cut off", slow.recv(1) == b"" and time.monotonic() - begin < 15, time.monotonic() - begin)
    line = sent(port, request("POST", "/notice", right))
    check("who proves the token is answered", " 202 " in line, line)
    expect_notice("a notice with a proof reaches all ranks", job, "by HTTP from 127.0.0.1")

with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "notice"
    job = Job(folder, "--notice-file", str(file))
    file.touch()
    expect_notice("a file that comes is a notice", job, f"by the file {file}")
    job = Job(folder, "--notice-file", str(file))
    time.sleep(0.5)
    check("a file that was there before is none", not job.has_notice(), job.said())
    file.write_text("again")
    expect_notice("until it changes", job, f"by the file {file}")

with tempfile.TemporaryDirectory() as folder:
    port = free_port()
    job = Job(folder, "--notice-http", str(port))
    job.process.kill()
    job.process.wait()

    def is_free():
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except ConnectionRefusedError:
            return True
        except ConnectionError:  # it was just being killed
            pass
        return False
    check("nobody listens when weft-launch was killed", job.until(is_free))

print(f"{failures} failed")
sys.exit(1 if failures else 0)
