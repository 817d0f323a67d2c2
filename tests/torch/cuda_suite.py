"""PyTorch's own DistributedTest with CUDA tensors, over ProcessGroupNCCL and over weft: two ranks that share one GPU.

    cuda_suite.py --seconds 150 --out FILE     over weft, then what that does not pass over ProcessGroupNCCL; a JSON object a test
    cuda_suite.py --list                       the names of the tests

weft takes NCCL's part: the gates that ask for "nccl" by name ask for weft (pytorch_suite.py), and every rank's device is device 0 (one_gpu.py). A test
may take 20 s. It ends with 1 where weft does not pass what ProcessGroupNCCL passes.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import one_gpu

LIMIT = 20
# What asks of torch's own ProcessGroupNCCL.
NCCL_ALONE = {}


def source():
    return pathlib.Path(importlib.util.find_spec("torch.testing._internal.distributed.distributed_test").origin).read_text()


def run_here(names: list, out: str) -> None:
    """These tests over this process's BACKEND."""
    import pytorch_suite

    class Lines(pytorch_suite.Outcomes):
        """Each outcome as a line, at once."""

        def note(self, test, outcome, why=""):
            super().note(test, outcome, why)
            row = {"figure": "torch test", "backend": os.environ["BACKEND"], "test": test.id().split(".")[-1], "outcome": outcome,
                   "seconds": round(time.monotonic() - self.begin, 1)}
            if outcome == "failed":
                row["why"] = pytorch_suite.reason(why)[-1500:]
            elif why:
                row["why"] = why[:200]
            with open(out, "a") as file:
                file.write(json.dumps(row) + "\n")

    result = Lines()
    for name in names:
        pytorch_suite.TestDistBackendWithSpawn(name).run(result)


def start(backend: str, part: int, names: list, folder: str):
    mine = os.path.join(folder, f"{backend}{part}")
    os.makedirs(mine)
    environment = dict(os.environ, BACKEND=backend, SUITE_DEVICE="cuda", WORLD_SIZE="2", TEMP_DIR=mine, OMP_NUM_THREADS="1", WEFT_SHARE_DEVICE="1",
                       DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(LIMIT))
    with open(mine + ".stderr", "ab") as errors:
        return subprocess.Popen([sys.executable, __file__, "--here", mine + ".jsonl", "--names", *names], env=environment, stdout=errors, stderr=errors,
                                start_new_session=True)


def run_over(backend: str, names: list, parts: int, end: float) -> dict:
    """What came of each by then, by name: every parts-th test in a process of its own. Those that went on are ended."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        children = [start(backend, part, names[part::parts], folder) for part in range(min(parts, len(names)))]
        while time.monotonic() < end and any(child.poll() is None for child in children):
            time.sleep(0.2)
        for child in children:
            try:
                os.killpg(child.pid, signal.SIGKILL)  # its ranks, too
            except ProcessLookupError:
                pass
            child.wait()
        for errors in sorted(pathlib.Path(folder).glob("*.stderr")):
            print(f"== {errors.name}\n{errors.read_bytes()[-2000:].decode(errors='replace')}")
        rows = [json.loads(line) for file in pathlib.Path(folder).glob("*.jsonl") for line in file.read_text().splitlines() if line.endswith("}")]
    return {row["test"]: row for row in rows}


def verdict(weft: dict, nccl: dict, names: list) -> int:
    count = {outcome: [name for name, row in weft.items() if row["outcome"] == outcome] for outcome in ("passed", "failed", "skipped")}
    print(f"weft: {len(count['passed'])} passed, {len(count['failed'])} failed, {len(count['skipped'])} skipped, {len(names) - len(weft)} not reached")
    bad = [name for name in count["failed"] + count["skipped"] if nccl.get(name, {}).get("outcome") == "passed" and name not in NCCL_ALONE]
    for name in bad:
        print(f"differs: {name}: weft {weft[name]['outcome']}: {weft[name].get('why', '')[:300]}")
    neither = sum(nccl.get(name, {}).get("outcome") in ("failed", "skipped") for name in count["failed"] + count["skipped"])
    print(f"weft passes {len(count['passed'])} of {len(weft)}; of the others ProcessGroupNCCL passes {len(bad)}, does not pass {neither}")
    return 1 if bad or not count["passed"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150, help="for all together")
    parser.add_argument("--parts", type=int, default=6, help="tests at a time")
    parser.add_argument("--out", default=os.devnull, help="what came of each test is added here")
    parser.add_argument("--list", action="store_true", help="the names of the tests")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--names", nargs="+", help="these tests alone")
    options = parser.parse_args()
    if options.here:
        run_here(options.names, options.here)
        return 0
    names = options.names or one_gpu.tests_of_devices(source())
    if options.list:
        print(*names, sep="\n")
        return 0
    begin = time.monotonic()
    weft = run_over("weft", names, options.parts, begin + 0.75 * options.seconds)
    nccl = run_over("nccl", [name for name, row in weft.items() if row["outcome"] != "passed"], options.parts, begin + options.seconds)
    with open(options.out, "a") as file:
        file.writelines(json.dumps(row) + "\n" for row in [*weft.values(), *nccl.values()])
    return verdict(weft, nccl, names)


if __name__ == "__main__":
    sys.exit(main())
