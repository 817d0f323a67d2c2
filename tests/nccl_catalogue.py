#!/usr/bin/env python3
"""Compares the catalogue of NCCL's lines (tools/weft-report/nccl/catalogue/rows.inc) with the sources that print them.

    nccl_catalogue.py --nccl GIT [--ofi GIT] [--sharp GIT]            rows that no WARN format of any version has, and formats without a row
    nccl_catalogue.py ... --formats FILE                              writes every WARN format, with the versions that have it
    nccl_catalogue.py ... --program weft-report [--every 20]          gives the program a line of every 20th format, with two prefixes
    nccl_catalogue.py --library libnccl.so.2 [--program weft-report]  the same for the WARN formats of a library without source, from its code
    nccl_catalogue.py ... --reasons                                   INFO formats since 2.18 that speak of going on without something, and have no row
    nccl_catalogue.py ... --well weft-report                          no INFO and no TRACE format of a minor version's last release is a critical finding
    nccl_catalogue.py --check                                         rows and topics agree; needs no sources

GIT is the git directory of a clone with all tags: github.com/NVIDIA/nccl, github.com/aws/aws-ofi-nccl, github.com/Mellanox/nccl-rdma-sharp-plugins.
Only message formats are read: what stands in the first string of a call of WARN or NCCL_OFI_WARN, with what follows it directly, and for --reasons in
that of INFO. gIB has no public source: its lines are those of its documentation (cases.txt), and what it prints as NCCL's own IB does.
Exit status: 1 if a format has no row, a row names no topic, or the program does not recognise a line."""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tools/weft-report/nccl/catalogue"
LENGTHS = {"PRIu64": "lu", "PRIx64": "lx", "PRId64": "ld", "PRIi64": "ld", "PRIu32": "u", "PRIx32": "x", "PRIu16": "u", "PRIu8": "u"}
VALUE = re.compile(r"%[-+0# ]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|j)?[a-zA-Z]")
SAMPLES = {"s": "abc", "d": "7", "i": "7", "u": "7", "x": "7f", "X": "7F", "p": "0x7f00", "f": "1.5", "c": "c", "g": "1.5"}


def git(repository, *arguments):
    return subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, errors="replace", check=True).stdout


def literal_at(source, at):
    """The string literal at a place, with those that follow it; none: None."""
    words, seen = "", False
    while at < len(source):
        if source[at].isspace() or source.startswith("\\\n", at):
            at += 1
        elif source[at] == '"':
            at += 1
            while at < len(source) and source[at] != '"':
                if source[at] == "\\":
                    at += 1
                    words += {"n": "\n", "t": "\t", "\n": ""}.get(source[at], source[at])
                else:
                    words += source[at]
                at += 1
            at, seen = at + 1, True
        else:
            name = re.match(r"[A-Za-z_]\w*", source[at:])
            if not seen or not name or name[0] not in LENGTHS and not re.match(r"[A-Za-z_]\w*\s*\"", source[at:]):
                break
            words += LENGTHS.get(name[0], "%s")
            at += len(name[0])
    return words if seen else None


def literal_in(source, at):
    """The first string of a call behind its other arguments."""
    end = re.compile(r'[";]').search(source, at)
    return literal_at(source, end.start()) if end and end[0] == '"' else None


def formats_of(repository, tag, call):
    files = [name for name in git(repository, "ls-tree", "-r", "--name-only", tag).split("\n")
             if re.match(r"(src|include)/.*\.(cc|cu|c|h|hpp|cpp)$", name)]
    batch = subprocess.run(["git", "-C", repository, "cat-file", "--batch"], input="".join(f"{tag}:{name}\n" for name in files).encode(),
                           capture_output=True, check=True).stdout
    at = 0
    for name in files:
        head, _, _ = batch[at:].partition(b"\n")
        length = int(head.split()[2])
        begin = at + len(head) + 1
        source = batch[begin:begin + length].decode(errors="replace")
        at = begin + length + 1
        for place in re.finditer(rf"\b{call}\s*\(", source):
            words = literal_in(source, place.end()) if "INFO" in call else literal_at(source, place.end())
            if words and len(VALUE.sub("", words).strip()) > 4:
                yield name, words


