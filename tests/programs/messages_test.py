#!/usr/bin/env python3
"""No message of any program shows where in a library's source its exception was thrown, and no exception of a library ends a program.

usage: messages_test.py FOLDER_OF_THE_PROGRAMS FOLDER_OF_THE_PROJECT [SHARE]

SHARE of all runs (0.15), drawn with SEED; 1: all, a few minutes. Provokes each kind of library error that the sources can meet: Boost.Asio without
descriptors and at addresses that it cannot have; Boost.JSON, YAML and the readers of text with files that are none; Boost.Program_options with values that are none;
std::filesystem with paths that are none. Then looks through the sources: what() of an exception that is no Error goes through message_of().
"""

import concurrent.futures
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile

BIN, TOP = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
PLACE = re.compile(r"/usr/include|\.[hi]pp:\d|\.cpp:\d|\[[\w.]+:-?\d+ at |in function '|terminate called|Exception raised from")
FILES = {
    "empty": b"", "open": b'{"', "cut": b'{"weft_flight": 1, "rank"', "array": b"[]", "null": b"null", "string": b'"x"', "number": b"1e99999", "large": b"[" + b"9" * 400 + b"]",
    "keys": b'{"a": 1, "a": 2}', "escape": b'["\\ud800"]', "bytes": b'["\xff\xfe\xc3"]', "zeros": bytes(64), "deep": b"[" * 100000, "objects": b'{"a":' * 50000,
    "yaml": b"a: [b\n", "alias": b"a: *nothing\n", "anchor": b"a: &a [*a]\n", "tab": b"a:\n\t- b\n", "tag": b"a: !!float x\n? \n", "pods": b"kind: Job\nspec: {template: 3}\n",
    "manifest": b"apiVersion: batch/v1\nkind: Job\nmetadata: {name: 1e999}\nspec: {completions: 99999999999999999999999, parallelism: .nan}\n",
    "host": b'{"program": ["x"], "environment": 3}\n', "job": b'{"program": [], "environment": [], "size": "x", "rendezvous": 1}\n', "rows": b"1,2\nx,,\n" * 20}
VALUES = ["", "x", "-1", "0", "1e999", "nan", "99999999999999999999999", "\udcff\udcfe", "1,,2", ":", "[::1", "a" * 5000]
COMMANDS = [("weft-launch",), ("weft-launch", "env"), ("weft-launch", "lint"), ("weft-plan", "buckets"), ("weft-plan", "checkpoint"), ("weft-plan", "memory"),
            ("weft-plan", "schedule"), ("weft-report", "flight"), ("weft-report", "env"), ("weft-report", "nccl"), ("weft-report", "ras"), ("weft-report", "watch"), ("weft-report", "diff"), ("weft-report", "tune"),
            ("weft-bench",), ("weft-scaling",), ("gpt",), ("ddp",)]
LAST = {("weft-launch",): ["true"], ("weft-report", "tune"): ["--", "true"], ("weft-report", "watch"): ["--for", "1", "--timeout", "1"]}  # after the options
SHARE = float(sys.argv[3]) if len(sys.argv) > 3 else 0.15
chance = random.Random(int(os.environ.get("SEED", "1")))
# Most runs wait for an address that nobody has, so several go on at once. A program alone takes a fraction of a second.
pool = concurrent.futures.ThreadPoolExecutor(4)
under_way = []
runs = failures = 0
seen = set()


def fail(words):
    global failures
    failures += 1
    print(f"FAILED: {words}"[:1500], flush=True)


def run(command, files=None, stdin=b"", cwd=None, always=False, **env):
    """Unless the draw leaves it out. What it says is looked at by settled()."""
    global runs
    if not always and chance.random() >= SHARE:
        return
    runs += 1
    words = [str(word) for word in command]
    shown = f"{' '.join(word[:80] for word in words)} {env or ''}{f' with {files} files' if files else ''}"
    if files is not None:
        # Not preexec_fn, which is not safe beside threads. The shell opens nothing, and is gone before the program begins.
        words = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *words]
    under_way.append(pool.submit(outcome, words, stdin, cwd, env, shown))


def outcome(words, stdin, cwd, env, shown):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "RANK", "WORLD_SIZE", "MASTER_", "PMI"))}
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, cwd=cwd,
                               env=kept | {"WEFT_FLIGHT_DIR": "off", "WEFT_CONNECT_TIMEOUT": "2", "WEFT_TIMEOUT": "5"} | env)
    try:
        out = process.communicate(stdin, 60)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out = process.communicate()[0].decode(errors="replace")
    return shown, process.returncode, out


