#!/usr/bin/env python3
"""weft-launch --watch: what weft-report is told, that its lines come out, that it ends with the job, and that it never alters the job's status.

usage: watch_test.py BIN
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN = pathlib.Path(sys.argv[1]).resolve()
failures = []


def check(what, so, seen=""):
    if not so:
        failures.append(what)
        print(f"FAILED: {what}\n{seen}")


def launch(place, *words, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "NCCL_", "TORCH_NCCL"))}
    return subprocess.run([str(place / "weft-launch"), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env=environment | {"WEFT_FLIGHT_DIR": "off"} | variables)


def stand_in(work, name, script):
    """A folder with weft-launch, and in the place of weft-report a script."""
    place = work / name
    place.mkdir()
    shutil.copy(BIN / "weft-launch", place)
    if script:
        (place / "weft-report").write_text(f"#!/bin/sh\n{script}\n")
        (place / "weft-report").chmod(0o755)
    return place


def is_told(work):
    place = stand_in(work, "told", 'echo "told: $*"; cat > /dev/null; echo closed; printf unfinished')
    flights, inspector = work / "flights" / "below", work / "inspector"
    done = launch(place, "-n", 3, "--watch", "sh", "-c", "exit 0", "x", "--metrics", 9400, WEFT_FLIGHT_DIR=str(flights), NCCL_INSPECTOR_DUMP_DIR=str(inspector))
    words = f"watch --until-closed --timeout 5 --ranks localhost:9400-9402 --records {flights} --inspector {inspector}"
    check("it is told where ranks and files are", done.returncode == 0 and done.stdout == "" and done.stderr ==
          f"weft-launch: watch: told: {words}\nweft-launch: watch: closed\nweft-launch: watch: unfinished\n", done)
    for words, expected in ((["--metrics=9400"], "--ranks localhost:9400-9400"), (["--metrics"], ""), (["--metrics-bind", "9"], ""), ([], "")):
        done = launch(place, "-n", 1, "--watch", "sh", "-c", "exit 0", "x", *words)
        check(f"the program is told {words}", f"told: watch --until-closed --timeout 5{expected and ' ' + expected}\n" in done.stderr, done)
    for words, expected in ((["--watch-port", 9500], "localhost:9500-9501"), (["--watch-port=65535"], "localhost:65535-65536")):
        done = launch(place, "-n", 2, "--watch", *words, "sh", "-c", "exit 0", "x", "--metrics", 9400)
        check(f"the launcher is told {words}", f" --ranks {expected}\n" in done.stderr, done)
    place_that_listens = stand_in(work, "listens", 'sed "s/pid [0-9]*/pid P/; s/^/heard: /"')
    done = launch(place_that_listens, "-n", 2, "--watch", "sh", "-c", '[ "$WEFT_RANK" = 0 ] && exec sleep 60; kill -9 $$')
    check("it is told which rank was killed", done.returncode != 0 and "weft-launch: watch: heard: weft-launch: rank 1 (pid P) was killed by signal 9\n" in done.stderr, done)
    dumps = work / "dumps"
    done = launch(place, "-n", 1, "--watch", "true", TORCH_NCCL_DEBUG_INFO_TEMP_FILE=str(dumps / "nccl_trace_rank_"))
    check("PyTorch's records", f"--records {dumps}\n" in done.stderr, done)
    hosts = work / "hosts"
    hosts.write_text("localhost slots=2\n")
    done = launch(place, "--hosts", hosts, "--watch", "true")
    check("on hosts nobody could be asked", done.returncode == 42 and "nobody could be asked" in done.stderr and "give --watch-port PORT" in done.stderr and done.stderr.count("\n") == 1, done)
    done = launch(place, "--hosts", hosts, "--watch", "--watch-port", 9500, "true")
    check("but where the launcher is told a port", done.returncode == 0 and "--ranks localhost:9500-9501" in done.stderr, done)
    hosts.write_text("localhost slots=2 address=::1\n")
    done = launch(place, "--hosts", hosts, "--watch", "--watch-port", 9500, "true")
    check("at an IPv6 address", "--ranks [::1]:9500-9501" in done.stderr, done)
    hosts.write_text("localhost slots=2\n")
    done = launch(place, "--hosts", hosts, "--watch", "sh", "-c", "exit 0", "x", "--metrics", 9400)
    check("but their ranks can", done.returncode == 0 and "--ranks localhost:9400-9401" in done.stderr, done)
    token = {"WEFT_TOKEN": "0123456789abcdef"}
    for node, count in ((0, 1), (1, 0)):
        done = launch(place, "--nodes", 2, "--node", node, "--address", "127.0.0.1:29500", "-n", 1, "--watch", "true", **token)
        check("one of several nodes watches", done.returncode == 0 and done.stderr.count("told:") == count, done)


def alters_nothing(work):
    for name, script in (("fails", "echo no >&2; exit 70"), ("dies", "kill -9 $$"), ("floods", "yes line | head -n 20000; cat > /dev/null")):
        place = stand_in(work, name, script)
        done = launch(place, "-n", 2, "--watch", "sh", "-c", "sleep 0.3; echo rank; exit $((WEFT_RANK * 0))")
        check(f"a watch that {name}", done.returncode == 0 and done.stdout == "rank\nrank\n", done.stderr[:300])
        done = launch(place, "-n", 2, "--watch", "sh", "-c", "sleep 0.3; exit 7")
        check(f"a job's status beside a watch that {name}", done.returncode == 7, done.stderr[-300:])
    place = stand_in(work, "again", "echo begins; cat > /dev/null")
    done = launch(place, "-n", 1, "--max-restarts", 2, "--watch", "sh", "-c", "exit 3")
    check("each start of a job has its own", done.stderr.count("watch: begins") == 3 and done.returncode == 3, done)


def refuses(work):
    for words, expected in ((["--watch-port", 9500], "--watch-port has no effect: --watch is not given"), (["--watch", "--watch-port", 0], "--watch-port 0 is not a number from 1 to 65535"),
                            (["--watch", "--watch-port", "x:1"], "--watch-port x:1 is not a number from 1 to 65535")):
        done = launch(BIN, "-n", 1, *words, "true")
        check(f"refuses {words}", done.returncode == 42 and expected in done.stderr and done.stderr.count("\n") == 1, done)
    done = launch(stand_in(work, "alone", ""), "-n", 1, "--watch", "true")
    check("without weft-report", done.returncode == 42 and "--watch: there is no weft-report beside weft-launch: " in done.stderr and done.stderr.count("\n") == 1, done)
    mpirun = work / "mpirun"
    mpirun.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    mpirun.chmod(0o755)
    done = launch(BIN, "-n", 1, "--watch", mpirun, "true")
    check("under mpirun", done.returncode == 42 and "--watch has no effect: mpirun" in done.stderr, done)


def names_a_killed_rank(work):
    text, flights = work / "text", work / "records"
    text.write_text("some text to train on, of 26 letters and a few more\n" * 2000)
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        try:
            two.bind(("127.0.0.1", port + 1))
        except OSError:
            return names_a_killed_rank(work)
    mark = f"WEFT_TRIAL=watch.{os.getpid()}"
    environment = dict(os.environ, WEFT_FLIGHT_DIR=str(flights), **dict([mark.split("=")]))
    job = subprocess.Popen([BIN / "weft-launch", "-n", "2", "--watch", BIN / "weft-scaling", "--model", "gpt-tiny", "--text", text, "--strategies", "ddp", "--steps", "1000000",
                            "--metrics", str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                    if re.search(r"weft_steps_total\S* [1-9]", page.read().decode()):
                        break
            except OSError:
                time.sleep(0.05)
        for entry in pathlib.Path("/proc").iterdir():
            try:
                lines = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if mark.encode() in lines and b"WEFT_RANK=1" in lines:
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue
        out, err = job.communicate(timeout=120)
    finally:
        job.kill()
    check("a rank that was killed is named", job.returncode == 75 and re.search(r"weft-launch: watch: \S+ flight records: critical: rank 1 of 2 left no record", err), out + err)


with tempfile.TemporaryDirectory() as folder:
    for step in (is_told, alters_nothing, refuses, *([names_a_killed_rank] if (BIN / "weft-scaling").exists() else [])):
        step(pathlib.Path(folder))
print("failed: " + ", ".join(failures) if failures else "weft-launch --watch starts a watch beside the job that ends with it and alters nothing")
sys.exit(1 if failures else 0)
