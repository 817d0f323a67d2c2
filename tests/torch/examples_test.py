"""The examples in Python: started alone they learn on two ranks, with gloo's digits."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "torch"


def losses(program, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    done = subprocess.run([sys.executable, str(EXAMPLES / program), "--steps", "21", *arguments], env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{program}: {done.stdout}{done.stderr[-3000:]}")
    found = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", done.stdout)]
    if len(found) != 3 or " on 2 ranks" not in done.stdout:
        raise AssertionError(f"{program} prints {done.stdout}")
    return found


class Examples(unittest.TestCase):
    def test_ddp_learns_as_over_gloo(self):
        over_weft = losses("ddp.py")
        self.assertLess(over_weft[-1], over_weft[0] - 1)
        self.assertEqual(over_weft, losses("ddp.py", "--backend", "gloo"))

    def test_ddp_learns_with_gradients_in_16_bits(self):
        exact, narrow = losses("ddp.py"), losses("ddp.py", "--hook", "fp16")
        self.assertAlmostEqual(exact[-1], narrow[-1], delta=0.05)

    def test_fsdp2_learns_as_ddp(self):
        self.assertEqual(losses("fsdp.py"), losses("ddp.py"))

    def test_a_wrong_argument_is_refused_before_ranks_start(self):
        done = subprocess.run([sys.executable, str(EXAMPLES / "ddp.py"), "--backend", "nccl"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 42)
        self.assertIn("--backend", done.stderr)


if __name__ == "__main__":
    unittest.main()
