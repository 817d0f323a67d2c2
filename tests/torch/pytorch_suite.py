"""PyTorch's own DistributedTest, over gloo and over weft: which tests pass with each.

    pytorch_suite.py --size 2                  both, in turn; the list of what differs; 1 where weft fails what gloo passes
    pytorch_suite.py --size 2 --only weft -k all_reduce
    pytorch_suite.py --size 4 --only weft -k monitored --repeat 30     each 30 times; one that fails once has failed

The tests are read from the torch that is installed (torch/testing/_internal/distributed/distributed_test.py). For weft, the gates that ask
for gloo by name ask for weft: the text is changed in memory, where it says "gloo" and dist.Backend.GLOO. A test that is skipped has not passed.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

# What demands gloo's own ways, with the reason.
GLOO_ALONE = {
    "test_ddp_logging_data_cpu": "DDP's logger calls every backend that is not torch's own \"custom\", and the test wants its name",
}

SIZE = int(os.environ.get("WORLD_SIZE", "2"))
ON_GPU = os.environ.get("SUITE_DEVICE") == "cuda"  # cuda_suite.py
PEER = "nccl" if ON_GPU else "gloo"


def opened(source: str) -> str:
    """The suite's text with its peer's gates open for weft. What DDP logs of gloo's threads and sockets stays gloo's."""
    lines = []
    for line in source.splitlines(keepends=True):
        if "backend_name" not in line:
            line = line.replace(f'"{PEER}"', '"weft"').replace(f"dist.Backend.{PEER.upper()}", '"weft"')
        lines.append(line)
    return "".join(lines)


def load():
    """torch.testing._internal.distributed.distributed_test, for os.environ["BACKEND"]."""
    os.environ.setdefault("WORLD_SIZE", "2")
    os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
    name = "torch.testing._internal.distributed.distributed_test"
    if ON_GPU:
        import one_gpu

        one_gpu.pretend_two()
    elif os.environ["BACKEND"] != "weft":
        return importlib.import_module(name)
    spec = importlib.util.find_spec(name)
    source = pathlib.Path(spec.origin).read_text()
    if os.environ["BACKEND"] == "weft":
        import weft.torch  # noqa: F401  (known before the tests ask for it)
        from torch.testing._internal import common_distributed

        for names in common_distributed.DistTestCases.backend_feature.values():
            if PEER in names:
                names.add("weft")
        source = opened(source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(one_gpu.shared(source) if ON_GPU else source, spec.origin, "exec"), module.__dict__)
    if ON_GPU:
        module.init_multigpu_helper = one_gpu.one_for_each
    return module


if "BACKEND" in os.environ:
    import torch

    _suite = load()

    class TestDistBackendWithSpawn(_suite.TestDistBackend, _suite.DistributedTest._DistTestBase):
        """As torch makes it in its test/distributed/test_distributed_spawn.py, with forked processes."""

        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)  # spawned ones import torch each: ten times longer

        @classmethod
        def _run(cls, *arguments, **options):
            torch.set_num_threads(torch.get_num_threads())  # ranks.py says why
            if ON_GPU:
                os.environ["NCCL_HOSTID"] = f"weft-{arguments[0]}"  # of its rank: cuda_test.py says why
            super()._run(*arguments, **options)

        def tearDown(self):
            # Torch tells the ranks of a failed test to end and waits for none: one that lives on writes to the barrier files of the next test.
            for process in self.processes:
                process.kill()
                process.join()
            super().tearDown()


class Outcomes(unittest.TestResult):
    """Passed, failed or skipped, by name; a line for each that fails. What a failed test's ranks wrote to stderr, a file, is part of why."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}
        self.why = {}

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()
        self.written = os.fstat(2).st_size

    def note(self, test, outcome, why=""):
        name = test.id().split(".")[-1]
        if self.outcomes.get(name) == "failed":
            return  # it was repeated
        self.outcomes[name] = outcome
        self.why[name] = why
        if os.environ.get("SUITE_VERBOSE") or outcome == "failed":
            print(f"  {outcome:8}{name}  {time.monotonic() - self.begin:.1f} s", flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addFailure(self, test, error):
        self.note(test, "failed", "".join(traceback.format_exception(*error)) + self.stderr())

    def stderr(self):
        """What came since the test began. A rank that fails outside of the test's own lines, such as in the suite's barriers, says why here alone."""
        if not stat.S_ISREG(os.fstat(2).st_mode):
            return ""
        with open("/dev/fd/2", "rb") as file:
            file.seek(self.written)
            return "its ranks wrote:\n" + file.read()[-8000:].decode(errors="replace")

    addError = addFailure


def reason(why: str) -> str:
    """The lines of a failure that say what happened: each exception, and what torch says of the ranks' exit codes."""
    said = re.findall(r"^(?:[\w.]*(?:Error|Exception|Failure)\b.*|.*(?:[Ee]xit(?:ed with)? (?:error )?code|terminated (?:with|or)|signal).*)$", why, re.M)
    return "".join(f"\n    {line}" for line in dict.fromkeys(said)) or why[-1000:]


def run_here(pattern: str, repeat: int, out: str) -> None:
    """Runs the tests of this process's BACKEND; what came of them goes to a file."""
    from torch.testing._internal.common_utils import TestCase

    TestCase.maxDiff = None
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*"] if pattern else None
    result = Outcomes()
    for _ in range(repeat):
        loader.loadTestsFromTestCase(TestDistBackendWithSpawn).run(result)
    pathlib.Path(out).write_text(json.dumps({"outcomes": result.outcomes, "why": result.why}))


def run_over(backend: str, size: int, pattern: str, repeat: int) -> dict:
    """The same in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("barrier", "init_dir", "test_dir"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        out = os.path.join(folder, "outcomes.json")
        environment = dict(os.environ, BACKEND=backend, WORLD_SIZE=str(size), TEMP_DIR=folder, OMP_NUM_THREADS="1")
        print(f"over {backend}, {size} ranks", flush=True)
        with open(os.path.join(folder, "stderr"), "ab") as errors:  # appended to, so that ranks do not overwrite each other
            subprocess.run([sys.executable, __file__, "--here", out, "-k", pattern, "--repeat", str(repeat)], env=environment, check=True, stderr=errors)
        return json.loads(pathlib.Path(out).read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2, help="ranks: 2, 3 or 4")
    parser.add_argument("-k", default="", help="only tests whose name has this")
    parser.add_argument("--repeat", type=int, default=1, help="runs each test so often")
    parser.add_argument("--only", choices=["gloo", "weft"], help="one of them alone")
    parser.add_argument("--json", help="writes what came of each test")
    parser.add_argument("--gloo", help="a file of --json, in place of a run over gloo")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        run_here(options.k, options.repeat, options.here)
        return 0
    results = {}
    if options.gloo:
        results["gloo"] = json.loads(pathlib.Path(options.gloo).read_text())["gloo"]
    for backend in ("gloo", "weft"):
        if options.only in (None, backend) and backend not in results:
            results[backend] = run_over(backend, options.size, options.k, options.repeat)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    for backend, result in results.items():
        count = {outcome: list(result["outcomes"].values()).count(outcome) for outcome in ("passed", "failed", "skipped")}
        print(f"{backend}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    for name, why in results.get("weft", {"why": {}})["why"].items():
        if results["weft"]["outcomes"][name] == "failed":
            print(f"--- {name}\n{why}" if os.environ.get("SUITE_VERBOSE") else f"--- {name}:{reason(why)}")
    if len(results) < 2:
        return 0
    bad = 0
    for name, outcome in results["gloo"]["outcomes"].items():
        if outcome != "passed" or results["weft"]["outcomes"].get(name) == "passed":
            continue
        if name in GLOO_ALONE:
            print(f"gloo alone: {name}: {GLOO_ALONE[name]}")
            continue
        bad += 1
        print(f"differs: {name}: weft {results['weft']['outcomes'].get(name, 'has not run it')}; {results['weft']['why'].get(name, '')[:200]}"
              if results["weft"]["outcomes"].get(name) != "failed" else f"differs: {name}: weft failed, as said above")
    both = sum(results["weft"]["outcomes"].get(name) == "passed" for name, outcome in results["gloo"]["outcomes"].items() if outcome == "passed")
    print(f"{options.size} ranks: gloo passes {sum(o == 'passed' for o in results['gloo']['outcomes'].values())}, of which weft passes {both}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
