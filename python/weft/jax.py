"""Means of gradients for trainers in JAX on the host: average(gradients), within jax.jit and outside.

    import jax, weft, weft.jax

    @jax.jit
    def step(parameters, batch):                                # each rank with its part of the batch
        gradients = weft.jax.average(jax.grad(loss)(parameters, batch))
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

    def main():
        with weft.world():
            ...
    weft.run(main)

Within jax.jit it is an ordered jax.experimental.io_callback: calls of a program keep their order, which all ranks must share. WRONG: average() in a
branch of jax.lax.cond that not every rank takes; the others wait for it until their deadline.
"""

import hashlib

import jax
import numpy as np
from jax.experimental import io_callback

from . import _communicator
from ._errors import MismatchError, UsageError

__all__ = ["average"]

_TYPES = ("float32", "float64", "float16", "bfloat16")
_MOST = 1 << 16  # bytes of a pytree's description that ranks show each other where they differ


def average(gradients, comm=None):
    """The mean of every array over the ranks, as a pytree of the same form. Collective; blocks, within jax.jit when the step runs.

    gradients: a pytree of arrays of float32, float64, float16 or bfloat16 on the host, of one form on all ranks. Outside jax.jit arrays of NumPy come
    back as such. comm: default weft.world(). The ranks' parts of a batch must have the same size for the mean to be that of the whole batch.

    Raises UsageError for what is no such array; MismatchError, on every rank, where the pytree differs by rank. Within jax.jit errors of a step are
    JAX's (jax.errors.JaxRuntimeError), whose text has weft's line.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path(gradients)
    names, leaves = [f"gradients{jax.tree_util.keystr(path)}" for path, _ in paths], [leaf for _, leaf in paths]
    for name, leaf in zip(names, leaves):
        _check(name, leaf)
    comm = _communicator.world() if comm is None else comm
    described = "\n".join(f"{name}: {leaf.dtype.name}{list(leaf.shape)}" for name, leaf in zip(names, leaves)).encode()
    digest = hashlib.sha256(described).digest()[:8]
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
        means = io_callback(lambda *arrays: _averaged(comm, described, digest, arrays), shapes, *leaves, ordered=True)
    else:
        means = [jax.device_put(mean, next(iter(leaf.devices()))) if isinstance(leaf, jax.Array) else mean
                 for leaf, mean in zip(leaves, _averaged(comm, described, digest, leaves))]
    return jax.tree_util.tree_unflatten(tree, means)


def _check(name, leaf):
    if not isinstance(leaf, (jax.Array, np.ndarray)):
        raise UsageError(f"weft: average: `{name}` is of type {type(leaf).__name__}; give arrays of JAX or NumPy")
    if leaf.dtype.name not in _TYPES:
        raise UsageError(f"weft: average: `{name}` is of {leaf.dtype.name}, which has no mean here; there are {', '.join(_TYPES)}")
    if isinstance(leaf, jax.core.Tracer):  # it is on no device yet
        where, count = jax.default_backend(), 1
    elif isinstance(leaf, jax.Array):
        where, count = next(iter(leaf.devices())).platform, len(leaf.devices())
    else:
        return
    if where != "cpu":
        raise UsageError(f"weft: average: `{name}` is on a device ({where}), and weft.jax reads the host's memory; compute on the host, with JAX_PLATFORMS=cpu")
    if count != 1:
        raise UsageError(f"weft: average: `{name}` is spread over {count} devices of JAX; give the array of one device")


def _averaged(comm, described, digest, arrays):
    """NumPy arrays: the means. One operation for each type."""
    _agree(comm, described, digest)
    arrays = [np.asarray(array) for array in arrays]
    means, works = [None] * len(arrays), []
    for kind in dict.fromkeys(array.dtype for array in arrays):
        numbers = [i for i, array in enumerate(arrays) if array.dtype == kind]
        flat, end = np.concatenate([arrays[i].ravel() for i in numbers]), 0
        if flat.size:
            works.append(comm.all_reduce(flat, op="avg"))
        for i in numbers:
            begin, end = end, end + arrays[i].size
            means[i] = flat[begin:end].reshape(arrays[i].shape)
    for work in works:
        work.wait()
    return means


def _agree(comm, text, digest):
    """Raises MismatchError, on every rank, where the ranks' pytrees differ."""
    mine, digests = np.frombuffer(digest, np.int64), np.zeros(comm.size, np.int64)
    comm.all_gather(mine, digests).wait()
    if (digests == digests[0]).all():
        return
    shown, texts = np.zeros(_MOST, np.uint8), np.zeros(comm.size * _MOST, np.uint8)
    shown[: len(text[:_MOST])] = np.frombuffer(text[:_MOST], np.uint8)
    comm.all_gather(shown, texts).wait()
    lines = [bytes(part).rstrip(b"\0").decode(errors="replace").split("\n") for part in texts.reshape(comm.size, _MOST)]
    other = int(np.argmax(digests != digests[0]))
    ours, theirs = lines[0], lines[other]
    at = next((i for i, (one, two) in enumerate(zip(ours, theirs)) if one != two), min(len(ours), len(theirs)))
    one, two = (f"has {part[at]}" if at < len(part) else f"ends after {len(part)} arrays" for part in (ours, theirs))
    raise MismatchError(f"weft: rank {comm.rank}: average: the pytree differs by rank: as array {at}, rank 0 {one}, and rank {other} {two}; give all ranks the same")
