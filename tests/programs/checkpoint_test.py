#!/usr/bin/env python3
"""Checkpoints as other programs see them: files that a reader of their own reads, and weft-plan checkpoint with every wrong input.

usage: checkpoint_test.py WEFT_PLAN SAVE_CHECKPOINT
With the package safetensors of Python the files are read with that, too: that of the environment of launchers/setup.sh torch, where there is one.
"""
import importlib.util
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

environment = pathlib.Path(os.environ.get("WEFT_TORCH_VENV", pathlib.Path.home() / ".cache/weft-torch")) / "bin/python"
if importlib.util.find_spec("safetensors") is None and environment.exists() and pathlib.Path(sys.prefix) != environment.parent.parent:
    os.execv(environment, [environment, *sys.argv])
plan, save = sys.argv[1], sys.argv[2]
work = pathlib.Path(tempfile.mkdtemp())
failures = 0
SIZES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U8": 1, "I8": 1}


def expect(holds, what):
    global failures
    if not holds:
        failures += 1
        print("FAILED:", what)


def run(status, words, *arguments):
    """Runs weft-plan checkpoint; its output must have all words. @returns it"""
    done = subprocess.run([plan, "checkpoint", *map(str, arguments)], capture_output=True, text=True)
    told = done.stdout + done.stderr
    expect(done.returncode == status, f"{arguments}: status {done.returncode} instead of {status}: {told}")
    for word in words:
        expect(word in told, f"{arguments}: no '{word}' in: {told}")
    return done.stdout


def saved(folder, step, ranks, seed):
    subprocess.run([save, folder, str(step), str(ranks), str(seed)], check=True)
    return pathlib.Path(folder) / f"step-{step:08d}"


def read(path):
    """All tensors of a file in safetensors format, by the words of its specification."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__")
    expect(all(isinstance(one, str) for one in metadata.values()), "metadata are strings")
    data, end, tensors = content[8 + length :], 0, {}
    for name, row in header.items():
        begin, after = row["data_offsets"]
        expect(begin == end and (8 + length + begin) % SIZES[row["dtype"]] == 0, f"{name} has no gap before it and is aligned")
        expect(after - begin == SIZES[row["dtype"]] * math.prod(row["shape"]), f"{name} has the bytes of its shape")
        tensors[name], end = (row["dtype"], row["shape"], data[begin:after]), after
    expect(end == len(data), "no bytes are left")
    return tensors


folder = work / "checkpoints"
first = saved(folder, 40, 3, 1)
index = json.loads((first / "index.json").read_text())["index"]
whole = {name: bytearray(SIZES[row["dtype"]] * math.prod(row["shape"])) for name, row in index["tensors"].items()}
for file in sorted(first.glob("*.safetensors")):
    for name, (dtype, shape, content) in read(file).items():
        tensor, at = name, 0
        if name.endswith("]"):
            tensor, span = name[:-1].split("[")
            at, end = map(int, span.split(":"))
            expect(shape == [end - at], f"{name} is flat")
        at *= SIZES[dtype]
        expect(dtype == index["tensors"][tensor]["dtype"], f"type of {tensor}")
        whole[tensor][at : at + len(content)] = content

exported = work / "model.safetensors"
run(0, ["has all tensors of", "step-00000040"], folder, "--export", exported)
tensors = read(exported)
expect(set(tensors) == set(whole), "the export has every tensor")
for name, (_, shape, content) in tensors.items():
    expect(shape == index["tensors"][name]["shape"] and content == bytes(whole[name]), f"{name} is whole in the export")
try:
    from safetensors import safe_open
except ImportError:
    print("skipped: there is no safetensors package to read the files with")
else:
    for path in [exported, *first.glob("*.safetensors")]:
        with safe_open(path, framework="numpy") as opened:
            expect(set(opened.keys()) == set(read(path)), f"safetensors reads the names of {path}")
            for name in opened.keys():
                if read(path)[name][0] != "BF16":  # which numpy lacks
                    expect(opened.get_tensor(name).tobytes() == read(path)[name][2], f"safetensors reads {name} of {path}")

out = run(0, ["step 40", "position = 12", "scale = 0.5", "random = 1", "layer0.weight", "in 1 piece", "every byte has its checksum"], first, "--verify")
second = saved(folder, 48, 2, 1)
run(0, ["step-00000040  6 tensors", "step-00000048  6 tensors", "every byte"], folder, "--verify")
run(0, ["are alike"], first, "--diff", second)
figures = json.loads(run(0, [], folder, "--json", "-", "--verify"))
expect([one["step"] for one in figures["checkpoints"]] == [40, 48] and figures["checkpoints"][0]["damaged"] == [], "figures for machines")
expect(figures["checkpoints"][0]["bytes"] == sum(file.stat().st_size for file in first.glob("*.safetensors")), "bytes are those of its files")

other = saved(work / "other", 1, 1, 2)
out = run(1, ["differ:", "random  1 and 2", "layer0.weight"], first, "--diff", other)
damaged = sorted(second.glob("*.safetensors"))[1]
content = bytearray(damaged.read_bytes())
content[-1] ^= 1
damaged.write_bytes(content)
run(1, ["DAMAGED", str(damaged), "not what was written"], folder, "--verify")
run(70, [str(damaged), "older checkpoint"], folder, "--export", work / "damaged")
expect(not (work / "damaged").exists() and not list(work.glob("*.part-*")), "an export of what is damaged leaves nothing")
run(0, ["step 40"], first)

run(42, ["no checkpoint is named"])
run(42, ["is no checkpoint and has none in it"], work)
run(42, ["/nowhere", "has none in it"], "/nowhere")
run(42, ["unrecognised option '--bogus'"], first, "--bogus")
run(42, ["--json /no/such/file: cannot write it"], first, "--json", "/no/such/file")
run(42, ["cannot write it: No such file"], first, "--export", "/no/such/file")
run(42, ["is no checkpoint"], first, "--diff", "/nowhere")
run(70, ["/dev/full"], first, "--json", "/dev/full")
(first / "index.json").write_text("{}")
run(42, ["index.json", "checksum"], first)
run(0, ["weft-plan checkpoint PATH", "--verify"], "--help")
print("checkpoint_test:", "passed" if failures == 0 else f"{failures} failed")
sys.exit(failures != 0)
