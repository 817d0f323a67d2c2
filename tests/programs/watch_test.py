#!/usr/bin/env python3
"""weft-report watch beside processes that answer as NCCL does, and logs that grow. Nothing depends on how fast this machine is.

usage: watch_test.py WEFT_REPORT
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from ras_server import Server, recorded

REPORT = sys.argv[1]
failures = []


def start(*words):
    return subprocess.Popen([REPORT, "watch", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*words):
    process = start(*words)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def check(what, so, seen=""):
    if not so:
        failures.append(what)
        print(f"FAILED: {what}\n{seen}")


def moved(answer, launches):
    return answer.replace('"AllReduce": 640', f'"AllReduce": {launches}')


def watches_a_job_that_is_well_and_ends(work):
    well = recorded("2.30.7", "well", "json")
    server = Server(json=[moved(well, 640 + i) for i in range(200)])
    with server as address:
        process = start(address, "--every", "1", "--patience", "1", "--json", str(work / "end.json"), "--metrics", str(work / "watch.prom"))
        line = process.stdout.readline()
        check("it says who answers", "NCCL 2.30.7 answers at " + address in line, line)
        while server.commands.count("STATUS") < 4 and process.poll() is None:
            time.sleep(0.05)
    out, err = process.communicate(timeout=120)
    end = json.loads((work / "end.json").read_text())
    check("a job that is well and ends is no alarm", process.returncode == 0 and end["findings"] == [] and "no finding" in out, out + err)
    check("what changed is kept", any("no answer" in one["text"] for one in end["changes"]) and end["answers"] >= 4, end)
    check("the figures say that nobody answers", "weft_watch_up 0" in (work / "watch.prom").read_text())


def names_a_rank_that_stands_still(work):
    with Server(json=[recorded("2.30.7", "one-behind-by-one", "json")]) as address:
        status, out, err = run(address, "--every", "1", "--patience", "2", "--until-alarm", "--json", str(work / "stuck.json"), "--html", str(work / "stuck.html"))
        one = json.loads((work / "stuck.json").read_text())["findings"][0]
        check("a rank that stands still is named", status == 2 and (one["cause"], one["ranks"], one["severity"]) == ("rank-behind", [3], "critical"), out + err)
    with Server(json=[recorded("2.30.7", "silent", "json")]) as address:
        status, out, err = run(address, "--every", "1", "--until-alarm")
        check("a stopped process is named", status == 2 and "process 5002 on node 10.0.0.2 (GPU 0) gives RAS no answer" in out, out + err)


def reads_logs_as_they_grow(work):
    logs = work / "logs"
    logs.mkdir()
    with Server(json=[recorded("2.30.7", "well", "json")]) as address:
        process = start(address, "--every", "1", "--until-alarm", "--logs", str(logs))
        check("it begins with an empty folder", "answers at" in process.stdout.readline())
        (logs / "rank0.log").write_text("node1:7:7 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
                                        "node1:7:7 [0] x.cc:1 NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9637892 bytes, error: No space left on device (28)\n")
        out, err = process.communicate(timeout=120)
        check("a line of a log is an alarm", process.returncode == 2 and "logs: critical: " in out, out + err)


def ends_when_told(work):
    with Server(json=[recorded("2.30.7", "dead", "json")]) as address:
        process = start(address, "--every", "3600", "--json", str(work / "told.json"))
        process.stdout.readline()
        check("an alarm is printed at once", "critical: process 5002" in process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        told = json.loads((work / "told.json").read_text())
        check("a signal ends it, and what stood is kept", process.returncode == 143 and told["partial"] and told["findings"][0]["cause"] == "process-dead", out + err)
    server = Server(raw=b"HTTP/1.1 400 Bad Request\r\n")
    with server as address:
        status, out, err = run(address, "--every", "1", "--for", "1")
        check("it waits for a job", status == 0 and out.count("waits for a job") == 1 and "HTTP/1.1" in out, out + err)


def refuses(work):
    for words, expected in (
        (["a:1", "b:2"], "'b:2' is one address too many"),
        (["--patience", "0"], "--patience 0: is no number of seconds from 1 to 86400"),
        (["--every", "x"], "--every x"),
        (["--for", "-1"], "--for -1"),
        (["--logs", str(work / "none")], "there is no such file or folder"),
        (["--records", str(work / "none")], "is no folder"),
        (["--metrics", str(work / "none" / "x.prom")], "x.prom"),
        (["host:0"], "a port is"),
        (["--bogus"], "--bogus"),
    ):
        status, out, err = run(*words)
        check(" ".join(words), status in (42, 70) and out == "" and err.count("\n") == 1 and expected in err, f"{status} {out} {err}")
    status, out, _ = run("--help")
    check("--help has an example", status == 0 and "Examples:" in out and "--patience" in out, out)


with tempfile.TemporaryDirectory() as folder:
    for step in (watches_a_job_that_is_well_and_ends, names_a_rank_that_stands_still, reads_logs_as_they_grow, ends_when_told, refuses):
        step(pathlib.Path(folder))
print("failed: " + ", ".join(failures) if failures else "weft-report watch says what changes, names who hangs, and ends as it should")
sys.exit(1 if failures else 0)
