"""The benches that set weft beside gloo: that they run, that both learn the same in them, and what they refuse. Not how fast."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PEERS = pathlib.Path(__file__).parents[2] / "bench" / "peers"


def run(program, *arguments, under=()):
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return subprocess.run([sys.executable, *under, str(PEERS / program), *arguments], env=environment, capture_output=True, text=True, timeout=300)


class Benches(unittest.TestCase):
    def rows(self, program, *arguments, under=()):
        with tempfile.TemporaryDirectory() as folder:
            done = run(program, *arguments, "--json", f"{folder}/rows", under=under)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-3000:])
            return json.loads(pathlib.Path(f"{folder}/rows").read_text())["results"]

    def test_collectives(self):
        rows = self.rows("torch_collectives.py", "--largest", "1024")
        operations = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "copy")
        self.assertEqual([(row["op"], row["memory"]) for row in rows], [(op, memory) for op in operations for memory in ("ordinary", "heap")])

    def test_groups(self):
        gloo, weft = self.rows("torch_groups.py", "--groups", "3")
        self.assertEqual((gloo["backend"], weft["backend"]), ("gloo", "weft"))
        self.assertLess(weft["bytes"], 4e9)
        self.assertGreater(weft["ms"], 0)

    def test_fsdp_learns_the_same_over_both(self):
        rows = {row["backend"]: row for row in self.rows("torch_fsdp.py", "--layers", "1", "--width", "64", "--sequences", "1", "--turns", "1")}
        self.assertEqual(sorted(rows), ["gloo", "heap", "none", "weft"])
        for backend in ("weft", "heap"):
            self.assertAlmostEqual(rows[backend]["loss"], rows["gloo"]["loss"], places=4)

    def test_ddp_as_between_hosts(self):
        torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        rows = self.rows("torch_hosts.py", "--steps", "4", "--strategies", "plain,fp16,powersgd:2", under=torchrun)
        self.assertEqual([(row["strategy"], row["backend"]) for row in rows],
                         [(strategy, backend) for strategy in ("plain", "fp16", "powersgd:2") for backend in ("gloo", "weft")])
        for gloo, weft in zip(rows[::2], rows[1::2]):
            self.assertAlmostEqual(gloo["loss"], weft["loss"], delta=0.02, msg=gloo["strategy"])

    def test_what_is_refused(self):
        for arguments, why in ((["--strategies", "fp8"], "'fp8'"), (["--hosts", "1:1gbit"], "1:1gbit"), (["--steps", "1"], "--steps 1"), (["--stages"], "--stages")):
            done = run("torch_hosts.py", *arguments)
            self.assertEqual(done.returncode, 42, done.stderr)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
