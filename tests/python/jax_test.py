#!/usr/bin/env python3
"""weft.jax.average on ranks: means are the gradients of one process with the whole batch, within jax.jit and outside; what is wrong is one sentence.

usage: jax_test.py WEFT_LAUNCH FOLDER_OF_THE_PROJECT; ends with 77 where neither python3 nor the environment of
`launchers/setup.sh jax` (WEFT_JAX_VENV) has JAX.
"""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import unittest

OF_SETUP = os.path.join(os.environ.get("WEFT_JAX_VENV", os.path.expanduser("~/.cache/weft-jax")), "bin/python")
PYTHON = sys.executable if importlib.util.find_spec("jax") else OF_SETUP
if not os.path.exists(PYTHON):
    print(f"skipped: {sys.executable} has no jax, and there is no {OF_SETUP}; launchers/setup.sh jax installs it")
    sys.exit(77)

LAUNCH, TOP = sys.argv[1], pathlib.Path(sys.argv[2])


def launched(ranks, *command, **environment):
    return subprocess.run([LAUNCH, "-n", str(ranks), PYTHON, *map(str, command)], capture_output=True, text=True, timeout=400,
                          env={**os.environ, "JAX_PLATFORMS": "cpu", "WEFT_TIMEOUT": "60", "WEFT_CONNECT_TIMEOUT": "120", **environment})


BEGIN = """
    import jax, jax.numpy as jnp, numpy as np, weft, weft.jax
    import os
    from unittest import mock
    def tell(words):
        os.write(1, f"{comm.rank}: {words}\\n".encode())  # a line as a whole, which another rank's cannot break
    def refused(gradients, kind=weft.UsageError):
        try:
            weft.jax.average(gradients)
        except kind as error:
            tell(error)
        else:
            raise AssertionError("not refused")
    comm = weft.world()
    """

EQUAL = BEGIN + """
    x, y = (np.random.default_rng(seed).normal(size=(16, 5)).astype(np.float32) for seed in (1, 2))
    p = {"b": jnp.zeros(5), "w": [jnp.eye(5), jnp.float32(0.5)]}
    def loss(p, x, y):
        return jnp.mean((jnp.tanh(x @ p["w"][0] + p["b"]) * p["w"][1] - y) ** 2)
    whole = jax.grad(loss)(p, x, y)
    mine = slice(comm.rank * 16 // comm.size, (comm.rank + 1) * 16 // comm.size)
    step = jax.jit(lambda p, x, y: weft.jax.average(jax.grad(loss)(p, x, y)))
    for found in (weft.jax.average(jax.grad(loss)(p, x[mine], y[mine])), *[step(p, x[mine], y[mine]) for _ in range(3)]):
        assert jax.tree.structure(found) == jax.tree.structure(whole)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), found, whole)
    # Several types at once, NumPy's arrays, arrays without elements, the order of two calls in one program.
    mixed = {"half": jnp.full(3, comm.rank, jnp.bfloat16), "double": np.full((2, 2), comm.rank, np.float64), "none": jnp.zeros((0, 3))}
    found = weft.jax.average(mixed)
    middle = (comm.size - 1) / 2
    assert type(found["double"]) is np.ndarray and (found["double"] == middle).all() and (found["half"] == jnp.bfloat16(middle)).all()
    assert found["half"].dtype == jnp.bfloat16 and found["none"].shape == (0, 3) and (mixed["double"] == comm.rank).all()
    assert weft.jax.average({}) == {}
    two = jax.jit(lambda a: (weft.jax.average(a), weft.jax.average([a, 2 * a])[1]))
    first, second = two(jnp.full(4, comm.rank, jnp.float32))
    assert (first == middle).all() and (second == 2 * middle).all()
    tell("right")
    """

REFUSED = BEGIN + """
    refused({"a": [jnp.zeros(2), 3.0]})
    refused({"a": jnp.zeros(2, jnp.int32)})
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        try:
            jax.jit(weft.jax.average)(jnp.zeros(2))
        except weft.UsageError as error:
            tell(error)
    spread = jax.device_put(jnp.zeros(2), jax.sharding.NamedSharding(jax.make_mesh((2,), "i"), jax.sharding.PartitionSpec("i")))
    refused([spread])
    refused({"a": jnp.zeros(2), "b": jnp.zeros(2 + comm.rank)}, weft.MismatchError)
    refused([jnp.zeros(2)] * (1 + comm.rank), weft.MismatchError)
    assert weft.jax.average(jnp.ones(1)) == 1                   # none of it has broken the communicator
    try:
        jax.block_until_ready(jax.jit(weft.jax.average)(jnp.zeros(2 + comm.rank)))
    except jax.errors.JaxRuntimeError as error:
        assert "the pytree differs by rank: as array 0, rank 0 has gradients: float32[2], and rank 1 has gradients: float32[3]" in str(error), error
        tell("jitted")
    """


class Jax(unittest.TestCase):
    def test_means_are_the_gradients_of_the_whole_batch(self):
        for ranks in (1, 2, 4):
            done = launched(ranks, "-c", textwrap.dedent(EQUAL))
            self.assertEqual(sorted(re.findall(r"(\d): right", done.stdout)), [str(rank) for rank in range(ranks)], done.stdout + done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_wrong_is_one_sentence_on_every_rank(self):
        done = launched(2, "-c", textwrap.dedent(REFUSED), XLA_FLAGS="--xla_force_host_platform_device_count=2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in "01":
            found = [line[3:] for line in done.stdout.splitlines() if line.startswith(f"{rank}: ")]
            self.assertEqual(found, [
                "weft: average: `gradients['a'][1]` is of type float; give arrays of JAX or NumPy",
                "weft: average: `gradients['a']` is of int32, which has no mean here; there are float32, float64, float16, bfloat16",
                "weft: average: `gradients` is on a device (gpu), and weft.jax reads the host's memory; compute on the host, with JAX_PLATFORMS=cpu",
                "weft: average: `gradients[0]` is spread over 2 devices of JAX; give the array of one device",
                f"weft: rank {rank}: average: the pytree differs by rank: as array 1, rank 0 has gradients['b']: float32[2], and rank 1 has "
                "gradients['b']: float32[3]; give all ranks the same",
                f"weft: rank {rank}: average: the pytree differs by rank: as array 1, rank 0 ends after 1 arrays, and rank 1 has gradients[1]: float32[2]; "
                "give all ranks the same",
                "jitted"], done.stderr)

    def test_the_trainer_learns_the_same_on_any_number_of_ranks(self):
        losses = []
        for ranks in (1, 2):
            done = launched(ranks, TOP / "examples/jax/train.py", TOP / "docs/pytorch.md")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            losses.append([float(loss) for loss in re.findall(r"held-out loss ([0-9.]+)", done.stdout)])
            self.assertEqual(len(losses[-1]), 4, done.stdout)
        self.assertLess(losses[0][-1], losses[0][0] - 1.5)
        for one, two in zip(*losses):
            self.assertAlmostEqual(one, two, delta=0.005)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
