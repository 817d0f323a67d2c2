#!/usr/bin/env python3
"""The example in NumPy, and the programs of docs/python.md: they run on ranks, and learn on two ranks what they learn on one.

usage: examples_test.py WEFT_LAUNCH FOLDER_OF_THE_PROJECT; ends with 77 where python3 has no NumPy.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    print(f"skipped: {sys.executable} has no numpy")
    sys.exit(77)

LAUNCH, TOP = sys.argv[1], pathlib.Path(sys.argv[2])
TEXT = TOP / "docs/pytorch.md"


def launched(ranks, *command, **options):
    return subprocess.run([LAUNCH, "-n", str(ranks), sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300, **options)


class Examples(unittest.TestCase):
    def losses(self, ranks):
        done = launched(ranks, TOP / "examples/numpy/train.py", TEXT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = [float(loss) for loss in re.findall(r"held-out loss ([0-9.]+)", done.stdout)]
        self.assertEqual(len(found), 4, done.stdout)
        self.assertIn(f"ranks: {ranks}; a step took", done.stdout)
        return found

    def test_the_trainer_learns_the_same_on_any_number_of_ranks(self):
        one, two = self.losses(1), self.losses(2)
        self.assertLess(one[-1], one[0] - 1.5)
        for loss, other in zip(one, two):
            self.assertAlmostEqual(loss, other, delta=0.005)

    def test_the_trainer_refuses_in_one_line(self):
        for arguments, words in ((["/nowhere"], "cannot read /nowhere"), ([TOP / "python/weft/py.typed"], "has 0 bytes")):
            done = subprocess.run([sys.executable, TOP / "examples/numpy/train.py", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 42, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        done = launched(3, TOP / "examples/numpy/train.py", TEXT)
        self.assertEqual(done.returncode, 42, done.stderr)
        self.assertIn("3 ranks cannot share 128 places", done.stderr)

    def test_the_program_with_zero_of_the_page(self):
        program = re.search(r"```python\n((?:(?!```).)*weft\.Zero.*?)```", (TOP / "docs/python.md").read_text(), re.S)[1]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "train.py").write_text(program)

            def weights(ranks):
                done = launched(ranks, "train.py", cwd=folder)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                found = re.findall(r"rank \d+: \[([^]]*)\]", done.stdout)
                self.assertEqual(len(found), ranks, done.stdout)
                for words in found:
                    for place, weight in enumerate(map(float, words.split())):
                        self.assertAlmostEqual(weight, place, delta=0.1)

            weights(2)
            checkpoints = sorted(path.name for path in (pathlib.Path(folder) / "checkpoints").glob("step-*"))
            self.assertEqual(checkpoints, ["step-00000300", "step-00000400"])
            shutil.rmtree(pathlib.Path(folder) / "checkpoints/step-00000400")
            weights(3)
            self.assertTrue((pathlib.Path(folder) / "checkpoints/step-00000400").exists())

    def test_the_first_program_of_the_page(self):
        program = re.search(r"```python\n(.*?)```", (TOP / "docs/python.md").read_text(), re.S)[1]
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(program)
            file.flush()
            done = launched(4, file.name)
        # Python writes a line and its end apart where its output has no buffer: another rank's line may be between.
        self.assertEqual(sorted(re.findall(r"rank \d of 4: 1\.5", done.stdout)), [f"rank {rank} of 4: 1.5" for rank in range(4)], done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
