#!/usr/bin/env python3
"""weft-plan and weft-report under valgrind, over the inputs of their tests and over cases: no error, and no block that is lost for good.

usage: valgrind.py [COUNT [BIN]]    so many commands over cases, drawn with SEED; without COUNT all of them, and the tests of both programs

The tests (tests/programs) run with programs in whose place valgrind runs the real ones, which takes minutes; what they compare is their own affair, and is only
told here. The cases are the fuzz targets' examples, and the logs, settings and files of CASES (../shared/cases:../shared/nccl_cases, where they are).
Ends with 1 where valgrind reports something, with 77 where it is missing.
"""

import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parent.parent
UNDER = ["weft-plan", "weft-report"]
WRAPPER = """#!/bin/sh
exec valgrind -q --log-file={logs}/%p --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --child-silent-after-fork=yes --vgdb=no {program} "$@"
"""
# Each test with its arguments.
TESTS = {"plan_test.sh": ["weft-plan", "weft-scaling", "weft-launch"], "report_test.sh": ["weft-report"], "flight_test.sh": ["weft-report", "weft-launch", "soak_fault"],
         "tune_test.sh": [""], "checkpoint_test.py": ["weft-plan", "save_checkpoint"], "report_files_test.py": ["weft-report"], "torch_records_test.py": ["weft-report"]}


def wrapped(programs, folder, logs):
    """A folder like `programs` whose weft-plan and weft-report run under valgrind."""
    for path in programs.iterdir():
        target = folder / path.name
        if path.name in UNDER:
            target.write_text(WRAPPER.format(logs=shlex.quote(str(logs)), program=shlex.quote(str(path))))
            target.chmod(0o755)
        elif path.is_file():
            target.symlink_to(path)
    return folder


def cases():
    """Files by what they are, of the fuzz targets and of CASES."""
    corpus = TREE / "tests/fuzz/corpus"
    beside = TREE.parent / "shared"
    more = os.environ.get("CASES", f"{beside / 'cases'}:{beside / 'nccl_cases'}").split(":")
    found = {kind: sorted((corpus / kind).iterdir()) for kind in ("nccl_log", "torch_record", "topology", "bandwidth", "flight", "earlier_run", "bucket_profile", "schedule_text", "csv", "profile",
                                                                  "checkpoint", "algorithm_table") if (corpus / kind).exists()}
    found["log"] = [path for folder in map(pathlib.Path, more) if folder.exists() for path in sorted(folder.rglob("*")) if path.is_file()]
    return found


def commands(work):
    """Lists of words; the first is the program."""
    files = cases()
    logs = files.get("nccl_log", []) + files["log"]
    every = [["weft-report", "nccl", path] for kind in ("torch_record", "topology", "bandwidth", "flight") for path in files.get(kind, [])]
    every += [["weft-report", "nccl", path, "--json", "-"] for path in logs]
    every += [["weft-report", "env", path] for path in files["log"] if path.suffix in (".env", ".conf") or path.parent.name == "nccl"]
    every += [["weft-report", "diff", one, other] for one, other in zip(logs, logs[1:])]
    every += [["weft-plan", "buckets", path] for path in files.get("earlier_run", []) + files.get("bucket_profile", [])]
    every += [["weft-plan", "schedule", "--schedule", path] for path in files.get("csv", []) + files.get("schedule_text", [])]
    every += [["weft-plan", "schedule", "--profile", path, "--name", "zb-h1"] for path in files.get("profile", [])]
    every += [["weft-plan", "schedule", "--name", name, "--stages", 4, "--microbatches", 8, "--svg", work / "drawn.svg", "--trace", work / "trace.json"]
              for name in ("1f1b", "gpipe", "zb-h1", "zb-v", "interleaved", "auto")]
    every += [["weft-plan", "memory", "--layers", layers, "--width", 512, "--dtype", dtype, "--ranks", ranks] for layers, dtype, ranks in ((2, "f32", 3), (12, "bf16", 64), (32, "f16", 1))]
    for index, path in enumerate(files.get("flight", [])):
        (work / f"flight{index}").mkdir()
        shutil.copy(path, work / f"flight{index}" / "rank-0.json")
        every.append(["weft-report", "flight", work / f"flight{index}"])
    for index, path in enumerate(files.get("checkpoint", [])):
        folder = work / f"saved{index}" / "step-00000001"
        folder.mkdir(parents=True)
        shutil.copy(path, folder / "index.json")
        every += [["weft-plan", "checkpoint", folder, "--verify"], ["weft-plan", "checkpoint", folder.parent]]
    return every + [[name, "--help"] for name in UNDER] + [[name, "--version"] for name in UNDER] + [["weft-report", "env"]]


def main():
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        return 77
    with tempfile.TemporaryDirectory(prefix="weft-valgrind-") as kept:
        folder = pathlib.Path(kept)
        for name in ("bin", "logs", "work"):
            (folder / name).mkdir()
        place = wrapped(programs, folder / "bin", folder / "logs")
        all_commands = commands(folder / "work")
        whole = len(sys.argv) < 2 or not sys.argv[1]
        drawn = all_commands if whole else random.Random(int(os.environ.get("SEED", "1"))).sample(all_commands, min(int(sys.argv[1]), len(all_commands)))
        strange = 0
        for words in drawn:
            done = subprocess.run([str(place / words[0]), *map(str, words[1:])], capture_output=True, stdin=subprocess.DEVNULL, check=False)
            if done.returncode not in (0, 1, 2, 42):
                strange += 1
                print(f"FAILED: status {done.returncode} of {' '.join(map(str, words))}: {done.stderr.decode(errors='replace')[-300:]}", flush=True)
        for name, arguments in TESTS.items() if whole else ():
            absent = [one for one in arguments if not (place / one).exists()]
            if absent:
                print(f"left out: {name}, for this build has no {', '.join(absent)}")
                continue
            script = TREE / "tests/programs" / name
            done = subprocess.run(["bash" if name.endswith(".sh") else sys.executable, str(script), *(str(place / one) if one else str(place) for one in arguments)],
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
            failures = [line for line in (done.stdout + done.stderr).splitlines() if "FAILED" in line or "Error" in line]
            print(f"{name}: status {done.returncode}{'; ' + failures[0] if failures else ''}", flush=True)  # those that close the standard output find valgrind there
        logs = sorted((folder / "logs").iterdir())
        # Where a test closes the standard output, the log has its number, and what the program prints.
        said = [path.read_text(errors="replace") for path in logs]
        reports = [words for words in said if re.search(r"^==\d+==", words, re.M)]
        for words in reports[:10]:
            print("FAILED: valgrind says:\n" + "\n".join("    | " + line for line in words.splitlines()[:40]), flush=True)
    print(f"{len(logs)} runs under valgrind, {len(reports)} with errors, {strange} that ended otherwise than they may")
    return 1 if reports or strange or len(logs) < len(drawn) else 0


if __name__ == "__main__":
    sys.exit(main())
