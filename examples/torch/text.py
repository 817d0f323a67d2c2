"""What the examples learn: the license texts that every Debian machine has, as bytes, and a small transformer for them."""

import pathlib
import time

import torch
from torch import nn

CONTEXT = 64
TEXTS = pathlib.Path("/usr/share/common-licenses")


class Text:
    """Draws sequences from the text; each rank draws its own."""

    def __init__(self, rank, folder=TEXTS):
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
        if not files:
            raise SystemExit(f"no text in {folder}")
        text = b"".join(path.read_bytes() for path in files)
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.random = torch.Generator().manual_seed(1000 + rank)

    def batch(self, sequences):
        """Two tensors of (sequences, CONTEXT): the bytes, and the bytes that follow them."""
        begins = torch.randint(len(self.bytes) - CONTEXT - 1, (sequences,), generator=self.random)
        rows = torch.stack([self.bytes[begin : begin + CONTEXT + 1] for begin in begins.tolist()])
        return rows[:, :-1], rows[:, 1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.query_key_value(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = (parts[:, :, i].transpose(1, 2) for i in range(3))
        attention = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    """A transformer over bytes. With equal seeds, every rank makes the same one."""

    def __init__(self, layers=4, width=128, heads=4):
        super().__init__()
        torch.manual_seed(1)
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, data):
        x = self.bytes(data) + self.places(torch.arange(data.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model, batch):
    data, following = batch
    return nn.functional.cross_entropy(model(data).flatten(0, 1), following.flatten())


def learn(model, optimizer, steps, rank):
    """An ordinary training loop: what is distributed is in the model that it is given. Rank 0 prints."""
    text = Text(rank)
    began = time.monotonic()
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, text.batch(sequences=8))
        loss.backward()
        optimizer.step()
        if rank == 0 and (step % 10 == 0 or step == steps - 1):
            print(f"step {step:4d}: loss {loss.item():.3f}", flush=True)
    if rank == 0:
        print(f"{steps / (time.monotonic() - began):.1f} steps a second")
