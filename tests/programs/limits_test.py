#!/usr/bin/env python3
"""Where memory, a file's size or a name ends: no program says std::bad_alloc, none ends by SIGXFSZ, and an option that names a file is not empty.

usage: limits_test.py BIN
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1]).resolve()
failures = checks = 0


def expect(what, holds, done=""):
    global failures, checks
    checks += 1
    if not holds:
        failures += 1
        print(f"FAILED: {what}: {done}")


def run(words, limit="", environment=None, stdout=subprocess.PIPE, seconds=120):
    """@param limit: words for the shell before the program: ulimit -v 100000"""
    return subprocess.run(["bash", "-c", f'{limit}\nexec "$@"', "bash", *map(str, words)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          errors="replace", timeout=seconds, env=dict(os.environ, WEFT_FLIGHT_DIR="off", **(environment or {})))


def tool(name):
    return str(BIN / name)


def commands(work):
    """(what prints the help, a command to which options may be added)"""
    plan, report, launch = tool("weft-plan"), tool("weft-report"), tool("weft-launch")
    text = work / "text.txt"
    text.write_text("some text to train on, of 26 letters and a few more\n" * 200)
    log = work / "log"
    log.write_text("node1:7:7 [0] NCCL INFO Using network IB\n")
    return [
        ([plan, "--help"], [plan, "buckets", log]), ([plan, "memory", "--help"], [plan, "memory"]), ([plan, "schedule", "--help"], [plan, "schedule"]),
        ([plan, "checkpoint", "--help"], [plan, "checkpoint", work]), ([report, "nccl", "--help"], [report, "nccl", log]), ([report, "env", "--help"], [report, "env", log]), ([report, "ras", "--help"], [report, "ras", log]), ([report, "watch", "--help"], [report, "watch", "--for", "2"]),
        ([report, "diff", "--help"], [report, "diff", log, log]), ([report, "flight", "--help"], [report, "flight", work]),
        ([report, "tune", "--help"], [report, "tune"]), ([launch, "--help"], [launch, "-n", "1"]), ([launch, "env", "--help"], [launch, "env"]),
        ([launch, "lint", "--help"], [launch, "lint", log]), ([tool("weft-bench"), "--help"], [tool("weft-bench"), "all_reduce"]),
        ([tool("weft-scaling"), "--help"], [tool("weft-scaling"), "--model", "gpt-tiny", "--steps", "7"]), ([tool("gpt"), "--help"], [tool("gpt"), "--model", "gpt-tiny", "--steps", "7"])]


def check_empty_names(work):
    seen = set()
    for asks, command in commands(work):
        words = run(asks).stdout
        options = sorted({option for option, _ in re.findall(r"^ +(?:-\w \[ )?--([a-z-]+)(?: \])? (FILE|PATH|FOLDER|DIR|OTHER)\b", words, re.MULTILINE)})
        for option in options:
            seen.add(option)
            end = ["--", "true"] if command[-1] == "1" else []
            done = run([*command, f"--{option}", "", *end])
            expect(f"{command[:2]} --{option} ''", done.returncode == 42 and f"--{option}" in done.stderr and done.stderr.count("\n") == 1, done)
    expect("all options of files are seen", {"json", "sarif", "html", "markdown", "text", "csv", "svg", "trace", "compare", "schedule", "profile", "diff", "export", "hosts",
                                             "checkpoint", "deepspeed", "report", "tune", "output", "log"} <= seen, seen)
    for words in (["weft-plan", "buckets", ""], ["weft-plan", "checkpoint", ""], ["weft-report", "nccl", ""], ["weft-report", "env", ""], ["weft-report", "ras", ""], ["weft-report", "watch", ""], ["weft-report", "flight", ""],
                  ["weft-report", "diff", "", ""], ["weft-launch", "lint", ""], ["weft-launch", "-n", "1", ""]):
        done = run([tool(words[0]), *words[1:]])
        expect(f"{words}", done.returncode == 42 and done.stderr.count("\n") == 1, done)


def check_memory(work):
    sparse = work / "sparse"
    sparse.touch()
    saved = work / "saved" / "step-00000001"
    saved.mkdir(parents=True)
    rows = [
        ["weft-plan", "schedule", "--name", "1f1b", "--devices", "8000", "--microbatches", "1000000", "-q"],
        ["weft-plan", "schedule", "--name", "1f1b", "--devices", "1000", "--microbatches", "100000", "-q"],
        ["weft-plan", "schedule", "--schedule", sparse], ["weft-plan", "schedule", "--profile", sparse], ["weft-plan", "buckets", sparse],
        ["weft-plan", "checkpoint", work / "saved"], ["weft-plan", "memory", "--layers", "10000", "--width", "100000"],
        ["weft-plan", "scale", "--hardware", sparse, "--model", "llama3.1-8b", "--gpus", "8", "--global-batch", "8"],
        ["weft-bench", "all_reduce", "-b", "8", "-e", "64G", "-i", "1"], ["weft-bench", "all_reduce", "-b", "1", "-e", "1G", "-f", "1.0000001"],
        ["weft-bench", "all_reduce", "-b", "16G", "-e", "16G", "-n", "1"], ["weft-report", "nccl", sparse], ["weft-report", "env", sparse], ["weft-report", "ras", sparse], ["weft-report", "watch", "--for", "1", "--timeout", "1", "--logs", sparse],
        ["weft-launch", "lint", sparse], ["weft-launch", "--hosts", sparse, "true"], ["gpt", "--model", "gpt-tiny", "--text", sparse, "--steps", "1"],
        ["weft-scaling", "--model", "gpt-tiny", "--text", sparse, "--steps", "7", "--strategies", "ddp"], ["weft-scaling", "--model", "gpt-tiny", "--steps", "7", "--deepspeed", sparse]]
    for size in (3 << 30, 50 << 20):
        os.truncate(sparse, size)
        (saved / "index.json").unlink(missing_ok=True)
        os.link(sparse, saved / "index.json")
        for words in rows:
            done = run([tool(words[0]), *words[1:]], "ulimit -v 2500000")
            expect(f"{words} with {size} bytes", done.returncode in (0, 42, 70) and "bad_alloc" not in done.stderr and "length_error" not in done.stderr and
                   (done.returncode == 0 or done.stderr), (done.returncode, done.stderr))
    # Less and less: libraries that find no place (127), a check that foresees it (42), and what none foresees (70). OpenBLAS, which is among the libraries,
    # ends a process by SIGINT if it has no memory for its threads: none here.
    ends = set()
    for kib in range(400_000, 40_000, -20_000):
        done = run([tool("weft-plan"), "schedule", "--name", "1f1b", "--devices", "100", "--microbatches", "30000", "-q"], f"ulimit -v {kib}",
                   {"OPENBLAS_NUM_THREADS": "1"})
        ends.add(done.returncode)
        expect(f"a program with {kib} KiB", done.returncode in (0, 42, 70, 127) and "bad_alloc" not in done.stderr and bool(done.stderr) == (done.returncode != 0), done)
    expect("with and without a check that foresees it", {42, 70} <= ends, ends)


def check_file_size(work):
    plan = tool("weft-plan")
    big = work / "big.svg"
    done = run([plan, "schedule", "--name", "1f1b", "--devices", "16", "--microbatches", "64", "-q", "--svg", big], "ulimit -f 8")
    expect("an output beyond ulimit -f", done.returncode == 70 and str(big) in done.stderr and "File too large" in done.stderr and not big.exists(), done)
    with open(work / "stdout", "w") as out:
        done = run([plan, "schedule", "--name", "1f1b", "--devices", "16", "--microbatches", "512", "-q", "--csv", "-"], "ulimit -f 8", stdout=out)
    expect("standard output beyond ulimit -f", done.returncode == 70 and "standard output" in done.stderr, done)
    # A heap is a file in memory: with limits that it fits, the checkpoint does not.
    text = work / "text.txt"
    small = {"WEFT_HEAP_BYTES": "1048576"}
    train = [tool("gpt"), "--model", "mlp-8x1024", "--text", text, "--steps", "1", "--checkpoint", work / "checkpoints"]
    for limit in ("ulimit -f 8", "ulimit -f 4096"):
        for ranks in ("1", "2"):
            done = run([tool("weft-launch"), "-n", ranks, *train], limit, small)
            expect(f"{limit}, {ranks} ranks", done.returncode in (70, 75) and "weft" in done.stderr and "File too large" in done.stderr and "signal 25" not in done.stderr and
                   "SIGXFSZ" not in done.stderr, done)
    done = run([tool("weft-launch"), "-n", "2", "sh", "-c", 'yes "$1" | head -c 100000 > "$2"', "sh", "word", work / "of-a-rank"], "ulimit -f 8")
    expect("a program that weft-launch starts has the limit as it was", done.returncode not in (0, 70), done)
    with open(work / "ranks", "w") as out:
        done = run([tool("weft-launch"), "-n", "2", "--output", "ranks", "sh", "-c", "yes word | head -c 100000"], "ulimit -f 8", stdout=out)
    expect("what ranks print through weft-launch beyond ulimit -f", done.returncode == 70 and "standard output" in done.stderr, done)


def main():
    with tempfile.TemporaryDirectory() as place:
        for number, check in enumerate((check_empty_names, check_memory, check_file_size)):
            work = pathlib.Path(place) / str(number)
            work.mkdir()
            (work / "text.txt").write_text("some text to train on, of 26 letters and a few more\n" * 2000)
            check(work)
    print(f"{checks} checks, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