def settled():
    """Looks at what was started, in its order."""
    for one in under_way:
        shown, status, out = one.result()
        if match := PLACE.search(out):
            fail(f"{shown}: {match[0]}: {out[max(0, match.start() - 300):match.end() + 200]}")
        if status in (-6, 134):
            fail(f"{shown}: ended by SIGABRT: {out[-600:]}")
        seen.update(re.findall(r"Too many open files|is no (?:array|object)|is not a job|syntax error|[Cc]annot assign|in use|required argument|is invalid|yaml", out))
    under_way.clear()


def options_of(command):
    """Those of its help that take a value."""
    shown = subprocess.run([BIN / command[0], *command[1:], "--help"], capture_output=True, text=True, check=False).stdout
    return sorted(set(re.findall(r"^  (?:-\w \[ )?(--[\w-]+)(?: \])? [A-Z|\[]", shown, re.M)))


def wrong_values(work):
    for command in COMMANDS:
        program = [BIN / command[0], *command[1:]] + (["all_reduce", "-e", "64", "-n", "1"] if command[0] == "weft-bench" else [])
        if command[0] in ("weft-scaling", "gpt"):
            program += ["--text", work / "text", "--model", "gpt-tiny", "--steps", "1"]
        if command == ("weft-launch",):
            program += ["-n", "1"]
        for option in options_of(command):
            for value in VALUES + [work / "rows", work / "open", work / "open" / "beneath", "/dev/full"]:
                run([*program, option, value, *LAST.get(command, [])], cwd=work)
        for words in (["--no-such-option"], ["--"], ["-"], ["--json"], ["--help=1"], ["--version=x"], ["-n", "\udcff"]):
            run([*program, *words], cwd=work)


def wrong_files(work):
    readers = [["weft-launch", "lint"], ["weft-plan", "buckets"], ["weft-plan", "checkpoint"], ["weft-report", "env"], ["weft-report", "nccl"], ["weft-report", "ras"], ["weft-report", "flight"],
               ["weft-plan", "schedule", "--schedule"], ["weft-plan", "schedule", "--devices", "2", "--microbatches", "2", "--profile"], ["weft-launch", "-n", "1", "--hosts"]]
    for name, content in FILES.items():
        path = work / name
        path.write_bytes(content)
        for reader in readers:
            run([BIN / reader[0], *reader[1:], path, *(["true"] if reader[-1] == "--hosts" else [])], cwd=work)
        run([BIN / "weft-report", "diff", path, path], cwd=work)
        run([BIN / "weft-report", "watch", "--for", "1", "--timeout", "1", "--logs", path], cwd=work)
        run([BIN / "weft-launch", "host"], stdin=content + b"\n", cwd=work, always=True)
        for places in ("rank-0.json", "index.json", "nccl_trace_rank_0"):
            folder = work / f"{name}.{places}"
            folder.mkdir()
            (folder / places).write_bytes(content)
            run([BIN / "weft-report", "flight", folder], cwd=work)
            run([BIN / "weft-report", "watch", "--for", "1", "--timeout", "1", "--records", folder, "--inspector", folder], cwd=work)
            run([BIN / "weft-plan", "checkpoint", folder], cwd=work)
        for variable in ("WEFT_ALGORITHMS", "WEFT_TOKEN_FILE", "WEFT_HOSTS", "NCCL_CONF_FILE"):
            run([BIN / "ddp", work / "short"], cwd=work, **{variable: str(path)})
    for path in (work / "text" / "x", "/proc/self/mem", "/dev", "a" * 300, "a/" * 3000):
        for reader in [*readers, ["ddp"], ["gpt", "--steps", "1", "--model", "gpt-tiny", "--text"], ["weft-scaling", "--steps", "1", "--model", "gpt-tiny", "--text"]]:
            run([BIN / reader[0], *reader[1:], path, *(["true"] if reader[-1] == "--hosts" else [])], cwd=work)


