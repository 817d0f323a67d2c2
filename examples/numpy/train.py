#!/usr/bin/env python3
"""Data-parallel training in NumPy over weft (docs/python.md): a net of two layers learns which byte of a text comes next.

    weft-launch -n 2 python3 train.py [TEXT]

A step learns 128 places of the text, of which each rank takes its share; so the losses are the same on any number of ranks, but for rounding.
"""
import sys

import numpy as np

import weft

CONTEXT, HIDDEN = 6, 64  # 6 bytes in, 64 hidden values, 256 probabilities out
STEPS, BATCH, RATE = 301, 128, 1.0


class Model:
    def __init__(self):
        random = np.random.default_rng(1)
        self.parameters = {"embed": random.normal(0, 0.1, (CONTEXT * 256, HIDDEN)).astype(np.float32),
                           "head": random.normal(0, 0.1, (HIDDEN, 256)).astype(np.float32)}

    def forward(self, text, places):
        """The mean loss of the bytes that follow `places`."""
        embed, head = self.parameters.values()
        self.rows = np.stack([256 * k + text[places + k] for k in range(CONTEXT)])
        self.hidden = np.tanh(embed[self.rows].sum(axis=0))
        scores = self.hidden @ head
        scores -= scores.max(axis=1, keepdims=True)
        self.chances = np.exp(scores)
        self.chances /= self.chances.sum(axis=1, keepdims=True)
        self.wanted = np.arange(len(places)), text[places + CONTEXT]
        return float(-np.log(self.chances[self.wanted]).mean())

    def backward(self, reducer, gradients):
        error = self.chances / len(self.chances)
        error[self.wanted] -= 1 / len(error)
        np.matmul(self.hidden.T, error, out=gradients["head"])
        reducer.ready("head")  # it leaves while the rest of backward runs
        of_hidden = (error @ self.parameters["head"].T) * (1 - self.hidden**2)
        gradients["embed"][:] = 0
        np.add.at(gradients["embed"], self.rows, of_hidden)
        reducer.ready("embed")


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/common-licenses/GPL-3"
    try:
        text = np.fromfile(name, np.uint8).astype(np.int64)
    except OSError as error:
        raise weft.UsageError(f"train.py: cannot read {name}: {error.strerror}; name a text of 10000 bytes or more") from None
    if len(text) < 10000:
        raise weft.UsageError(f"train.py: {name} has {len(text)} bytes; name a text of 10000 bytes or more")
    with weft.world() as comm:
        if BATCH % comm.size:
            raise weft.UsageError(f"train.py: {comm.size} ranks cannot share {BATCH} places of a step; start 1, 2, 4, ... ranks")
        model, end = Model(), len(text) // 10 * 9  # the last tenth is held out
        held_out = np.arange(end, len(text) - CONTEXT, 7)
        weft.sync_initial_values(comm, model.parameters)
        reducer = weft.Reducer(comm, model.parameters)
        gradients = {name: np.asarray(one) for name, one in zip(reducer.names, reducer.gradients)}
        random = np.random.default_rng(2)  # the same on every rank
        for step in range(STEPS):
            if step % 100 == 0 and comm.rank == 0:
                print(f"step {step}: held-out loss {model.forward(text, held_out):.3f}", flush=True)
            places = random.integers(0, end - CONTEXT, BATCH)
            model.forward(text, places[comm.rank :: comm.size])
            reducer.begin()
            model.backward(reducer, gradients)
            reducer.finish()
            for name, parameter in model.parameters.items():
                parameter -= RATE * gradients[name]
        account = reducer.account()
        if comm.rank == 0 and account:
            took, exposed = (1e3 * np.median(values) for values in zip(*[(one.seconds, one.exposed_seconds) for one in account]))
            print(f"ranks: {comm.size}; a step took {took:.2f} ms, of which {exposed:.2f} ms waited for communication")


if __name__ == "__main__":
    weft.run(main)
