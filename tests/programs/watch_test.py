#!/usr/bin/env python3
"""weft-report watch beside processes that answer as NCCL does, and logs that grow. Nothing depends on how fast this machine is.

usage: watch_test.py WEFT_REPORT
"""

import contextlib
import http.server
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

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


class Rank:
    """What a rank of weft serves, in steps that the test chooses; one that is stopped gives no answer."""

    def __init__(self, rank, size):
        self.rank, self.size, self.operation, self.oldest, self.asked = rank, size, 1, 0, 0
        self.stopped = False
        self.last_answer = None  # the number of the question after which it answers none
        rank_itself = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                rank_itself.asked += 1
                number = rank_itself.asked
                while rank_itself.stopped:
                    time.sleep(0.05)
                if rank_itself.last_answer is not None and number > rank_itself.last_answer:
                    return
                page = rank_itself.page().encode()
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(page)))
                    self.end_headers()
                    self.wfile.write(page)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.words = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self):
        return (f'weft_info{{rank="{self.rank}",version="0",backend="host",size="{self.size}"}} 1\nweft_oldest_operation_seconds{{rank="{self.rank}"}} {self.oldest}\n'
                f'weft_operation_number{{rank="{self.rank}",communicator="world",lane="host"}} {self.operation}\n')

    def end(self):
        self.stopped = False
        self.server.shutdown()
        self.server.server_close()


def watches_ranks_of_weft(work):
    ranks = [Rank(rank, 3) for rank in range(3)]
    asks = [word for rank in ranks for word in ("--ranks", rank.words)]
    process = start(*asks, "--every", "1", "--patience", "1", "--json", str(work / "ranks.json"))
    check("it says that the ranks answer", "all 3 ranks of weft answer" in process.stdout.readline())
    ranks[1].stopped = True
    ranks[0].oldest = ranks[2].oldest = 60
    ranks[0].operation = ranks[2].operation = 2
    line = process.stdout.readline()
    check("a rank that gives no answer is named", "critical: rank 1" in line and "gives no answer: ranks 0, 2 have waited 60 s" in line, line)
    last = max(rank.asked for rank in ranks) + 1  # each look asks each rank once: all end between the same two looks
    for rank in ranks:
        rank.last_answer = last
    out, err = process.communicate(timeout=120)
    for rank in ranks:
        rank.end()
    end = json.loads((work / "ranks.json").read_text())
    check("what stood is the verdict", process.returncode == 2 and [(one["cause"], one["ranks"]) for one in end["findings"]] == [("process-unresponsive", [1])], out + err)
    check("RAS is not asked", "28028" not in out + err, out + err)


