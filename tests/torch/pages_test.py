"""The Python snippets of docs/pytorch.md run on two ranks, as torchrun would start them, beside the files that its lines of weft-plan write."""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "pytorch.md"


def plan(folder):
    """Runs the page's lines of weft-plan in the folder."""
    lines = re.findall(r"^    weft-plan (.*?)(?: +#.*)?$", PAGE.read_text(), re.M)
    for line in lines:
        subprocess.run([os.environ["WEFT_PLAN"], *shlex.split(line)], cwd=folder, check=True, capture_output=True, timeout=120)
    return lines


class Pages(unittest.TestCase):
    def test_snippets_run(self):
        snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
        self.assertGreaterEqual(len(snippets), 4)
        for snippet in snippets:
            with tempfile.TemporaryDirectory() as folder:
                self.assertTrue(plan(folder))
                path = pathlib.Path(folder, "snippet.py")
                # The build folder has no entry point; an installed package has (package_test.py).
                path.write_text("import weft.torch\n" + snippet)
                environment = dict(os.environ, OMP_NUM_THREADS="1")
                done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(path)],
                                      cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, f"{snippet}\n{done.stderr[-3000:]}")


if __name__ == "__main__":
    unittest.main()