def version_of(tag):
    return [int(part) for part in re.findall(r"\d+", tag)][:3]


def all_formats(given):
    """Format: (file, first version, last version)."""
    found = {}
    for repository, call, pattern, prefix in ((given.nccl, "WARN", r"v2\.(\d+)\.(\d+)-\d+$", ""),
                                              (given.ofi, "NCCL_OFI_WARN", r"v1\.\d+\.\d+(-aws)?$", "NET/OFI "),
                                              (given.sharp, "WARN", r"v2\.\d+\.\d+$|hpcx-v[\d.]+$", "")):
        if not repository:
            continue
        tags = [tag for tag in git(repository, "tag").split() if re.match(pattern, tag)]
        if repository == given.nccl:
            tags = [tag for tag in tags if version_of(tag)[1] >= 4]
        tags.sort(key=version_of)
        for tag in tags + ["HEAD"]:
            for name, words in formats_of(repository, tag, call):
                words = prefix + words
                version = ".".join(map(str, version_of(tag)[:2])) if tag != "HEAD" else "newest"
                first = found.get(words, (name, version, version))[1]
                found[words] = (name, first, version)
    return found


FALLS_BACK = re.compile(r"fall|disable|disabling|unsupported|unable|could ?n.t|could not|fail|not support|not avail|ignor|skip|instead|too low|too big|not valid|invalid|timeout error"
                        r"|mismatch|discard|without|not suff|unused|deprecat|permanently", re.I)
# Of every job, also of those that are well, or beside a warning that has a row.
SAID_BY_ALL = re.compile(r"internal error\?|Symmetric |Failed to initialize (?:any|NET plugin)|[Ff]ailed to find|Could not find|No plugin found|ailed to open lib|dlv?sym failed"
                         r"|Resiliency|NET/IB: %s: |XML|NCCL Inspector|Using internal|Fall(?:ing)? back to NCCL's tuner|default tuner|RAS link|ncclOs|All attempts to load"
                         r"|(?:Disabling|Disabled) (?:caching|external plugins|LL128|SHARP|work fifo|NVLS support)|Could not get |could not read %s, ignoring|refresh_switch"
                         r"|[Ss]kipp(?:ing|ed)|Ignoring element|ing deprecated|is private|type mismatch for key|hash mismatch|Call to %s not supported|\(\) failed: %s"
                         r"|platform type is unavailable|saving result|plugin cleanup|Invalid type of PCI bus|CPU cache line|Set to disable|AR threshold|Thread mode multi")
# A line rule or a statement reads these (../tools/weft-report/nccl).
BY_RULES = re.compile(r"GPU Direct RDMA Disabled|mismatched physical devices|cuMem host allocations|Invalid value %s for|Could not enable P2P|^HINT: ")


def reasons(given):
    """INFO formats that speak of going on without something: {format: file}."""
    found = {}
    for repository, call, pattern in ((given.nccl, "INFO", r"v2\.(1[89]|[2-9]\d)\.\d+-\d+$"), (given.ofi, "NCCL_OFI_INFO", r"v1\.1[4-9]\.\d+$"),
                                      (given.sharp, "INFO", r"v2\.\d+\.\d+$")):
        if not repository:
            continue
        for tag in [tag for tag in git(repository, "tag").split() if re.match(pattern, tag)] + ["HEAD"]:
            prefix = "NET/OFI " if repository == given.ofi else ""
            found.update({prefix + words: name for name, words in formats_of(repository, tag, call) if FALLS_BACK.search(words)})
    return {words: name for words, name in found.items() if not SAID_BY_ALL.search(words) and not BY_RULES.search(words)}


def of_jobs_that_run(repository):
    """(level, format) of all INFO and TRACE lines, in the last release of each minor version and the newest."""
    last = {version_of(tag)[1]: tag for tag in sorted((tag for tag in git(repository, "tag").split() if re.match(r"v2\.\d+\.\d+-\d+$", tag)), key=version_of)}
    for tag in [tag for minor, tag in last.items() if minor >= 4] + ["HEAD"]:
        for level, call in (("INFO", "INFO"), ("TRACE", r"TRACE(?:_CALL)?(?#INFO)")):
            yield from ((level, words) for _, words in formats_of(repository, tag, call))


