#!/usr/bin/env python3
"""Every program and option that opens a file of others, with what is no regular file in its place: a pipe that nobody writes to, a folder, a device, a
socket, nothing. Each is refused at once, in one line that names it. What a user pipes into a program (<(zcat log.gz), -) is read.

usage: inputs_test.py BIN
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from ras_server import recorded

BIN = pathlib.Path(sys.argv[1]).resolve()
SECONDS = int(os.environ.get("SECONDS_FOR_A_PROGRAM", "60"))  # a machine that is busy; what hangs takes for ever
STAGE = {"forward": 0.010, "backward_input": 0.011, "backward_weight": 0.009, "activation": 1000, "kept_for_weight": 600}
LOG = "node1:7:7 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\nnode1:7:7 [0] NCCL INFO Using network IB\n"
MANIFEST = "apiVersion: v1\nkind: Service\nmetadata:\n  name: weft\nspec:\n  clusterIP: None\n"
FLIGHT = {"weft_flight": 1, "rank": 0, "size": 1, "host": "node0", "pid": 7, "reason": "signal", "clock": {"steady_ns": 1, "wall_ns": 1},
          "progress": [], "communicators": []}
INSPECTED = json.dumps({"header": {"id": "0x1", "rank": 0, "n_ranks": 1, "nnodes": 1}, "metadata": {"hostname": "node0", "pid": 7},
                        "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 1024, "coll_exec_time_us": 20}}) + "\n"
failures = checks = 0
counting = threading.Lock()


def expect(what, holds, done=""):
    global failures, checks
    with counting:
        checks += 1
        if not holds:
            failures += 1
            print(f"FAILED: {what}: {done}")


def run(words, environment=None, stdin=subprocess.DEVNULL):
    try:
        return subprocess.run(list(map(str, words)), stdin=stdin, capture_output=True, text=True, errors="replace", timeout=SECONDS,
                              env=dict(os.environ, WEFT_FLIGHT_DIR="off", **(environment or {})))
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, -1, "", f"it hangs: {words}")


def tool(name):
    return str(BIN / name)


class Row:
    """A place where a file is named. @param words: of the command, FILE where the path stands. @param variables: of the environment, alike.
    @param piped: whether a pipe with a writer will do. @param content: what is right there. @param status: of the program then"""

    def __init__(self, name, words, content, piped=False, variables=None, status=0, refused=(42,)):
        self.name, self.words, self.content, self.piped, self.variables, self.status, self.refused = name, words, content, piped, variables or {}, status, refused

    def run(self, path):
        return run([str(word).replace("FILE", str(path)) for word in self.words], {key: value.replace("FILE", str(path)) for key, value in self.variables.items()})


def rows(work):
    text = work / "text.txt"
    text.write_text("some text to train on, of 26 letters and a few more\n" * 200)
    small = ["--model", "gpt-tiny", "--text", text, "--steps", "12"]
    made = {name: work / f"good-{name}" for name in ("trace", "run", "schedule", "deepspeed")}
    for done in (run([tool("weft-launch"), "-n", "2", tool("weft-scaling"), *small, "--strategies", "ddp", "--trace", made["trace"]], {"WEFT_PROGRESS": "thread"}),
                 run([tool("weft-scaling"), *small, "--strategies", "ddp", "--json", made["run"]]),
                 run([tool("weft-plan"), "schedule", "--name", "1f1b", "--devices", "2", "--microbatches", "4", "--text", made["schedule"], "-q"])):
        expect("what the rows read", done.returncode == 0, done)
    perf = work / "all_reduce_perf"
    shutil.copy(pathlib.Path(__file__).parent / "fake_perf.sh", perf)
    good = {name: path.read_text() for name, path in made.items() if path.exists()}
    profile = json.dumps({"stages": [STAGE, dict(STAGE, forward=0.014)], "hops": [{"latency": 0.001}], "memory": [4000, 4000]})
    plan, report, launch, scaling = tool("weft-plan"), tool("weft-report"), tool("weft-launch"), tool("weft-scaling")
    return [
        Row("weft-plan buckets", [plan, "buckets", "FILE"], good["trace"], piped=True),
        Row("weft-plan schedule --schedule", [plan, "schedule", "-q", "--schedule", "FILE"], good["schedule"], piped=True),
        Row("weft-plan schedule --profile", [plan, "schedule", "-q", "--name", "1f1b", "--profile", "FILE"], profile, piped=True),
        Row("weft-plan scale --model", [plan, "scale", "--model", "FILE", "--gpus", "8", "--global-batch", "8"],
            '{"layers": 4, "hidden": 1024, "heads": 16, "vocabulary": 32000, "sequence": 1024}', piped=True),
        Row("weft-plan scale --hardware", [plan, "scale", "--model", "llama3.1-8b", "--gpus", "8", "--global-batch", "8", "--hardware", "FILE", "--zero", "3"],
            (pathlib.Path(__file__).parents[2] / "tools/weft-plan/scale/hardware/h100-sxm.json").read_text(), piped=True),
        Row("weft-report nccl", [report, "nccl", "FILE"], LOG, piped=True),
        Row("weft-report ras", [report, "ras", "FILE"], recorded("2.30.7", "well", "json"), piped=True),
        Row("weft-report diff", [report, "diff", "FILE", work / "log"], LOG, piped=True),
        Row("weft-report inspector", [report, "inspector", "FILE"], INSPECTED),
        Row("weft-report env", [report, "env", "FILE"], "NCCL_DEBUG=WARN\n", piped=True),
        Row("weft-report env, NCCL_CONF_FILE", [report, "env"], "NCCL_DEBUG=WARN\n", variables={"NCCL_CONF_FILE": "FILE"}),
        Row("weft-report tune --log", [report, "tune", "-q", "--minutes", "0.1", "--log", "FILE", "--", perf], LOG, piped=True),
        Row("weft-launch --hosts", [launch, "--hosts", "FILE", "--agent", "/bin/false", "true"], "no-such-host slots=1\n", piped=True, status=None),
        Row("weft-launch lint", [launch, "lint", "FILE"], MANIFEST, piped=True),
        Row("WEFT_TOKEN_FILE", [tool("weft-bench"), "all_reduce", "-b", "8", "-e", "8", "-n", "2"], "0123456789abcdef0123456789abcdef",
            variables={"WEFT_TOKEN_FILE": "FILE", "WEFT_RANK": "1", "WEFT_SIZE": "2", "WEFT_RENDEZVOUS": "tcp://127.0.0.1:9", "WEFT_CONNECT_TIMEOUT": "1"},
            status=None),
        # Ranks on several nodes read it.
        Row("WEFT_ALGORITHMS", [launch, "-n", "2", "sh", "-c", 'WEFT_HOST_ID=node$WEFT_RANK exec "$@"', "sh", tool("weft-bench"), "all_reduce", "-b", "8",
                                "-e", "8", "-n", "2"], "any all_reduce 2 0 direct\n", variables={"WEFT_ALGORITHMS": "FILE", "WEFT_TRANSPORT": "tcp"}, status=None),
        *[Row(f"WEFT_RENDEZVOUS=file:// of rank {rank}", [tool("weft-bench"), "all_reduce", "-b", "8", "-e", "8", "-n", "2"], None,
              variables={"WEFT_RANK": str(rank), "WEFT_SIZE": "2", "WEFT_RENDEZVOUS": "file://FILE", "WEFT_CONNECT_TIMEOUT": "1"}) for rank in (0, 1)],
        Row("weft-scaling --text", [scaling, "--model", "gpt-tiny", "--steps", "7", "--text", "FILE"], text.read_text(), refused=(42, 70)),
        Row("weft-scaling --compare", [scaling, *small, "--strategies", "ddp", "--compare", "FILE"], good["run"], piped=True, status=None),
        Row("weft-scaling --deepspeed", [scaling, *small, "--strategies", "ddp", "--deepspeed", "FILE"],
            '{"train_batch_size": 1, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}', piped=True, status=None),
        Row("gpt --text", [tool("gpt"), "--model", "gpt-tiny", "--steps", "7", "--text", "FILE"], text.read_text(), refused=(42, 70)),
        Row("gpt --checkpoint", [tool("gpt"), *small, "--checkpoint", "FILE"], None),
    ]


def others(work):
    """What may lie there instead of a file: (name, path)"""
    pipe, folder, listener = work / "pipe", work / "folder", work / "socket"
    os.mkfifo(pipe)
    folder.mkdir()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(listener))
    return server, {"pipe": pipe, "folder": folder, "socket": listener, "device": pathlib.Path("/dev/zero"), "terminal": pathlib.Path("/dev/ptmx"),
                    "nothing": work / "no" / "such"}


# A folder is what these are given; nothing there is where they begin.
FOLDERS = ("weft-report nccl", "weft-scaling --text", "gpt --text", "gpt --checkpoint", "weft-report diff", "weft-report tune --log")
MISSING = ("weft-report env, NCCL_CONF_FILE", "gpt --checkpoint", "WEFT_RENDEZVOUS=file:// of rank 0", "WEFT_RENDEZVOUS=file:// of rank 1")


def check_row(row, places, work):
    for kind, path in places.items():
        if (kind == "folder" and row.name in FOLDERS) or (kind == "nothing" and row.name in MISSING):
            continue
        done = row.run(path)
        # A log that cannot be read is told, and the run goes on.
        right = done.returncode in row.refused or (row.name == "weft-report tune --log" and done.returncode in (0, 1))
        expect(f"{row.name} of a {kind}", right and str(path) in done.stderr + done.stdout and "Interrupted" not in done.stderr, done)
    if row.content is None:
        return
    good = work / f"good {row.name.replace('/', '')}"
    good.write_text(row.content)
    good.chmod(0o600)
    of_file = row.run(good)
    expect(f"{row.name} of a file", of_file.returncode == row.status if row.status is not None else of_file.returncode >= 0, of_file)
    if not row.piped:
        return
    words = " ".join("<(cat \"$CONTENT\")" if word == "FILE" else f"'{word}'" for word in map(str, row.words))
    piped = run(["bash", "-c", words], {"CONTENT": str(good), **row.variables})
    expect(f"{row.name} of a pipe with a writer", piped.returncode == of_file.returncode, (piped, of_file.returncode))


def check_named_pipe_with_a_writer(work):
    pipe = work / "fed"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", f"sleep 1; printf 'NCCL_DEBUG=WARN\\n' > '{pipe}'"])
    done = run([tool("weft-report"), "env", pipe])
    expect("a named pipe whose writer comes later", done.returncode == 0, done)
    writer.wait()


def check_standard_input(work):
    log = work / "stdin.log"
    log.write_text(LOG)
    for words, content in (([tool("weft-report"), "nccl", "-"], LOG), ([tool("weft-report"), "env", "-"], "NCCL_DEBUG=WARN\n"), ([tool("weft-launch"), "lint", "-"], MANIFEST)):
        log.write_text(content)
        with open(log) as file:
            expect(f"{words} from a file", run(words, stdin=file).returncode == 0)
        done = run(["sh", "-c", f"cat '{log}' | \"$@\"", "sh", *words])
        expect(f"{words} from a pipe", done.returncode == 0, done)
        one, other = socket.socketpair()
        one.sendall(content.encode())
        one.close()
        done = run(words, stdin=other)
        expect(f"{words} from a socket", done.returncode == 0, done)
        other.close()
        done = run(words, stdin=open("/dev/null"))
        expect(f"{words} from /dev/null", done.returncode == 42, done)


def check_folders(work, places):
    """Files that a program finds in a folder: what is no regular file is refused, or passed over."""
    plan, report = tool("weft-plan"), tool("weft-report")
    for kind, path in places.items():
        if kind == "nothing":
            continue
        flight = work / f"flight-{kind}"
        flight.mkdir()
        (flight / "rank-0.json").symlink_to(path)
        done = run([report, "flight", flight])
        expect(f"a flight record that is a {kind}", done.returncode == 42 and "rank-0.json" in done.stderr, done)
        dumps = work / f"dumps-{kind}"
        dumps.mkdir()
        (dumps / "nccl_trace_rank_0").symlink_to(path)
        expect(f"a dump that is a {kind}", run([report, "flight", dumps]).returncode == 42)
        if kind != "folder":
            expect(f"a log in a folder that is a {kind}", run([report, "nccl", dumps]).returncode == 42)
        home = work / f"home-{kind}"
        home.mkdir()
        (home / ".nccl.conf").symlink_to(path)
        done = run([report, "env"], {"HOME": str(home)})
        expect(f"a configuration of NCCL that is a {kind}", done.returncode == 42 and ".nccl.conf" in done.stderr, done)
        for file in ("index.json", "rank-00000.safetensors"):
            saved = work / f"saved-{kind}-{file}"
            expect("a checkpoint", run([BIN / "save_checkpoint", saved, "40", "2", "1"]).returncode == 0)
            (saved / "step-00000040" / file).unlink()
            (saved / "step-00000040" / file).symlink_to(path)
            whole = work / "whole"
            run([BIN / "save_checkpoint", whole, "40", "2", "1"])
            for words in ([], ["--verify"], ["--export", work / "out"], ["--diff", whole]):
                done = run([plan, "checkpoint", saved, *words])
                reads = file == "index.json" or words
                expect(f"{file} that is a {kind}, {words}", done.returncode in ((1, 42, 70) if reads else (0,)) and (not reads or file in done.stdout + done.stderr), done)
            if file == "index.json":
                done = run([tool("gpt"), "--model", "gpt-tiny", "--text", work / "text.txt", "--steps", "7", "--checkpoint", saved])
                expect(f"gpt goes on from an index that is a {kind}", done.returncode == 42 and file in done.stderr, done)
    for kind in ("pipe", "device", "socket", "folder"):
        lock = work / f"lock-{kind}"
        lock.mkdir()
        (lock / ".weft-saver").symlink_to(places[kind])
        done = run([BIN / "save_checkpoint", lock, "40", "2", "1"])
        expect(f"a lock that is a link to a {kind}", done.returncode in (42, 70), done)
    lock = work / "lock"
    lock.mkdir()
    os.mkfifo(lock / ".weft-saver")
    done = run([BIN / "save_checkpoint", lock, "40", "2", "1"])
    expect("a lock that is a pipe", done.returncode == 42 and "no regular file" in done.stderr, done)


def check_outputs(work):
    pipe = work / "unread"
    os.mkfifo(pipe)
    done = run([tool("weft-plan"), "memory", "--json", pipe])
    expect("an output that is a pipe without a reader", done.returncode == 42 and "no process reads from it" in done.stderr, done)
    done = run(["bash", "-c", f"'{tool('weft-plan')}' memory --json >(cat > '{work}/piped.json'); status=$?; sleep 1; exit $status"])
    expect("an output that is a pipe with a reader", done.returncode == 0 and (work / "piped.json").stat().st_size > 100, done)


def main():
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        (work / "log").write_text(LOG)
        server, places = others(work)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:  # many rows wait for a rank that does not come
            for done in [pool.submit(check_row, row, places, work) for row in rows(work)]:
                done.result()
        check_named_pipe_with_a_writer(work)
        check_standard_input(work)
        check_folders(work, places)
        check_outputs(work)
        server.close()
    print(f"{checks} checks, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
