#!/usr/bin/env python3
"""weft-report ras against a process that answers as NCCL does, and against much that does not.

usage: ras_test.py WEFT_REPORT
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from ras_server import Server, recorded

REPORT = sys.argv[1]
failures = []


def run(*words, stdin=None, environment=None):
    done = subprocess.run([REPORT, "ras", *words], input=stdin, capture_output=True, text=True, timeout=120, env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout, done.stderr


def check(what, so, seen=""):
    if not so:
        failures.append(what)
        print(f"FAILED: {what}\n{seen}")


def refused(what, words, status, expected):
    """One line on standard error, with the words, and nothing on standard output."""
    got, out, err = run(*words)
    check(what, got == status and out == "" and err.count("\n") == 1 and expected in err and "\x1b" not in err, f"{got}\n{out}\n{err}")


def findings(words, stdin=None):
    status, out, err = run(*words, "--json", "-", stdin=stdin)
    return status, json.loads(out), err


def asks_a_process():
    server = Server(json=[recorded("2.30.7", "one-far-behind", "json")])
    with server as address:
        status, out, err = run(address)
        check("a rank that is far behind is a warning", status == 1 and "rank 1 (process 5001 on node 10.0.0.1 (GPU 1)) is 628 operations behind" in out, out + err)
        check("the protocol is NCCL's", server.commands == ["CLIENT PROTOCOL 2", "SET FORMAT json", "STATUS"], server.commands)
    server = Server(answers=[recorded("2.24.3", "one-far-behind", "verbose")])
    with server as address:
        status, out, err = run(address)
        check("an old process is asked for text", status == 1 and server.commands[-1] == "VERBOSE STATUS" and "rank 1" in out, out + err)
        status, out, err = run(environment={"NCCL_RAS_ADDR": address})
        check("the address is that of NCCL_RAS_ADDR", status == 1 and address in out, out + err)
    server = Server(json=["not asked for"], answers=[recorded("2.29.2", "dead", "verbose")])
    with server as address:
        status, found, _ = findings([address, "--text"])
        check("--text asks for text", status == 2 and "SET FORMAT json" not in server.commands, server.commands)
        one = found["findings"][0]
        check("a dead process is named", (one["cause"], one["ranks"], one["processes"]) == ("process-dead", [2], [{"node": "10.0.0.2", "pid": 5002, "gpus": "0"}]), one)
        check("the answer is described", found["answer"]["nccl_version"] == "2.29.2" and found["answer"]["processes"] == 4 and found["next"], found)


def asks_twice():
    behind = recorded("2.30.7", "one-far-behind", "json")
    with Server(json=[behind, behind]) as address:
        status, found, _ = findings([address, "--every", "1"])
        check("what stands still is stuck", status == 2 and found["findings"][0]["severity"] == "critical" and found["findings"][0]["ranks"] == [1], found)
    with Server(json=[behind, behind.replace('"AllReduce": 12', '"AllReduce": 13')]) as address:
        status, found, _ = findings([address, "--every", "1"])
        check("what moves is slow", status == 0 and found["findings"][0]["severity"] == "notice", found)
    well = recorded("2.30.7", "well", "json")
    with Server(json=[well, well.replace('"AllReduce": 640', '"AllReduce": 700')]) as address:
        status, found, _ = findings([address, "--every", "1"])
        check("a job that goes on has no finding", status == 0 and found["findings"] == [], found)


def passes_over_a_stopped_process():
    """All processes of a host listen on one port; a stopped one is connected, and says nothing."""
    server = Server(json=[recorded("2.30.7", "one-far-behind", "json")])
    stopped = [True]

    def serve(connection):
        if stopped:
            stopped.pop()
            connection.recv(1000)
            connection.recv(1000)
        else:
            server.protocol(connection)

    server.serve = serve
    with server as address:
        status, out, err = run(address)
        check("another process answers", status == 1 and "rank 1" in out and not stopped, out + err)


def reads_a_file(work):
    for version, form in (("2.24.3", "text"), ("2.28.7", "json"), ("2.30.7", "verbose")):
        answer = recorded(version, "everything", form)
        (work / "answer").write_text(answer)
        status, found, _ = findings([str(work / "answer")])
        check(f"a file of {version}", status == 2 and found["findings"][0]["cause"] == "process-dead", found)
        status, piped, _ = findings(["-"], stdin=answer)
        check("the same from standard input", status == 2 and [one["ranks"] for one in piped["findings"]] == [one["ranks"] for one in found["findings"]], piped)
    for option in ("sarif", "markdown", "html"):
        status, _, err = run(str(work / "answer"), f"--{option}", str(work / option))
        check(f"--{option}", status == 2 and (work / option).stat().st_size > 100, err)
    cut = recorded("2.30.7", "everything", "json")[:2000]
    (work / "answer").write_text(cut)
    refused("a file that ends in the middle", [str(work / "answer")], 42, "ends in the middle, after 2000 bytes")
    refused("a file that is missing", [str(work / "missing")], 42, f"{work}/missing: cannot read it")
    refused("a folder", [str(work)], 42, "cannot read it")
    with open(work / "large", "wb") as file:
        file.truncate(100 << 20)
    refused("100 MB", [str(work / "large")], 42, "more than 67108864 bytes")


def refuses_others():
    answer = recorded("2.30.7", "well", "json")
    for name, raw, expected in (
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 'says "HTTP/1.1 400 Bad Request"'),
        ("SSH", b"SSH-2.0-OpenSSH_9.2p1\r\n", 'says "SSH-2.0-OpenSSH_9.2p1"'),
        ("control characters", b"\x1b[2J\x00\xff\n", "\\x1b[2J"),
        ("a line without an end", b"x" * 100000, "x" * 60 + "..."),
        ("a port that closes", b"\n", "says nothing"),
    ):
        with Server(raw=raw) as address:
            refused(name, [address], 42, f"{address}: this is no RAS of NCCL: it {expected}" if "says" in expected else expected)
    with Server(serve=lambda connection: time.sleep(60)) as address:
        refused("a port that says nothing", [address, "--timeout", "1"], 75, "what listens there says nothing, on 1 connection")

    def after_greeting(send):
        def serve(connection):
            connection.recv(1000)
            connection.sendall(b"SERVER PROTOCOL 2\n")
            connection.recv(1000)
            connection.sendall(b"OK\n")
            connection.recv(1000)
            send(connection)
        return serve

    with Server(json=[answer[: len(answer) // 2]]) as address:
        refused("an answer that is cut", [address], 42, "ends in the middle")
    with Server(json=["{\x1b[31m"]) as address:
        refused("an answer with control characters", [address], 42, "is no JSON of RAS")
    with Server(serve=after_greeting(lambda connection: connection.close())) as address:
        refused("no answer", [address], 75, "without an answer")

    def endless(connection):
        while True:
            connection.sendall(b" " * (1 << 20))

    with Server(serve=after_greeting(endless)) as address:
        refused("an answer without an end", [address], 42, "more than 67108864 bytes")

    def slowly(connection):
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    with Server(serve=after_greeting(slowly)) as address:
        refused("an answer that drips", [address, "--timeout", "1"], 75, "and not its end")
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    refused("nobody", [f"127.0.0.1:{port}"], 75, f"127.0.0.1:{port}: nobody answers there")
    refused("an unknown host", ["no-such-host.invalid:1"], 42, "no such host")


def refuses_arguments(work):
    (work / "answer").write_text(recorded("2.30.7", "well", "json"))
    for words, expected in (
        (["a:1", "b:2"], "'b:2' is one address or file too many"),
        (["host:0"], "a port is a whole number from 1 to 65535"),
        (["host:x"], "a port is a whole number from 1 to 65535"),
        (["[::1"], "a [ has no ]"),
        ([""], "name is empty"),
        (["--every", "0"], "--every 0: is no number of seconds from 1 to 3600"),
        (["--every", "x"], "--every x"),
        (["--timeout", "1e9"], "--timeout 1e9"),
        ([str(work / "answer"), "--every", "3"], "--every has no effect"),
        (["--bogus"], "--bogus"),
    ):
        refused(" ".join(words), words, 42, expected)
    status, out, _ = run("--help")
    check("--help has an example", status == 0 and "Examples:" in out and "28028" in out, out)


with tempfile.TemporaryDirectory() as folder:
    asks_a_process()
    asks_twice()
    passes_over_a_stopped_process()
    reads_a_file(pathlib.Path(folder))
    refuses_others()
    refuses_arguments(pathlib.Path(folder))
print("failed: " + ", ".join(failures) if failures else "weft-report ras asks, reads and refuses as it says")
sys.exit(1 if failures else 0)