def ends_with_what_holds_its_input(work):
    rank = Rank(0, 1)
    process = subprocess.Popen([REPORT, "watch", "--ranks", rank.words, "--until-closed", "--every", "3600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    check("it goes on while its input is open", process.poll() is None)
    for step in range(60000):  # 3 MB
        process.stdin.write(f"[rank 1] step {step:6}: loss 3.14159, 2.718 s a step\n")
    process.stdin.write("weft-launch: rank 0 (pid 7) was killed by ")
    process.stdin.flush()
    process.stdin.write("signal 9")  # and no line feed
    process.stdin.flush()
    before = rank.asked
    process.stdin.close()
    process.stdin = None
    out, _ = process.communicate(timeout=120)
    check("it looks once more, and ends", rank.asked == before + 1, out)
    check("what is written there is a log of whatever length", process.returncode == 2 and "standard input: critical: rank 0 (pid 7) was killed by signal 9 (SIGKILL)" in out, out)
    check("it is read to its end", "not read" not in out, out)
    rank.end()


def serves_its_figures(work):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        status, _, err = run("--metrics-port", str(port))
        check("a port that another has", status == 42 and str(port) in err and "another program has it" in err and err.count("\n") == 1, err)
    with Server(json=[recorded("2.30.7", "dead", "json")]) as address:
        process = start(address, "--every", "3600", "--metrics-port", str(port), "--metrics", str(work / "same.prom"))
        line = process.stdout.readline()
        check("it says where the figures are", line.rstrip().endswith(f"metrics at http://127.0.0.1:{port}/metrics"), line)
        for _ in range(2):
            process.stdout.readline()
        while "weft_watch_findings" not in (work / "same.prom").read_text():
            time.sleep(0.05)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            page = answer.read().decode()
        check("the same as in the file", page == (work / "same.prom").read_text() and 'weft_watch_findings{cause="process-dead",severity="critical"} 1' in page, page)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def inspected(rank, number, microseconds):
    """A line of NCCL's Inspector, version v4.0 of its format."""
    return json.dumps({"header": {"id": "0x7f8c496ae9f661", "rank": rank, "n_ranks": 4, "nnodes": 1},
                       "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "profiler_plugin", "dump_timestamp_us": 1748030377748202 + number * 1000,
                                    "hostname": "node1", "pid": 100 + rank},
                       "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": 1 << 24, "coll_exec_time_us": microseconds, "coll_timing_source": "kernel_gpu",
                                     "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.0}}) + "\n"


def reads_inspectors_files(work):
    folder = work / "inspector"
    folder.mkdir()
    with Server(json=[recorded("2.30.7", "well", "json")]) as address:
        process = start(address, "--every", "1", "--patience", "1", "--for", "600", "--inspector", str(folder), "--json", str(work / "inspector.json"))
        check("it begins with an empty folder", "answers at" in process.stdout.readline())
        for rank in range(4):
            (folder / f"node1-pid{100 + rank}.log").write_text("")
        for rank in range(4):
            lines = "".join(inspected(rank, number, 1000 + (number * 7919 + rank * 104729) % 5 - (rank == 2) * 200) for number in range(1, 400))
            (folder / f"node1-pid{100 + rank}.log").write_text(lines + lines[:100])  # the last line is still being written
        seen = ""
        while "straggler" not in seen or "no operation that Inspector writes has ended for 1 s" not in seen:
            line = process.stdout.readline()
            seen += line
            if not line:
                break
        check("the straggler is named", re.search(r"Inspector: warning: .*\b2\b.*\[straggler\]", seen), seen)
        check("and that no operation ends", "notice: no operation that Inspector writes has ended for 1 s" in seen, seen)
        check("files that are being written are no error", "cannot" not in seen and "none of" not in seen, seen)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        told = json.loads((work / "inspector.json").read_text())
        check("with its rank", ("straggler", [2]) in [(one["cause"], one["ranks"]) for one in told["findings"]], told)


def says_once_what_it_cannot_read(work):
    logs = work / "unread"
    logs.mkdir()
    (logs / "packed").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\3" + bytes(range(256)))
    (logs / "gone").mkdir()
    server = Server(json=[recorded("2.30.7", "well", "json")])
    with server as address:
        process = start(address, "--every", "1", "--for", "600", "--logs", str(logs / "packed"), "--logs", str(logs / "gone"))
        seen = process.stdout.readline()
        (logs / "gone").rmdir()
        while "there is no" not in seen and (line := process.stdout.readline()):
            seen += line
        asked = server.commands.count("STATUS")
        while server.commands.count("STATUS") < asked + 5 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        check("a path that cannot be read is said once", (seen + out).count("there is no") == 1 and (seen + out).count("is not text") == 1, seen + out + err)
    with Server(json=[recorded("2.30.7", "well", "json")]) as address:
        status, out, err = run(address, "--every", "1", "--for", "4", "--logs", str(logs))
        check("a file that is no text is said once", status == 0 and out.count("is not text") == 1, out + err)


def leaves_records_of_before_alone(work):
    folder = work / "records"
    folder.mkdir()

    def record(rank, other):
        return json.dumps({"weft_flight": 1, "rank": rank, "size": 2, "host": "node1", "pid": 7 + rank, "reason": "error", "clock": {"steady_ns": 10, "wall_ns": 20},
                           "error": {"kind": "peer_lost", "message": f"rank {other} has died", "operation": "all_reduce", "number": 3, "at_ns": 5}, "progress": [], "communicators": []})

    (folder / "rank-1.json").write_text(record(1, 0))
    rank = Rank(0, 1)
    process = start("--ranks", rank.words, "--every", "1", "--records", str(folder), "--until-alarm")
    process.stdout.readline()
    while rank.asked < 4:
        time.sleep(0.05)
    check("records of an earlier job are no alarm", process.poll() is None)
    (folder / "rank-1.json").unlink()
    (folder / "rank-0.json").write_text(record(0, 1))
    out, err = process.communicate(timeout=120)
    check("a rank that left no record is named", process.returncode == 2 and "flight records: critical: rank 1 of 2 left no record" in out, out + err)
    rank.end()


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
        (["--ranks", "0"], "--ranks 0: '0' is no port"),
        (["--ranks", "9403-9400"], "--ranks 9403-9400: the last port is before the first"),
        (["--ranks", ":9400"], "is no host"),
        (["--ranks", "::1:9400"], "is no host"),
        (["--ranks", "a:1-x"], "'x' is no port"),
        (["--inspector", str(work / "none")], "is no folder"),
        (["--metrics-port", "70000"], "--metrics-port 70000 is not a number from 1 to 65535"),
        (["--metrics-bind", "::1"], "--metrics-bind has no effect: --metrics-port is not given"),
        (["--metrics-port", "9400", "--metrics-bind", "nowhere"], "'nowhere', which is not an IP address"),
        (["--bogus"], "--bogus"),
    ):
        status, out, err = run(*words)
        check(" ".join(words), status in (42, 70) and out == "" and err.count("\n") == 1 and expected in err, f"{status} {out} {err}")
    status, out, _ = run("--help")
    check("--help has an example", status == 0 and "Examples:" in out and "--patience" in out, out)


with tempfile.TemporaryDirectory() as folder:
    for step in (watches_a_job_that_is_well_and_ends, names_a_rank_that_stands_still, reads_logs_as_they_grow, ends_when_told, watches_ranks_of_weft,
                 ends_with_what_holds_its_input, serves_its_figures, reads_inspectors_files, says_once_what_it_cannot_read, leaves_records_of_before_alone, refuses):
        step(pathlib.Path(folder))
print("failed: " + ", ".join(failures) if failures else "weft-report watch says what changes, names who hangs, and ends as it should")
sys.exit(1 if failures else 0)
