"""Applies the diff of a page of docs/contributing to copies of the files that it changes, in a folder of its own.

usage: applied.py PAGE SOURCE_TREE FOLDER
"""

import pathlib
import re
import shutil
import subprocess
import sys


def main(page, tree, folder):
    diff = re.search(r"```diff\n(.*?)```", pathlib.Path(page).read_text(), re.DOTALL)[1]
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for changed in re.findall(r"^--- a/(.+)$", diff, re.MULTILINE):
        (folder / changed).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pathlib.Path(tree) / changed, folder / changed)
    # A folder within a repository would be taken for a part of it.
    done = subprocess.run(["git", "-C", str(folder), "apply", "-"], input=diff, text=True, capture_output=True,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_DIR": "/dev/null"}, check=False)
    if done.returncode != 0:
        sys.exit(f"{page}: its diff does not apply: {done.stderr}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
