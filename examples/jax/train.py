#!/usr/bin/env python3
"""Data-parallel training in JAX on the host over weft (docs/python.md): a net of two layers learns which byte of a text comes next.

    JAX_PLATFORMS=cpu weft-launch -n 2 python3 train.py [TEXT]

A step learns 128 places of the text, of which each rank takes its share; so the losses are the same on any number of ranks, but for rounding.
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np

import weft
import weft.jax

CONTEXT, HIDDEN = 6, 64  # 6 bytes in, 64 hidden values, 256 probabilities out
STEPS, BATCH, RATE = 301, 128, 1.0


def loss(parameters, rows, wanted):
    """The mean loss of bytes `wanted` that follow those in `rows`, of shape (CONTEXT, places)."""
    hidden = jnp.tanh(parameters["embed"][rows].sum(axis=0))
    chances = jax.nn.log_softmax(hidden @ parameters["head"])
    return -jnp.take_along_axis(chances, wanted[:, None], axis=1).mean()


@jax.jit
def step(parameters, rows, wanted):
    gradients = weft.jax.average(jax.grad(loss)(parameters, rows, wanted))
    return jax.tree.map(lambda parameter, gradient: parameter - RATE * gradient, parameters, gradients)


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/common-licenses/GPL-3"
    try:
        text = np.fromfile(name, np.uint8).astype(np.int32)
    except OSError as error:
        raise weft.UsageError(f"train.py: cannot read {name}: {error.strerror}; name a text of 10000 bytes or more") from None
    if len(text) < 10000:
        raise weft.UsageError(f"train.py: {name} has {len(text)} bytes; name a text of 10000 bytes or more")

    def at(places):
        return np.stack([256 * k + text[places + k] for k in range(CONTEXT)]), text[places + CONTEXT]

    with weft.world() as comm:
        if BATCH % comm.size:
            raise weft.UsageError(f"train.py: {comm.size} ranks cannot share {BATCH} places of a step; start 1, 2, 4, ... ranks")
        embed, head = jax.random.split(jax.random.key(1))  # the same on every rank
        parameters = {"embed": 0.1 * jax.random.normal(embed, (CONTEXT * 256, HIDDEN)), "head": 0.1 * jax.random.normal(head, (HIDDEN, 256))}
        end = len(text) // 10 * 9  # the last tenth is held out
        held_out = at(np.arange(end, len(text) - CONTEXT, 7))
        random = np.random.default_rng(2)  # the same on every rank
        for number in range(STEPS):
            if number % 100 == 0 and comm.rank == 0:
                print(f"step {number}: held-out loss {loss(parameters, *held_out):.3f}", flush=True)
            places = random.integers(0, end - CONTEXT, BATCH)
            parameters = step(parameters, *at(places[comm.rank :: comm.size]))
        jax.block_until_ready(parameters)


if __name__ == "__main__":
    weft.run(main)