def criticals(program, lines):
    """Lines, each of them a log, of which the program makes a critical finding."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "log")
        for line in lines:
            path.write_text(line + "\n")
            done = subprocess.run([program, "nccl", path, "--json", "-"], capture_output=True, text=True)
            if done.returncode == 2:
                yield line


def rows():
    """(topic, pattern) of rows.inc and reasons.inc, in order."""
    for line in (ROOT / "rows.inc").read_text().split("\n") + (ROOT / "reasons.inc").read_text().split("\n"):
        row = re.match(r'\{"([^"]+)", "((?:[^"\\]|\\.)*)"(?:, true)?\},$', line)
        if row:
            yield row[1], re.sub(r"\\(.)", r"\1", row[2])
        elif line.startswith("{"):
            sys.exit(f"a row that is none: {line}")


def topics():
    return re.findall(r'^\{"([^"]+)"', (ROOT / "topics.inc").read_text(), re.M)


def topics_with_causes():
    """Those that name a cause, with what decides or how to find out; nccl-internal alone says what NCCL was doing, and no more."""
    text = (ROOT / "topics.inc").read_text()
    for part in re.split(r'^(?=\{")', text, flags=re.M):
        name = re.match(r'\{"([^"]+)"', part)
        causes = set(re.findall(r'\{"([a-z0-9-]+)", [0-9.]+', part))
        if name and causes - {"nccl-internal"}:
            yield name[1]


WARN_LEVEL = 2  # NCCL_LOG_WARN of ncclDebugLogLevel (nccl_common.h)


def warns_of_library(path):
    """The WARN formats of a libnccl without source, each with its file, read from its machine code: what the calls of its log function have as level,
    file and format; and how many calls choose their format where they are. Text that another function has formatted ("%s") stands under its rows."""
    data, level, places, found, unread = pathlib.Path(path).read_bytes(), None, {}, {}, 0

    def text(register):
        return data[places[register]:data.index(b"\0", places[register])].decode("latin1")

    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-j", ".text", path], capture_output=True, text=True, check=True).stdout
    for line in code.split("\n"):
        if number := re.search(r"mov +\$0x([0-9a-f]+),%edi", line):
            level = int(number[1], 16)
        elif address := re.search(r"lea .*\(%rip\),%(r9|rdx) +# ([0-9a-f]+)", line):
            places[address[1]] = int(address[2], 16)
        elif "call" in line and "ncclDebugLog" in line:
            if level == WARN_LEVEL and "r9" in places:
                found[text("r9")] = text("rdx") if "rdx" in places else "nccl.cc"
            unread += level == WARN_LEVEL and "r9" not in places
            level, places = None, {}
    found.pop("%s", None)
    return found, unread


def literals(pattern):
    return [part for part in re.split(r"\{\w+\}", pattern) if part]


def stands_in(parts, line):
    at = 0
    for part in parts:
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def row_of(table, line):
    fitting = [(sum(map(len, parts)), topic, pattern) for topic, pattern, parts in table if stands_in(parts, line)]
    return max(fitting, key=lambda one: one[0]) if fitting else None


def sample(words):
    return VALUE.sub(lambda value: SAMPLES.get(value[0][-1], "7"), words.replace("%%", "%")).strip().split("\n")[0]


PREFIXES = ("[2026-03-01 10:00:00] node1:700:701 [2] {file}:12 NCCL WARN ", "[1,3]<stdout>:node1:700:701 [2] {file}:12 NCCL WARN ")


def unrecognised(program, found, names):
    """Lines that the program does not know, in whichever prefix."""
    bad = []
    for prefix in PREFIXES:
        with tempfile.TemporaryDirectory() as folder:
            for number, words in enumerate(names):
                short = "/".join(found[words][0].split("/")[-2:])
                pathlib.Path(folder, f"{number:05}").write_text(prefix.format(file=short) + sample(words) + "\n")
            for number, words in enumerate(names):
                done = subprocess.run([program, "nccl", f"{folder}/{number:05}", "--json", "-"], capture_output=True, text=True)
                start = done.stdout.find("{")
                findings = json.loads(done.stdout[start:])["findings"] if start >= 0 else []
                if not findings or findings[0]["cause"] == "unexplained-warning":
                    bad.append(prefix.split("{")[0] + sample(words))
    return bad


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("nccl", "ofi", "sharp", "formats", "program", "library", "well"):
        arguments.add_argument(f"--{name}")
    arguments.add_argument("--every", type=int, default=20)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--reasons", action="store_true")
    given = arguments.parse_args()
    table = [(topic, pattern, literals(pattern)) for topic, pattern in rows()]
    known = topics()
    faults = [f"row '{pattern}' names no topic: {topic}" for topic, pattern, _ in table if topic not in known]
    faults += [f"no row has the topic {topic}" for topic in known if topic not in {row[0] for row in table}]
    patterns = [pattern for _, pattern, _ in table]
    faults += [f"two rows have the pattern '{pattern}'" for pattern in sorted(set(patterns)) if patterns.count(pattern) > 1]
    if given.well:
        found = sorted(set(of_jobs_that_run(given.nccl)))
        lines = [f"node1:700:701 [2] {'12.345678 fn:12 ' if level == 'TRACE' else ''}NCCL {level} {sample(words)}" for level, words in found]
        bad = list(criticals(given.well, lines))
        print(f"{len(lines) - len(bad)} of {len(lines)} lines of INFO and TRACE are no critical finding")
        faults += [f"a critical finding: {line}" for line in bad]
    elif given.reasons:
        found = reasons(given)
        without = [f"{name}: {words.strip()}" for words, name in sorted(found.items(), key=lambda one: one[1]) if not row_of(table, sample(words))]
        print(f"{len(found) - len(without)} of {len(found)} formats of INFO lines that speak of going on without something have a row; without one:", *without, sep="\n  ")
    elif not given.check and given.nccl:
        found = all_formats(given)
        if given.formats:
            pathlib.Path(given.formats).write_text("".join(f"{first} to {last}\t{name}\t{words.strip()!r}\n" for words, (name, first, last) in
                                                           sorted(found.items(), key=lambda one: one[1][0])))
        used = set()
        for words, (name, first, last) in sorted(found.items(), key=lambda one: one[1][0]):
            row = row_of(table, f"{name}:12 NCCL WARN {sample(words)}")
            if row:
                used.add(row[2])
            else:
                faults.append(f"no row judges ({name}, {first} to {last}): {words.strip()}")
        print(f"{len(found)} formats of WARN lines, {len(table)} rows, {len(known)} topics")
        with_causes = set(topics_with_causes())
        judged = [row_of(table, f"{name}:12 NCCL WARN {sample(words)}") for words, (name, _, _) in found.items()]
        told = sum(row is not None and row[1] in with_causes for row in judged)
        print(f"{told} of {len(found)} ({100 * told / len(found):.0f} %) have a cause and how to find out; the others say what NCCL was doing")
        unused = [pattern for _, pattern, _ in table if pattern not in used]
        print(f"{len(unused)} rows that only special values, other programs or older versions print:", *unused, sep="\n  ")
        if given.program:
            names = sorted(found)[::given.every]
            bad = unrecognised(given.program, found, names)
            print(f"{len(names) * len(PREFIXES) - len(bad)} of {len(names) * len(PREFIXES)} lines are recognised")
            faults += [f"not recognised: {line}" for line in bad]
    elif given.library:
        files, unread = warns_of_library(given.library)
        found = {words: (file, "", "") for words, file in files.items()}
        without = [words for words in sorted(found) if not row_of(table, f"{files[words]}:12 NCCL WARN {sample(words)}")]
        print(f"{len(found) - len(without)} of {len(found)} WARN formats in the code of {given.library} have a row, {unread} calls choose theirs there")
        faults += [f"no row: {words}" for words in without]
        if given.program:
            names = sorted(found)[::given.every]
            bad = unrecognised(given.program, found, names)
            print(f"{len(names) * len(PREFIXES) - len(bad)} of {len(names) * len(PREFIXES)} lines are recognised")
            faults += [f"not recognised: {line}" for line in bad]
    else:
        print(f"{len(table)} rows, {len(known)} topics")
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
