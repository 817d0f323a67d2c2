#!/usr/bin/env python3
"""What python/weft/_library.py declares is what weft.h has: each function's arguments, each structure's fields, each word's number.

usage: declarations_test.py FOLDER_OF_THE_PROJECT, with python/ in PYTHONPATH
"""
import ctypes
import inspect
import pathlib
import re
import sys

from weft import _communicator, _errors, _library, _memory

top = pathlib.Path(sys.argv[1])
header = re.sub(r"//[^\n]*", "", (top / "include/weft/weft.h").read_text())
bad = []

SCALARS = {"int": ctypes.c_int, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
           "size_t": ctypes.c_size_t, "double": ctypes.c_double}
WORDS = set(re.findall(r"typedef int (weft_\w+);", header))
HANDLES = set(re.findall(r"typedef struct \w+\* (weft_\w+);", header))
STRUCTURES = {"weft_" + re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() + "_t": cls for name, cls in vars(_library).items()
              if inspect.isclass(cls) and issubclass(cls, ctypes.Structure)}


def kind(words, is_argument=True):
    """The ctypes of a C type."""
    words = re.sub(r"\bconst\b", "", words)
    stars, name = words.count("*"), words.replace("*", "").strip()
    if name in HANDLES or name == "void" and stars:
        stars += name in HANDLES
        return ctypes.c_void_p if stars == 1 else ctypes.POINTER(ctypes.c_void_p)
    if name == "char":
        return ctypes.c_char_p
    if name in WORDS:
        name = "int"
    base = STRUCTURES.get(name) or SCALARS.get(name)
    if base is None and not stars:
        return None  # void
    return ctypes.POINTER(base) if stars else base


def arguments_of(text):
    callback = re.compile(r"(\w+) \(\*(\w+)\)\(([^)]*)\)")
    return [callback.match(one.strip()) or kind(re.sub(r"\w+$", "", one.strip())) for one in re.split(r",(?![^(]*\))", text) if one.strip() != "void"]


declared = {name: (result, arguments) for result, name, arguments in
            re.findall(r"^((?:const )?\w+\*? ?)\b(weft_\w+)\(((?:[^()]|\([^()]*\))*)\);", re.sub(r"[ \t]*\n[ \t]+", " ", header), re.M)}
for name, (result, arguments) in _library.FUNCTIONS.items():
    if name not in declared:
        bad.append(f"{name} is not in weft.h")
        continue
    if kind(declared[name][0]) is not result:
        bad.append(f"{name} returns {declared[name][0]}, not {result}")
    wanted = arguments_of(declared[name][1])
    if len(wanted) != len(arguments):
        bad.append(f"{name} has {len(wanted)} arguments, not {len(arguments)}")
    for number, (of_header, ours) in enumerate(zip(wanted, arguments)):
        if isinstance(of_header, re.Match):
            result, parameters = kind(of_header[1]), [kind(re.sub(r"\w+$", "", one.strip())) for one in of_header[3].split(",")]
            if ours._restype_ is not result or list(ours._argtypes_) != parameters:
                bad.append(f"{name}: argument {number} is a function of another kind")
        elif of_header is not ours:
            bad.append(f"{name}: argument {number} is {of_header.__name__}, not {ours.__name__}")

for name, structure in STRUCTURES.items():
    found = re.search(r"typedef struct \w+ \{([^}]*)\} " + name + ";", header)
    fields = [(re.search(r"(\w+)$", one.strip())[1], kind(re.sub(r"\w+$", "", one.strip()))) for one in found[1].split(";") if one.strip()] if found else None
    if fields != structure._fields_:
        bad.append(f"{name} has the fields {fields}, not {structure._fields_}")

numbers = {name: int(number) for name, number in re.findall(r"\b(WEFT_[A-Z0-9_]+) = (\d+)", header)}
SHORT = {"float": "F", "int": "I", "uint": "U", "bfloat": "BF"}
for word, number in _memory.TYPES.items():
    letters, bits = re.match(r"([a-z]+)(\d+)", word).groups()
    if numbers[f"WEFT_{SHORT[letters]}{bits}"] != number:
        bad.append(f"{word} is not {number}")
for table in (_communicator._OPS, _communicator._COLLECTIVES):
    bad += [f"{word} is not {number}" for word, number in table.items() if numbers[f"WEFT_{word.upper()}"] != number]
bad += [f"{word} is not {number}" for number, word in _errors._STATUS_KINDS.items() if numbers[f"WEFT_{word.upper().replace(' ', '_')}"] != number]
version = ".".join(re.findall(r"#define WEFT_VERSION_(?:MAJOR|MINOR) (\d+)", (top / "include/weft/core/version.hpp").read_text()))
if f"libweft.so.{version}" != _library.NAME:
    bad.append(f"_library.py loads {_library.NAME} of version {version}")

if len(_library.FUNCTIONS) < 40 or len(STRUCTURES) < 3 or len(declared) < 100:
    bad.append(f"{len(_library.FUNCTIONS)} functions, {len(STRUCTURES)} structures, {len(declared)} in weft.h: teach this test what they look like")
for one in bad:
    print(one)
print(f"{len(_library.FUNCTIONS)} functions and {len(STRUCTURES)} structures, {len(bad)} wrong")
sys.exit(bool(bad))