def wrong_addresses(work):
    """What Boost.Asio throws or answers where ranks meet, and where metrics are served."""
    alone = {"WEFT_RANK": "0", "WEFT_SIZE": "1", "WEFT_TOKEN": "0123456789abcdef"}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", "192.0.2.1:9400", "256.1.1.1:1", "[::1]:0", "[::ffff]:x", "127.0.0.1:99999", "no.such.host.invalid:9", ":9", "", "a" * 3000):
            run([BIN / "ddp", work / "short"], **alone, WEFT_RENDEZVOUS=f"tcp://{address}")
            run([BIN / "ddp", work / "short"], always=True, **{**alone, "WEFT_SIZE": "2"}, WEFT_RENDEZVOUS=f"tcp://{address}")
            run([BIN / "ddp", work / "short"], **{**alone, "WEFT_RANK": "1", "WEFT_SIZE": "2"}, WEFT_RENDEZVOUS=f"tcp://{address}")
        for bind in ("x", "127.0.0.1:3", "192.0.2.1", "::", "\udcff"):
            run([BIN / "ddp", work / "short"], **alone, WEFT_RENDEZVOUS="tcp://no.such.host.invalid:19400", WEFT_BIND=bind)
            run([BIN / "weft-scaling", "--model", "gpt-tiny", "--text", work / "text", "--steps", "1", "--metrics", str(port), "--metrics-bind", bind])
        for place in (f"{port}", f"127.0.0.1:{port}", "192.0.2.1:9", "no.such.host.invalid:9", "[::1]:9", "[x:1", "a" * 3000 + ":1"):
            run([BIN / "weft-report", "watch", "--for", "1", "--ranks", place])
        for bind in ("x", "192.0.2.1", "127.0.0.1", "\udcff"):
            run([BIN / "weft-report", "watch", "--for", "1", "--metrics-port", str(port), "--metrics-bind", bind])
        for interface in ("x", "lo", ",", "\udcff"):
            run([BIN / "weft-launch", "-n", "2", BIN / "ddp", work / "short"], WEFT_TRANSPORT="tcp", WEFT_INTERFACE=interface)
            run([BIN / "weft-launch", "-n", "2", "sh", "-c", f"WEFT_HOST_ID=$WEFT_RANK exec {BIN / 'ddp'} {work / 'short'}"], WEFT_TRANSPORT="tcp", WEFT_INTERFACE=interface)
        settled()  # while the port is taken


def few_files(work):
    on_two = ["sh", "-c", f"WEFT_HOST_ID=$WEFT_RANK exec {BIN / 'ddp'} {work / 'short'}"]
    alone = {"WEFT_RANK": "0", "WEFT_SIZE": "1", "WEFT_RENDEZVOUS": "tcp://127.0.0.1:0"}
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    for files in range(3, 40):
        run([BIN / "ddp", work / "short"], files, **{**alone, "WEFT_RENDEZVOUS": f"tcp://127.0.0.1:{port}"})
        run([BIN / "weft-launch", "-n", "2", *on_two], files, always=files < 14, WEFT_TRANSPORT="tcp")
        run([BIN / "weft-launch", "-n", "2", BIN / "ddp", work / "short"], files)
        run([BIN / "weft-scaling", "--model", "gpt-tiny", "--text", work / "text", "--steps", "1", "--metrics", str(port)], files)
        for command in (["weft-bench", "all_reduce", "-e", "64", "-n", "1"], ["weft-plan", "memory"], ["weft-report", "env"], ["weft-launch", "lint", work / "manifest"],
                        ["weft-report", "flight", work], ["weft-report", "watch", "--for", "1", "--ranks", str(port), "--metrics-port", str(port)], ["gpt", "--model", "gpt-tiny", "--text", work / "text", "--steps", "1"]):
            run([BIN / command[0], *command[1:]], files, cwd=work)


def sources():
    """Every exception of a library goes through the one function."""
    found = 0
    for folder in ("src", "tools", "include", "examples", "bench"):
        for path in sorted((TOP / folder).rglob("*")):
            if path.suffix not in (".cpp", ".hpp", ".cu", ".cuh", ".inc"):
                continue
            text = path.read_text()
            for match in re.finditer(r"catch \(\s*const ([\w:]+)& (\w+)\)", text):
                kind, name = match[1], match[2]
                block = text[match.end():]
                block = block[:min(at for at in (block.find("catch ("), block.find("\n}\n"), len(block)) if at >= 0)]
                found += 1
                if kind.removeprefix("weft::") not in ("Error", "torch::Error") and f"{name}.what()" in block:
                    fail(f"{path.relative_to(TOP)}: what() of a {kind}, whose place in a library's source message_of() takes off")
    if found < 50:
        fail(f"{found} places that catch exceptions are too few to be all")
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "text").write_text("the text of a small model " * 2000)
        (work / "short").write_text("short")
        for name, content in FILES.items():
            (work / name).write_bytes(content)
        for provoke in (wrong_values, wrong_addresses, few_files, wrong_files):
            provoke(work)
            settled()
    found = sources()
    for words in ("Too many open files", "syntax error", "is not a job", "in use"):
        if words not in seen:
            fail(f"nothing said '{words}': what was to be provoked was not")
    print(f"{runs} runs, {found} places that catch exceptions, {failures} failures")
    return 1 if failures else 0


sys.exit(main())
