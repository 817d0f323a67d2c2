#!/usr/bin/env python3
"""weft.Zero beside AdamW written down in plain Python, weft.Checkpointer beside a training that was never interrupted, and the mistakes of both as
exceptions with a sentence. Ranks are threads; the standard library alone.

usage: zero_test.py [unittest's arguments], with libweft.so in LD_LIBRARY_PATH and python/ in PYTHONPATH.
"""
import array
import gc
import math
import os
import pathlib
import tempfile
import unittest

import refusals
import weft

SHAPES = {"embed": (16, 8), "weight": (40,), "bias": (3,), "gain": ()}
STEPS = 6


def flat(view):
    return memoryview(view).cast("B").cast("f")


def parameters():
    found = {}
    for number, (name, shape) in enumerate(SHAPES.items()):
        values = array.array("f", [((7 * number + 3 * i) % 13 - 6) / 8 for i in range(math.prod(shape))])
        found[name] = memoryview(values).cast("B").cast("f", shape) if shape else values
    return found


def gradient(step, rank, number, count):
    """Small whole numbers over 16, so that sums and means of them are exact."""
    return array.array("f", [((step * 5 + rank * 3 + number + i) % 9 - 4) / 16 for i in range(count)])


def adamw(steps, ranks, rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.01, clip=None, frozen=()):
    """[values of each parameter] after so many steps, in float64, rounded to float32 where weft keeps float32: parameters and moments."""
    values = {name: array.array("f", flat(one)) for name, one in parameters().items()}
    first, second = ({name: array.array("f", bytes(4 * len(one))) for name, one in values.items()} for _ in range(2))
    for step in range(1, steps + 1):
        means = {name: [sum(of_ranks) / ranks for of_ranks in zip(*[gradient(step - 1, rank, number, len(one)) for rank in range(ranks)])]
                 for number, (name, one) in enumerate(values.items()) if name not in frozen}
        norm = math.sqrt(sum(g * g for one in means.values() for g in one))
        scale = min(1.0, clip / norm) if clip else 1.0
        for name, of_name in means.items():
            for i, mean in enumerate(of_name):
                g, old = mean * scale, values[name][i]
                first[name][i] = m = beta1 * first[name][i] + (1 - beta1) * g
                second[name][i] = v = beta2 * second[name][i] + (1 - beta2) * g * g
                update = m / (1 - beta1**step) / (math.sqrt(v / (1 - beta2**step)) + epsilon)
                values[name][i] = old - rate * (update + decay * old)
    return values


def step_of(zero, comm, step, exchange=True, rank=None):
    """Backward, unit by unit as forward was, and no update."""
    zero.begin(exchange)
    for unit in reversed(range(zero.units)):
        with zero.gather(unit):
            for number in reversed(range(len(zero.names))):
                if zero.unit_of(number) != unit or zero.names[number] in zero.of_test_frozen:
                    continue
                place = flat(zero.gradient(number))
                values = gradient(step, comm.rank if rank is None else rank, number, len(place))
                if zero.accumulating():
                    values = array.array("f", [a + b for a, b in zip(place, values)])
                if number % 2 and not zero.accumulating():
                    zero.ready(number, values)
                else:
                    place[:] = values
                    zero.ready(zero.names[number])
                zero.poll()


def made(comm, stage, frozen=(), optimizer=None, **options):
    zero = weft.Zero(comm, parameters(), stage, frozen=frozen, **options)
    zero.of_test_frozen = frozen
    zero.set_optimizer(**(optimizer or {}))
    return zero


def trained(comm, stage, steps=range(STEPS), **options):
    """[bytes of each parameter] after these steps."""
    with made(comm, stage, **options) as zero:
        for step in steps:
            step_of(zero, comm, step)
            zero.step()
        return [bytes(zero.whole(name).cast("B")) for name in zero.names]


