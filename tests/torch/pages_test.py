"""The Python snippets of docs/pytorch.md run on two ranks, as torchrun would start them."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "pytorch.md"


class Pages(unittest.TestCase):
    def test_snippets_run(self):
        snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
        self.assertGreaterEqual(len(snippets), 3)
        for snippet in snippets:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "snippet.py")
                # The build folder has no entry point; an installed package has (package_test.py).
                path.write_text("import weft.torch\n" + snippet)
                environment = dict(os.environ, OMP_NUM_THREADS="1")
                done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(path)],
                                      env=environment, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, f"{snippet}\n{done.stderr[-3000:]}")


if __name__ == "__main__":
    unittest.main()
