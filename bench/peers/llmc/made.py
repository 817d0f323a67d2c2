"""A model and a text for train_gpt2.c, both drawn: made.py FOLDER. A GPT-2 of 4 layers and 256 channels; 200,000 tokens of 4,096."""
import array
import random
import sys
from pathlib import Path

folder = Path(sys.argv[1])
length, vocabulary, layers, heads, channels = 256, 4096, 4, 4, 256
draw = random.Random(1)
sizes = {"wte": vocabulary * channels, "wpe": length * channels, "ln1w": layers * channels, "ln1b": layers * channels,
         "qkvw": 3 * layers * channels**2, "qkvb": 3 * layers * channels, "attprojw": layers * channels**2, "attprojb": layers * channels,
         "ln2w": layers * channels, "ln2b": layers * channels, "fcw": 4 * layers * channels**2, "fcb": 4 * layers * channels,
         "fcprojw": 4 * layers * channels**2, "fcprojb": layers * channels, "lnfw": channels, "lnfb": channels}
header = array.array("i", [20240326, 3, length, vocabulary, layers, heads, channels, vocabulary] + [0] * 248)
with open(folder / "gpt2_124M.bin", "wb") as out:
    header.tofile(out)
    for name, size in sizes.items():
        fixed = 1.0 if name.startswith("ln") and name.endswith("w") else 0.0 if name.endswith("b") else None
        array.array("f", (draw.gauss(0, 0.02) if fixed is None else fixed for _ in range(size))).tofile(out)
data = folder / "dev/data/tinyshakespeare"
data.mkdir(parents=True, exist_ok=True)
for name in ("train", "val"):
    with open(data / f"tiny_shakespeare_{name}.bin", "wb") as out:
        array.array("i", [20240520, 1, 200_000] + [0] * 253).tofile(out)
        array.array("H", (min(vocabulary - 1, int(draw.paretovariate(0.6))) for _ in range(200_000))).tofile(out)