class Zero(unittest.TestCase):
    def on_ranks(self, ranks, body):
        return weft.run_as_threads(ranks, body, timeout=60)

    def expect_near(self, found, wanted):
        for raw, (name, values) in zip(found, wanted.items()):
            for i, (got, want) in enumerate(zip(memoryview(raw).cast("f"), values)):
                self.assertAlmostEqual(got, want, delta=1e-6 + 2e-6 * abs(want), msg=f"{name}[{i}]")

    def test_every_stage_is_adamw_and_has_the_same_bits(self):
        units = ["embed", "bias"]
        for ranks in (1, 2, 3):
            for twin, given in (({}, {}), ({"clip": 0.5, "rate": 0.01, "decay": 0.1}, {"optimizer": {"clip_norm": 0.5, "learning_rate": 0.01, "weight_decay": 0.1}}),
                                ({"frozen": ("bias",)}, {"frozen": ("bias",)})):
                all_bits = []
                for stage in range(4):
                    found = self.on_ranks(ranks, lambda comm, stage=stage, given=given: trained(comm, stage, units=units, **given))
                    self.assertTrue(all(one == found[0] for one in found), f"stage {stage}: ranks differ")
                    all_bits.append(found[0])
                self.expect_near(all_bits[0], adamw(STEPS, ranks, **twin))
                self.assertTrue(all(one == all_bits[0] for one in all_bits), f"{ranks} ranks: stages differ")

    def test_a_rate_for_each_step_and_other_rules(self):
        def body(comm, rule, rates):
            with made(comm, 2, optimizer={"rule": rule, "learning_rate": 0.01}) as zero:
                for step, rate in enumerate(rates):
                    step_of(zero, comm, step)
                    zero.step(rate)
                self.assertEqual(zero.steps, len(rates))
                return [bytes(zero.whole(name).cast("B")) for name in zero.names]

        for rule in ("adamw", "adam", "sgd", "lamb", "lars"):
            own, same, other = (self.on_ranks(2, lambda comm, rule=rule, rates=rates: body(comm, rule, rates))[0]
                                for rates in ((None, None), (0.01, 0.01), (0.01, 0.02)))
            self.assertEqual(own, same)
            self.assertNotEqual(own, other)

    def test_a_step_takes_the_mean_of_its_micro_steps(self):
        def body(comm, stage):
            with made(comm, stage) as zero:
                step_of(zero, comm, 0, exchange=False)
                zero.finish()
                step_of(zero, comm, 1)
                zero.step()
                return [bytes(zero.whole(name).cast("B")) for name in zero.names]

        def in_one(comm):
            with made(comm, 0) as zero:
                zero.begin()
                for number in reversed(range(len(zero.names))):
                    count = len(flat(zero.gradient(number)))
                    zero.ready(number, array.array("f", [(a + b) / 2 for a, b in zip(*[gradient(step, comm.rank, number, count) for step in (0, 1)])]))
                zero.step()
                return [bytes(zero.whole(name).cast("B")) for name in zero.names]

        wanted = self.on_ranks(2, in_one)
        for stage in range(4):
            self.assertEqual(self.on_ranks(2, lambda comm, stage=stage: body(comm, stage)), wanted)

    def test_gathered_parameters(self):
        def body(comm):
            zero = made(comm, 3, units=["embed", 2])
            self.assertEqual((zero.units, zero.unit_of("weight"), zero.unit_of(3), repr(zero)), (2, 0, 1, "<weft.Zero of 4 parameters, stage 3>"))
            with zero.gather(0) as whole:
                self.assertEqual(whole["embed"].shape, SHAPES["embed"])
                self.assertEqual(bytes(whole["embed"].cast("B")), bytes(parameters()["embed"].cast("B")))
                with self.assertRaisesRegex(weft.UsageError, "parameter bias is in unit 1, and gathered are 0; gather its unit"):
                    whole["bias"]
            with self.assertRaisesRegex(weft.UsageError, "parameter embed is in unit 0, and what gather.. gave was released"):
                whole["embed"]
            with self.assertRaisesRegex(weft.UsageError, "gather: a unit 2; there are 2, from 0"):
                zero.gather(2)
            again = zero.gather(1)
            self.assertEqual(flat(again["gain"]).tolist(), flat(parameters()["gain"]).tolist())
            again.release()
            again.release()
            out = array.array("f", bytes(12))
            self.assertIs(zero.whole("bias", out), out)
            self.assertEqual(out.tolist(), flat(parameters()["bias"]).tolist())
            self.assertGreater(zero.held_bytes, 0)
            self.assertGreaterEqual(zero.exposed_seconds, 0)
            self.assertEqual(zero.loss_scale, 1)
            zero.close()
            with made(comm, 3, units=range(4)) as zero:
                for _ in range(2):  # what could be gathered was released
                    with self.assertRaisesRegex(weft.UsageError, "held"):
                        zero.gather()
                zero.gather(3).release()
            with made(comm, 3, units=range(4), held_units=4) as zero, zero.gather() as whole:
                self.assertEqual([bytes(flat(whole[name])) for name in SHAPES], [bytes(flat(one)) for one in parameters().values()])

        self.on_ranks(2, body)

    def test_a_shard_is_a_part(self):
        def body(comm, stage):
            values = [array.array("f", bytes(4 * 10_000)) for _ in range(16)]
            with weft.Zero(comm, values, stage, units=range(16), bucket_ring_bytes=100_000) as zero:
                return zero.held_bytes

        replicated, sharded = (self.on_ranks(4, lambda comm, stage=stage: body(comm, stage))[0] for stage in (0, 3))
        self.assertLess(sharded, 0.6 * replicated)

    def test_initial_values_that_differ(self):
        def body(comm, how):
            values = {"a": array.array("f", [comm.rank] * 300), "b": array.array("f", [1] * 100)}
            zero = weft.Zero(comm, values, 3, initial_values=how)
            zero.set_optimizer()
            zero.gather().release()
            return zero.whole("a").tolist()

        self.assertEqual(self.on_ranks(2, lambda comm: body(comm, "from rank 0")), [[0.0] * 300] * 2)
        with self.assertRaisesRegex(weft.MismatchError, "a"):
            self.on_ranks(2, lambda comm: body(comm, "compare"))

    def test_skipped_steps_and_norms(self):
        def body(comm):
            with made(comm, 1, optimizer={"skip_non_finite": True, "clip_norm": 1e9}) as zero:
                step_of(zero, comm, 0)
                result = zero.step()
                self.assertFalse(result.skipped)
                means = [sum(of_ranks) / 2 for number, name in enumerate(zero.names)
                         for of_ranks in zip(*[gradient(0, rank, number, math.prod(SHAPES[name])) for rank in range(2)])]
                self.assertAlmostEqual(result.norm, math.sqrt(sum(mean * mean for mean in means)), places=6)
                before = bytes(zero.whole("weight").cast("B"))
                zero.begin()
                for number in reversed(range(4)):
                    zero.ready(number, array.array("f", [math.nan if comm.rank == 1 else 0.0] * math.prod(SHAPES[zero.names[number]])))
                self.assertTrue(zero.step().skipped)
                self.assertEqual(bytes(zero.whole("weight").cast("B")), before)
                self.assertEqual(zero.steps, 1)
            with made(comm, 1) as zero:
                step_of(zero, comm, 0)
                self.assertEqual(zero.step(), (False, None))

        self.on_ranks(2, body)

    def test_bfloat16(self):
        def body(comm):
            with weft.Zero(comm, {"a": weft.bfloat16(array.array("H", [0x3F80] * 50))}, 2) as zero:  # ones
                zero.set_optimizer("sgd", learning_rate=0.5, momentum=0.0, split_masters=True)
                for _ in range(2):
                    zero.begin()
                    zero.ready("a", weft.bfloat16(array.array("H", [0x3F80] * 50)))
                    zero.step()
                out = array.array("H", bytes(100))
                zero.whole("a", weft.bfloat16(out))
                return zero.whole("a").tolist(), out.tolist()

        self.assertEqual(self.on_ranks(2, body), [([0] * 50, [0] * 50)] * 2)

    def test_mistakes(self):
        with weft.alone() as comm:
            good = parameters()

            def refused(pattern, call):
                self.assertNotRegex(str(refusals.refused(self, pattern, call)), "weft_|::")

            refused("there are no parameters", lambda: weft.Zero(comm, [], 1))
            refused("stage 4|a stage", lambda: weft.Zero(comm, good, 4))
            refused("`stage` is 'two'; give a whole number", lambda: weft.Zero(comm, good, "two"))
            refused("a parameter 'bia'; there are embed", lambda: weft.Zero(comm, good, 1, units=["bia"]))
            refused("a parameter of number 9", lambda: weft.Zero(comm, good, 1, frozen=[9]))
            refused("^weft: Zero: the first unit begins with parameter 1 of 4", lambda: weft.Zero(comm, good, 1, units=[1, 2]))
            refused("initial_values='rank 0'; there are 'compare'", lambda: weft.Zero(comm, good, 1, initial_values="rank 0"))
            refused("nothing-like-this", lambda: weft.Zero(comm, good, 1, hook="nothing-like-this"))
            zero = weft.Zero(comm, good, 1)
            refused("step: no optimizer was set; call set_optimizer", zero.step)
            refused("resume: this Zero has no optimizer", lambda: weft.Checkpointer(comm, None).resume(zero))
            refused("rule='adamax'; there are 'adamw', 'adam'", lambda: zero.set_optimizer("adamax"))
            refused("adamw has no momentum; it has learning_rate, weight_decay, beta1", lambda: zero.set_optimizer(momentum=0.9))
            refused("sgd has no beta1", lambda: zero.set_optimizer("sgd", beta1=0.9))
            refused("`learning_rate` is 'fast'; give a number", lambda: zero.set_optimizer(learning_rate="fast"))
            refused("a clip_norm of 0; give a number above 0", lambda: zero.set_optimizer(clip_norm=0))
            refused("beta1|beta", lambda: zero.set_optimizer(beta1=2.0))
            zero.set_optimizer()
            refused("an optimizer was set before", zero.set_optimizer)
            zero.begin()
            refused("the gradient of bias has 2 elements of float32; the parameter has 3", lambda: zero.ready("bias", array.array("f", [1, 2])))
            refused("a learning rate of -1; give a number of 0 or more", lambda: zero.step(-1))
            refused("`out` has 2 elements of float32; bias has 3", lambda: zero.whole("bias", array.array("f", [1, 2])))
            zero.close()
            refused("this Zero was closed", zero.begin)
            refused("this Zero was closed", lambda: zero.units)
            refused("every -1 steps", lambda: weft.Checkpointer(comm, "x", every=-1))
            refused("keep_last=0; give 1 or more, or None", lambda: weft.Checkpointer(comm, "x", keep_last=0))
            refused("`folder` is of type int", lambda: weft.Checkpointer(comm, 5))
            saver = weft.Checkpointer(comm, None)
            refused("which shows no memory", lambda: saver.resume([[1.0]]))
            saver.close()
            refused("this Checkpointer was closed", lambda: saver.resume(good))
            comm._is_on_host = False  # as where WEFT_DEVICE says so
            refused("Zero: this communicator computes on a device, .*; connect with WEFT_DEVICE=host", lambda: weft.Zero(comm, good, 1))
            refused("Reducer: this communicator computes on a device", lambda: weft.Reducer(comm, good))
            comm._is_on_host = True
            again = weft.Zero(comm, good, 1)
            comm.close()
            refused("this Communicator was closed", again.begin)

    def test_a_parameter_that_was_not_marked_is_named(self):
        with weft.alone() as comm, self.assertRaisesRegex(weft.UsageError, "2 of 4 parameters were never marked ready: embed, weight; .*say with `unused` what"):
            zero = made(comm, 2)
            zero.begin()
            for name in ("gain", "bias"):
                zero.ready(name, array.array("f", [0] * math.prod(SHAPES[name])))
            zero.step()

    def test_views_outlive_the_zero(self):
        def body(comm):
            zero = made(comm, 2)
            zero.begin()
            view = flat(zero.gradient("weight"))
            zero.close()
            del zero
            gc.collect()
            view[0] = 5.0
            return view

        views = self.on_ranks(2, body)
        gc.collect()
        self.assertEqual([view[0] for view in views], [5.0, 5.0])


class Checkpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with weft.alone() as comm:
            try:
                weft.Checkpointer(comm, None)
            except weft.UsageError as error:
                raise unittest.SkipTest(str(error)) from None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_to(self, ranks, stage, end, every=0, **options):
        """[(step it went on from, bits of parameters)] of a training that goes on to `end`."""
        def body(comm):
            with weft.Checkpointer(comm, options.get("folder", self.folder), every=every, run=options.get("run", "test"),
                                   keep_last=options.get("keep_last", 2)) as saver, made(comm, stage, units=["embed", "bias"]) as zero:
                begun = step = saver.resume(zero)
                while step < end:
                    step_of(zero, comm, step, rank=0)  # all ranks alike: the means are the same for any number of ranks
                    zero.step(0.01 / (step + 1))
                    step += 1
                    self.assertTrue(saver.after_step(step, zero, last=step == end))
                self.assertEqual(zero.steps, end)
                return begun, [bytes(zero.whole(name).cast("B")) for name in zero.names]

        found = weft.run_as_threads(ranks, body, timeout=60)
        self.assertTrue(all(one == found[0] for one in found))
        return found[0]

    def test_a_training_goes_on_bitwise_on_another_number_of_ranks_and_stage(self):
        _, wanted = self.run_to(2, 0, STEPS, folder=None)
        for before, after in (((3, 3), (2, 1)), ((1, 0), (3, 2)), ((2, 1), (1, 3))):
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(self.run_to(*before, 3, folder=folder)[0], 0)
                self.assertEqual(self.run_to(*after, STEPS, folder=folder), (3, wanted))

    def test_every_so_many_steps_and_how_many_stay(self):
        self.run_to(2, 2, 5, every=1, keep_last=3)
        self.assertEqual(sorted(path.name for path in self.folder.glob("step-*")), [f"step-{step:08d}" for step in (3, 4, 5)])
        self.run_to(2, 2, 7, every=1, keep_last=None)
        self.assertEqual(len(list(self.folder.glob("step-*"))), 5)

    def test_a_checkpoint_of_another_run_and_a_damaged_one(self):
        self.run_to(1, 1, 2)
        with self.assertRaisesRegex(weft.UsageError, "is of another run: test; this is other"):
            self.run_to(1, 1, 3, run="other")
        file = max((path for path in self.folder.rglob("*") if path.is_file()), key=os.path.getsize)
        content = bytearray(file.read_bytes())
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
        file.write_bytes(content)
        with self.assertRaisesRegex(weft.SystemError, file.name):
            self.run_to(1, 1, 3)

    def test_parameters_that_all_ranks_have(self):
        def body(comm, end):
            mine = {name: array.array("f", flat(one)) for name, one in parameters().items()}
            with weft.Checkpointer(comm, self.folder, every=2) as saver:
                begun = saver.resume(mine)
                for step in range(begun, end):
                    for one in mine.values():
                        for i in range(len(one)):
                            one[i] = one[i] * 1.5 + step
                    self.assertTrue(saver.after_step(step + 1, mine, last=step + 1 == end))
                    for one in mine.values() if step + 1 == end else ():
                        one[0] = 99.0  # what was saved is a copy
            return begun, [one.tolist()[1:] for one in mine.values()]

        self.assertEqual([begun for begun, _ in weft.run_as_threads(2, lambda comm: body(comm, 3), timeout=60)], [0, 0])
        found = weft.run_as_threads(3, lambda comm: body(comm, 3), timeout=60)
        wanted = {name: array.array("f", flat(one)) for name, one in parameters().items()}
        for step in range(3):
            for one in wanted.values():
                for i in range(len(one)):
                    one[i] = one[i] * 1.5 + step
        self.assertEqual(found, [(3, [one.tolist()[1:] for one in wanted.values()])] * 3)
        with self.assertRaisesRegex(weft.UsageError, "read-only"), weft.alone() as comm:
            weft.Checkpointer(comm, self.folder).resume({"a": b"1234"})

    def test_a_zero_that_was_closed_before_its_checkpoint_was_written(self):
        def body(comm):
            saver, zero = weft.Checkpointer(comm, self.folder, every=1), made(comm, 1)
            step_of(zero, comm, 0)
            zero.step()
            saver.after_step(1, zero)
            zero.close()
            del zero
            gc.collect()
            saver.close()
            gc.collect()
            with made(comm, 2) as zero, weft.Checkpointer(comm, self.folder) as saver:
                return saver.resume(zero)

        self.assertEqual(weft.run_as_threads(2, body, timeout=60), [1, 1])


if __name__ == "__main__":
    unittest.main()
