#!/usr/bin/env python3
"""The binary interface of weft in C: what programs that were built against weft.h rely on. src/c/abi.txt is the record of it, taken from weft.h and
src/c/symbols.map: each function with its types and version, each structure with its fields, each number that has a name.

usage: abi.py --check           weft.h keeps what the record has, and the record has all of weft.h
       abi.py --write           writes the record; refuses to where weft.h does not keep what it has, but for another minor version
       abi.py OLD NEW           compares two: records, or folders of the project
       abi.py --stub WEFT_H     a C source with a body for each function, for tests/abi.sh
Ends with 1 where something that was there is gone or different. What is new is listed, and breaks no program: functions, numbers, and fields at the end
of a structure, whose size its user gives.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
RECORD = "src/c/abi.txt"


def words(text):
    """A type or declaration with one space between words, none before a star."""
    return re.sub(r" ?\* ?", "*", re.sub(r"\s+", " ", text.strip())).replace("*", "* ").strip().replace("* )", "*)").replace("* *", "**")


def type_of(argument):
    """Of an argument: its type without its name."""
    function = re.fullmatch(r"(\w+) \(\*\w+\)\(([^()]*)\)", re.sub(r"\s+", " ", argument.strip()))
    if function:
        return f"{function[1]} (*)({', '.join(map(type_of, function[2].split(',')))})"
    name = argument.strip()
    return words(name if name == "void" else re.sub(r"\w+$", "", name))


def parsed(header, versions):
    """{name: what it is} of a text of weft.h. Exits where something of it is of no kind that this knows."""
    found, rest = {}, re.sub(r"//[^\n]*|/\*.*?\*/", "", header, flags=re.S)

    def take(pattern, keep):
        nonlocal rest
        for match in re.finditer(pattern, rest, re.M | re.S):
            keep(match)
        rest = re.sub(pattern, "", rest, flags=re.M | re.S)

    def number(name, value):
        found[name] = f"number {value.strip('()')}"

    def structure(match):
        fields = [words(field) for field in match[2].split(";") if field.strip()]
        found[f"{match[1]}_t"] = "structure { " + " ".join(f"{field};" for field in fields) + " }"

    def numbers(match):
        for one in match[1].split(","):
            number(*map(str.strip, one.split("=")))

    def function(match):
        arguments = [type_of(one) for one in re.split(r",(?![^(]*\))", match[3])]
        found[match[2]] = f"{versions.get(match[2], 'without a version')} {words(match[1])} ({', '.join(arguments)})"

    take(r"^#define WEFT_WORDS[^\n]*$|^#define WEFT_WEFT_H$|^#(?:include|ifn?def|else|endif)\b[^\n]*$|^extern \"C\" \{|^\}\s*$(?!.*\S)", lambda _: None)
    take(r"^#define (WEFT_\w+) (\S+)$", lambda match: number(match[1], match[2]))
    take(r"WEFT_WORDS\s*\{(.*?)\};", numbers)
    take(r"typedef struct (\w+)\s*\{(.*?)\} \1_t;", structure)
    take(r"typedef (struct (\w+)\*) (\2_t);", lambda match: found.update({match[3]: f"handle {match[1]}"}))
    take(r"typedef int (weft_\w+);", lambda match: found.update({match[1]: "name of int"}))
    take(r"^((?:const )?\w+\*?) ?\b(weft_\w+)\(((?:[^()]|\([^()]*\))*)\);", function)
    if re.sub(r"[\s}]", "", rest):
        sys.exit(f"abi.py: this of weft.h is of no kind that abi.py knows; teach it: {' '.join(rest.split())[:300]}")
    return found


def read(place):
    """(version, {name: what it is}) of a record, or of a folder of the project."""
    place = pathlib.Path(place)
    if place.is_dir():
        versions, version = {}, None
        for line in (place / "src/c/symbols.map").read_text().splitlines():
            begin = re.match(r"(WEFT_C_[\d.]+) \{", line)
            version = begin[1] if begin else version
            name = re.match(r"\s+(weft_\w+);$", line)
            if name:
                versions[name[1]] = version
        minor = ".".join(re.findall(r"#define WEFT_VERSION_(?:MAJOR|MINOR) (\d+)", (place / "include/weft/core/version.hpp").read_text()))
        return minor, parsed((place / "include/weft/weft.h").read_text(), versions)
    first, *lines = place.read_text().splitlines()
    if not first.startswith("libweft.so."):
        sys.exit(f"abi.py: {place} is no record: its first line does not name libweft.so")
    return first.split()[0][len("libweft.so."):], dict(line.split(": ", 1) for line in lines)


def bytes_of(structure, names):
    """What sizeof says of a structure, where pointers have 64 bits."""
    at = 0
    for field in re.findall(r"([^{};]+) \w+;|([^{};]+\*)\w+;", structure):
        kind = "".join(field).strip()
        size = 4 if kind in ("int", "int32_t", "uint32_t", "float") or names.get(kind) == "name of int" else 8
        at = -(-at // size) * size + size
    return -(-at // 8) * 8 if "size_t" in structure or "64_t" in structure or "double" in structure or "*" in structure else at


def compared(old, new):
    """(what is gone or different, what is new), a line each."""
    broken, added = [], []
    for name, was in old.items():
        now = new.get(name)
        if now is None:
            broken.append(f"{name} is gone: {was}")
        elif now != was and was.startswith("structure {") and now.startswith(was[:-len(" }")] + " "):
            more = f"{name} has got {now[len(was) - 1:-len(' }')]}"
            if bytes_of(now, new) == bytes_of(was, old):  # the library cannot tell an old program's structure, whose bytes there are of any value
                broken.append(f"{more} where padding was, and is of {bytes_of(was, old)} bytes as before: give it a field of 8 bytes")
            else:
                added.append(more)
        elif now != was:
            broken.append(f"{name} was {was}, is {now}")
    return broken, added + [f"{name} is new: {now}" for name, now in new.items() if name not in old]


def told(broken, added):
    for line in broken:
        print(f"abi.py: breaks programs: {line}")
    for line in added:
        print(f"abi.py: new: {line}")
    return 1 if broken else 0


def main(arguments):
    record = TOP / RECORD
    if arguments == ["--write"]:
        version, now = read(TOP)
        if record.exists():
            before, old = read(record)
            broken, added = compared(old, now)
            if told(broken, added) and before == version:
                sys.exit(f"abi.py: {RECORD} stays as it is: programs built against weft {version} rely on it; keep what was there beside what is new. Only if no "
                         f"{version} was released: remove {RECORD} before")
        record.write_text(f"libweft.so.{version} in C; tests/abi.py --write\n" + "".join(f"{name}: {what}\n" for name, what in now.items()))
        return print(f"abi.py: {len(now)} names of weft {version} in {RECORD}")
    if arguments == ["--check"]:
        (version, old), (current, now) = read(record), read(TOP)
        broken, added = compared(old, now)
        status = told(broken, added)
        if added or version != current:
            sys.exit(f"abi.py: {RECORD} is of {version} without what is new; tests/abi.py --write")
        if not broken:
            print(f"abi.py: {len(now)} names of weft.h are as {RECORD} has them")
        return status
    if len(arguments) == 2 and arguments[0] == "--stub":
        print("#include <weft/weft.h>")
        for name, what in parsed(pathlib.Path(arguments[1]).read_text(), {}).items():
            function = re.fullmatch(r"without a version ([^(]+) (\(.*\))", what)
            if function:
                print(f"{function[1]} {name}{function[2]} {{ __builtin_trap(); }}")
        return 0
    if len(arguments) == 2:
        (_, old), (_, now) = read(arguments[0]), read(arguments[1])
        status = told(*compared(old, now))
        print(f"abi.py: {len(old)} names before, {len(now)} now; programs built before {'do not run' if status else 'run'} with the new one")
        return status
    print(__doc__, file=sys.stderr)
    return 42


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
