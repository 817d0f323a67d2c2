#!/usr/bin/env python3
"""Names from files, logs, other processes, the environment and the command line hold control characters: no program prints one, in any message, table
or page, and none forges a line.

usage: names_test.py BIN
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1]).resolve()
# A terminal's commands, line ends, DEL, C1, marks that turn the direction of text, of no width, and line ends that only Unicode knows.
MARKS = "\x1b[2J\x1b]0;x\x07\b\r\x7f\u009b31m\u0085\u202e\u2066\u200b\u2028\ufeff\U000e0041"
FORGED = "\nFORGED"
HOSTILE = f"a{MARKS}{FORGED}z"
BYTES = b"\xff\xfe\xc3("  # no UTF-8
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]")
failures = checks = 0


def expect(what, holds, done=""):
    global failures, checks
    checks += 1
    if not holds:
        failures += 1
        print(f"FAILED: {what}: {done}")


def expect_clean(what, raw, pages=False):
    """@param pages: HTML and JSON may hold tabs and carriage returns of their own"""
    try:
        words = raw.decode()
    except UnicodeDecodeError as error:
        return expect(what, False, f"{error} in {raw[:400]!r}")
    found = HIDDEN.search(words.replace("\t", "") if pages else words)
    expect(what, not found, f"{found and hex(ord(found[0]))} in {words[max(0, (found.start() if found else 0) - 60):][:200]!r}")
    expect(f"{what}: no line is forged", pages or not any(line.startswith("FORGED") for line in words.splitlines()), repr(words[:600]))


def run(what, words, environment=None, has=None, statuses=(0, 1, 2, 42, 70, 75)):
    """@param has: words that show that the name was printed at all"""
    line = [word if isinstance(word, bytes) else os.fsencode(str(word)) for word in words]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, env={**os.environb, b"WEFT_FLIGHT_DIR": b"off", **(environment or {})})
    expect_clean(what, done.stdout + b"\n" + done.stderr)
    expect(f"{what}: ends as it should", done.returncode in statuses, done)
    if has is not None:
        expect(f"{what}: has {has!r}", has in done.stdout + done.stderr, done)
    return done


def tool(name):
    return str(BIN / name)


def check_checkpoints(work):
    plan = tool("weft-plan")
    # JSON has no other bytes than UTF-8, so the name of a tensor has none either; a path has.
    hostile = work / "hostile"
    subprocess.run([BIN / "save_checkpoint", hostile, "40", "2", "1", HOSTILE], check=True)
    subprocess.run([BIN / "save_checkpoint", work / "other", "40", "2", "2", HOSTILE], check=True)
    one = hostile / "step-00000040"
    run("a tensor's name", [plan, "checkpoint", one], has=b"\\x1b[2J", statuses=(0,))
    run("names beside others", [plan, "checkpoint", hostile, "--diff", work / "other"], has=b"\\u202e", statuses=(1,))
    figures = subprocess.run([plan, "checkpoint", one, "--json", "-"], capture_output=True, check=True).stdout
    expect("JSON has the name as it is", any(row["name"] == HOSTILE for row in json.loads(figures)["checkpoints"][0]["tensors"]), figures)
    file = one / "rank-00000.safetensors"
    content = bytearray(file.read_bytes())
    for at in range(len(content) - 2000, len(content)):
        content[at] ^= 1
    file.write_bytes(content)
    run("a damaged tensor", [plan, "checkpoint", one, "--verify"], has=b"DAMAGED", statuses=(1,))
    run("a damaged tensor is exported", [plan, "checkpoint", one, "--export", work / "out"], statuses=(70,))
    place = os.fsencode(work) + b"/" + os.fsencode(HOSTILE) + BYTES
    subprocess.run([BIN / "save_checkpoint", place, "40", "2", "1"], check=True)
    run("a folder's name", [plan, "checkpoint", place], has=b"\\xff", statuses=(0,))
    run("a folder's name, one", [plan, "checkpoint", place + b"/step-00000040", "--verify"], has=b"\\x1b", statuses=(0,))
    run("a folder's name, compared", [plan, "checkpoint", place, "--diff", work / "other"], has=b"\\x7f", statuses=(1,))
    run("a file's name, exported", [plan, "checkpoint", place, "--export", place + b".out"], has=b"\\xff", statuses=(0,))
    (hostile / "step-00000040" / "index.json").write_bytes(os.fsencode(HOSTILE) + BYTES)
    run("an index", [plan, "checkpoint", hostile], statuses=(42,))


def check_plans(work):
    plan = tool("weft-plan")
    name = work / "file.txt"
    path = os.fsencode(work) + b"/" + os.fsencode(HOSTILE) + BYTES
    schedule = subprocess.run([plan, "schedule", "--name", "1f1b", "--devices", "2", "--microbatches", "2", "-q", "--text", "-"], capture_output=True, check=True).stdout
    one_line = HOSTILE.replace("\n", " ").replace("\r", " ").replace("\u2028", " ").replace("\u0085", " ").encode()
    for content in (schedule, schedule.replace(b"1f1b", one_line + BYTES, 1), schedule.replace(b"F0", one_line, 1), os.fsencode(HOSTILE) + BYTES,
                    b"schedule " + os.fsencode(HOSTILE), b"0F0,0B0\n" + one_line + b",\n"):
        for file in (os.fsencode(name), path):
            pathlib.Path(os.fsdecode(file)).write_bytes(content)
            for more in ([], ["--text", "-"]):
                run(f"a schedule {content[:30]!r}", [plan, "schedule", "--schedule", file, "-q", *more])
    for content in (json.dumps({HOSTILE: 1}), json.dumps({"stages": HOSTILE}), json.dumps({"stages": [{HOSTILE: 1}]}), "{" + HOSTILE):
        pathlib.Path(os.fsdecode(path)).write_text(content)
        run(f"a profile {content[:40]!r}", [plan, "schedule", "--profile", path, "-q"], statuses=(42,))
        run(f"a trace {content[:40]!r}", [plan, "buckets", path], statuses=(42,))
    run("a name of a model", [plan, "memory", "--model", HOSTILE], has=b"\\x1b", statuses=(42,))
    run("a name of a schedule", [plan, "schedule", "--name", HOSTILE], has=b"\\x1b", statuses=(42,))


def check_reports(work):
    report = tool("weft-report")
    line = HOSTILE.replace("\n", " ").encode() + BYTES
    host = line.replace(b" ", b"_").replace(b":", b"_")
    log = work / "hostile.log"
    log.write_bytes(b"node1:7:7 [0] x.cc:1 NCCL WARN Error: failed to extend /dev/shm/nccl-" + line + b" to 9637892 bytes, error: No space left on device (28)\n" +
                    host + b":7:7 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n" + host + b":7:7 [0] NCCL INFO NCCL_IB_HCA set by environment to " + line + b"\n" +
                    b"node1:7:7 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0\n" +
                    b"node1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/" + line + b"\n")
    files = {kind: work / f"out.{kind}" for kind in ("json", "sarif", "markdown", "html")}
    every = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    other = os.fsencode(work) + b"/" + os.fsencode(HOSTILE) + BYTES
    run("a log", [report, "nccl", log, *every], has=b"\\x1b[2J", statuses=(1, 2))
    for kind, path in files.items():
        expect_clean(f"{kind} of a log", path.read_bytes() if kind not in ("json", "sarif") else json.dumps(json.loads(path.read_bytes())).encode(), pages=True)
    pathlib.Path(os.fsdecode(other)).write_bytes(log.read_bytes())
    run("a log's name", [report, "nccl", other], has=b"\\xff", statuses=(1, 2))
    run("two logs", [report, "diff", log, other], statuses=(0, 1, 2))
    for content in (b"\0" + line, b"", os.fsencode(HOSTILE)):
        pathlib.Path(os.fsdecode(other)).write_bytes(content)
        run(f"what is no log, {content[:20]!r}", [report, "nccl", other, log], statuses=(1, 2))
    answer = work / "answer"
    answer.write_bytes(b"NCCL version " + host + b" compiled with CUDA 12.8\n\nCommunicators... (0.00s)\n\nErrors\n======\n\nDEAD\n  1 job process is considered dead\n"
                       b"  Process 7 on node " + line + b" managing GPU 0\n\nWarnings\n========\n\n" + line + b"\n")
    run("an answer of RAS", [report, "ras", answer, *every], has=b"\\x1b[2J", statuses=(2,))
    for kind, path in files.items():
        expect_clean(f"{kind} of an answer", path.read_bytes() if kind not in ("json", "sarif") else json.dumps(json.loads(path.read_bytes())).encode(), pages=True)
    pathlib.Path(os.fsdecode(other)).write_bytes(answer.read_bytes())
    run("an answer's name", [report, "ras", other], has=b"\\xff", statuses=(2,))
    run("an address", [report, "ras", HOSTILE.replace("/", "")], has=b"\\x1b", statuses=(42,))
    settings = work / "settings.env"
    settings.write_bytes(b"NCCL_IB_DISABEL=" + line + b"\nNCCL_" + line + b"=1\nNCCL_DEBUG=" + line + b"\nNCCL_SOCKET_IFNAME=" + line + b"\n")
    run("settings", [report, "env", settings, *every], statuses=(1, 2))
    for kind, path in files.items():
        expect_clean(f"{kind} of settings", path.read_bytes() if kind not in ("json", "sarif") else json.dumps(json.loads(path.read_bytes())).encode(), pages=True)
    pathlib.Path(os.fsdecode(other)).write_bytes(settings.read_bytes())
    run("a settings file's name", [report, "env", other], statuses=(1, 2))
    run("settings here", [report, "env"], {b"NCCL_IB_HCA": os.fsencode(HOSTILE) + BYTES, b"NCCL_" + os.fsencode(HOSTILE): b"1", b"NCCL_CONF_FILE": os.fsencode(HOSTILE)}, statuses=(0, 1, 2))
    flight = work / "flight"
    flight.mkdir()
    record = {"weft_flight": 1, "rank": 0, "size": 2, "host": HOSTILE, "pid": 7, "reason": HOSTILE, "clock": {"steady_ns": 1, "wall_ns": 1}, "progress": [], "communicators": []}
    for changed in (record, {**record, HOSTILE: 1}, {**record, "rank": HOSTILE}, {**record, "communicators": [{HOSTILE: HOSTILE}]}):
        (flight / "rank-0.json").write_text(json.dumps(changed))
        run("a flight record", [report, "flight", flight, *every], statuses=(0, 1, 2, 42))
    dumped = {"version": "2.10", "nccl_comm_state": {}, "pg_config": {"0": {"name": HOSTILE, "desc": HOSTILE, "ranks": "[0, 1]"}},
              "pg_status": {}, "entries": [{"record_id": 0, "pg_id": 0, "process_group": [HOSTILE, HOSTILE], "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1,
                                            "profiling_name": HOSTILE, "time_created_ns": 1, "input_sizes": [[1]], "input_dtypes": [HOSTILE], "output_sizes": [[1]],
                                            "output_dtypes": [HOSTILE], "state": HOSTILE, "frames": [{"name": HOSTILE, "filename": HOSTILE, "line": 1}], "timeout_ms": 1,
                                            "is_p2p": False, "retired": False}]}
    dumps = work / "dumps"
    dumps.mkdir()
    (dumps / "dump_0").write_text(json.dumps(dumped))
    run("a dump of PyTorch", [report, "flight", dumps], statuses=(0, 1, 2, 42))
    run("a folder's name", [report, "flight", other], statuses=(42,))
    (work / "run.json").write_text(json.dumps({"findings": [{"cause": HOSTILE}]}))
    run("a run", [report, "diff", work / "run.json", log], statuses=(42,))


def check_launch(work):
    launch = tool("weft-launch")
    manifest = work / "job.yaml"
    quoted = json.dumps(HOSTILE)
    for content in (f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {quoted}\nspec:\n  completions: {quoted}\n  template:\n    spec:\n      containers:\n"
                    f"      - name: {quoted}\n        image: {quoted}\n        command: [weft-launch, {quoted}]\n        env:\n        - name: {quoted}\n          value: 1\n",
                    f"apiVersion: batch/v1\nkind: Job\n{quoted}: 1\n{quoted}: 2\n", f"kind: Job\n\t{HOSTILE}"):
        manifest.write_text(content)
        run("a manifest", [launch, "lint", manifest, "--json", work / "lint.json", "--sarif", work / "lint.sarif"], statuses=(0, 1, 2, 42))
    hosts = work / "hosts"
    for content in (f"{HOSTILE} slots=1\n", f"host slots={HOSTILE}\n", f"host {HOSTILE}=1\n", f"a{MARKS.replace(chr(13), '')}z slots=1\n"):
        hosts.write_text(content)
        run("a file of hosts", [launch, "--hosts", hosts, "--agent", "/bin/false", "true"], statuses=(42, 70, 75))
    run("a program", [launch, "-n", "1", HOSTILE], has=b"\\x1b", statuses=(42,))
    run("a program that cannot start", [launch, "-n", "1", os.fsencode(work) + b"/" + BYTES], statuses=(42,))
    run("an agent", [launch, "--hosts", hosts, "--agent", HOSTILE.replace("\n", "_"), "true"], statuses=(42,))
    run("an address", [launch, "-n", "1", "--nodes", "2", "--node", "0", "--address", HOSTILE, "true"], statuses=(42, 70, 75))
    for name in ("WEFT_RENDEZVOUS", "WEFT_STORE", "WEFT_RANK", "WEFT_LOG", "WEFT_TIMEOUT", "SLURM_NODELIST", "MASTER_ADDR", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK"):
        for value in (os.fsencode(HOSTILE), BYTES):
            more = {b"WEFT_RANK": b"0", b"WEFT_SIZE": b"1", b"RANK": b"0", b"WORLD_SIZE": b"1", b"MASTER_PORT": b"1", name.encode(): value}
            run(f"env, {name}", [launch, "env"], more)
            run(f"weft-bench, {name}", [tool("weft-bench"), "all_reduce", "-b", "8", "-e", "8", "-n", "2"], {**more, b"WEFT_CONNECT_TIMEOUT": b"1"})
    done = subprocess.run([launch, "env", "--json", "-"], capture_output=True, env={**os.environb, b"WEFT_RANK": b"0", b"WEFT_SIZE": b"1", b"WEFT_RENDEZVOUS": b"file:///" + BYTES})
    expect("JSON of the environment is UTF-8", json.loads(done.stdout.decode(errors="surrogateescape")) and b"\xff" not in done.stdout, done)


def check_trainings(work):
    text = work / "text.txt"
    text.write_text("some text to train on, of 26 letters and a few more\n" * 200)
    place = os.fsencode(work) + b"/" + os.fsencode(HOSTILE) + BYTES + b".text"
    scaling = [tool("weft-scaling"), "--model", "gpt-tiny", "--steps", "7"]
    for words in (["--text", place], ["--text", HOSTILE], ["--model", HOSTILE], ["--strategies", HOSTILE], [f"--{HOSTILE}"], ["--require", HOSTILE], [HOSTILE]):
        run(f"weft-scaling {words}", [*scaling, *words], statuses=(42,))
        run(f"gpt {words}", [tool("gpt"), "--model", "gpt-tiny", "--steps", "7", *words], statuses=(42,))
        run(f"weft-bench {words}", [tool("weft-bench"), "all_reduce", *words], statuses=(42,))
    config = os.fsencode(work) + b"/" + os.fsencode(HOSTILE) + BYTES + b".json"
    for content in ({HOSTILE: 1}, {"optimizer": {"type": HOSTILE}}, {"train_batch_size": HOSTILE}, {"train_batch_size": 1, "zero_optimization": {HOSTILE: HOSTILE}},
                    {"train_batch_size": 1, "comms_logger": {"prof_ops": [HOSTILE]}, "wandb": {"project": HOSTILE}}):
        pathlib.Path(os.fsdecode(config)).write_text(json.dumps(content))
        for more in (["--explain"], ["--text", text]):
            run(f"a configuration of DeepSpeed {list(content)}", [*scaling, "--deepspeed", config, *more])
    earlier = work / "earlier.json"
    for content in ({"runs": [{"strategy": HOSTILE}]}, {HOSTILE: 1}, {"model": HOSTILE, "runs": []}):
        earlier.write_text(json.dumps(content))
        run("an earlier run", [*scaling, "--text", text, "--strategies", "ddp", "--compare", earlier])
    run("a checkpoint's folder", [tool("gpt"), "--model", "gpt-tiny", "--steps", "7", "--text", text, "--checkpoint", os.fsencode(text) + b"/" + os.fsencode(HOSTILE)], has=b"\\x1b", statuses=(42,))
    for program in ("weft-plan", "weft-report", "weft-launch", "weft-bench"):
        run(f"a command of {program}", [tool(program), HOSTILE], statuses=(42,))
        run(f"an option of {program}", [tool(program), f"--{HOSTILE}"], statuses=(42,))
    outputs = os.fsencode(work) + b"/no\x1bsuch" + BYTES + b"/file"
    run("an output", [tool("weft-plan"), "memory", "--json", outputs], has=b"\\x1b", statuses=(42,))


def main():
    with tempfile.TemporaryDirectory() as place:
        for number, check in enumerate((check_checkpoints, check_plans, check_reports, check_launch, check_trainings)):
            work = pathlib.Path(place) / str(number)
            work.mkdir()
            check(work)
    print(f"{checks} checks, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
