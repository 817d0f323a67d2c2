"""Schedules of weft-plan under torch's pipelining (weft.torch.load_schedule): over weft bitwise as over gloo, and near one process; what is refused."""

import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import torch
import weft.torch
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _Action, _add_send_recv
from weft.torch.schedules import _as_torch_writes, _expect_no_deadlock, _read_text, read_schedule

import pipelines
from pipelines import loss_of, stages_of, train, train_in_one_piece
from ranks import run
from table import BITWISE, Case, tests_of

PLAN = os.environ["WEFT_PLAN"]  # torch_test.sh says where it is


def planned(form="--text", **options):
    """What weft-plan writes."""
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    done = subprocess.run([PLAN, "schedule", *words, form, "-", "--quiet"], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"{PLAN} {' '.join(words)}: {done.stderr}")
    return done.stdout


def carry_out(rank, size, schedule):
    plan = read_schedule(schedule)
    stages = stages_of(plan.stages_of(rank), len(plan.device_of))
    return train(weft.torch.load_schedule(stages, schedule, loss_fn=loss_of), stages, plan.microbatches)


# 1F1B's memory, twice that, a V; whole backwards and split ones; what looks at costs; pairs that overlap.
PLANNED = {
    "found": dict(devices=3, microbatches=6, memory=3),
    "found_of_two_chunks": dict(devices=2, microbatches=5, chunks=2, memory=2),
    "found_with_hops": dict(devices=4, microbatches=8, chunks=2, memory=4, comm=0.2, backward_weight=0.6),
    "one_f_one_b": dict(name="1f1b", devices=3, microbatches=7),
    "gpipe": dict(name="gpipe", devices=2, microbatches=3),
    "zb_h1": dict(name="zb-h1", devices=4, microbatches=6),
    "zb_h2": dict(name="zb-h2", devices=3, microbatches=8),
    "zb_v": dict(name="zb-v", devices=3, microbatches=6, chunks=2),
    "interleaved": dict(name="interleaved", devices=2, microbatches=4, chunks=3),
}
OVERLAPPING = """schedule pairs
microbatches 3
placement 0 1
device 0: 0F0 0F1 (0F2;0B0)OVERLAP_F_B 0B1 0B2
device 1: 1F0 (1F1;1B0)OVERLAP_F_B (1F2;1B1)OVERLAP_F_B 1B2
"""


def text_of(name):
    return planned(**PLANNED[name])


class OneProcess(unittest.TestCase):
    def test_losses_and_gradients_are_those_of_one_process(self):
        """Torch scales the sum of gradients once, as the twin does; a split backward multiplies matrices in another order."""
        for name in PLANNED:
            text = text_of(name)
            plan = read_schedule(text)
            size = len(plan.rows)
            with self.subTest(schedule=name):
                expected = train_in_one_piece(len(plan.device_of), plan.microbatches)
                for rank, found in enumerate(run(carry_out, size, schedule=text)):
                    for kind in ("gradients", "parameters"):
                        for index, tensors in found[kind].items():
                            torch.testing.assert_close(tensors, expected[kind][index], rtol=1e-5, atol=1e-7,
                                                       msg=lambda line: f"{name}, rank {rank}, {kind} of stage {index}: {line}")
                    if len(plan.device_of) - 1 in found["parameters"]:
                        torch.testing.assert_close(found["losses"], expected["losses"], rtol=1e-5, atol=1e-7)


class Forms(unittest.TestCase):
    def test_text_csv_and_files_are_one_schedule(self):
        options = PLANNED["zb_v"]
        text, csv = planned("--text", **options), planned("--csv", **options)
        expected = read_schedule(text)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "plan.txt")
            path.write_text(text)
            for form in (csv, path, str(path), csv.replace("\n", "\r\n"), csv.replace("0F0,", "0F0,,", 1)):
                found = read_schedule(form)
                self.assertEqual((found.microbatches, found.device_of, found.rows), (expected.microbatches, expected.device_of, expected.rows))
        self.assertEqual(expected.name, "zb-v")

    def test_one_device_in_one_line(self):
        self.assertEqual(read_schedule("0F0,0F1,0B0,0B1").microbatches, 2)

    def test_a_file_that_is_not_there(self):
        with self.assertRaises(FileNotFoundError):
            read_schedule("no-such-plan.txt")
        for wrong in (b"plan.txt", 3, None):
            with self.assertRaises(TypeError):
                read_schedule(wrong)

    def test_what_is_no_regular_file_is_refused_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = pathlib.Path(folder) / "plan\x1b[2J.txt"
            os.mkfifo(pipe)
            for path in (pipe, pathlib.Path(folder), pathlib.Path("/dev/zero")):
                with self.assertRaisesRegex(ValueError, "is no regular file") as refused:
                    read_schedule(path)
                self.assertNotIn("\x1b", str(refused.exception))


TWO = "schedule x\nmicrobatches 2\nplacement 0 1\ndevice 0: 0F0 0F1 0B0 0B1\ndevice 1: 1F0 1B0 1F1 1B1\n"
# A text, and words of its error: the action and the device above all.
REFUSED = {
    "recomputation": (TWO.replace("0B0", "0RECOMPUTE0 0B0"), ("device 0", "0RECOMPUTE0", "torch has no RECOMPUTE")),
    "offloading": (TWO.replace("1B1", "1OFFLOAD1 1WAIT_OFFLOAD1 1B1"), ("device 1", "1OFFLOAD1", "torch has no OFFLOAD")),
    "waiting for a load": (TWO.replace("1B1", "1WAIT_LOAD1 1B1"), ("device 1", "1WAIT_LOAD1", "torch has no LOAD")),
    "a message": (TWO.replace("0F0 ", "0F0 0SEND_F0 "), ("device 0", "0SEND_F0", "adds messages")),
    "waiting for a message": (TWO.replace("1F0 ", "1WAIT_RECV_F0 1F0 "), ("device 1", "1WAIT_RECV_F0")),
    "gathering of parameters": (TWO.replace("0F0 ", "0UNSHARD 0F0 "), ("device 0", "0UNSHARD")),
    "an unknown word": (TWO.replace("0B1", "0X1"), ("device 0", "0X1", "no action")),
    "no word": (TWO.replace("0B1", "backward"), ("device 0", "'backward'")),
    "no microbatch": (TWO.replace("0B1", "0B"), ("device 0", "0B has no microbatch")),
    "something behind it": (TWO.replace("0B1", "0B1x"), ("device 0", "'0B1x'")),
    "a backward before its forward": (TWO.replace("1F1 1B1", "1B1 1F1"), ("device 1", "1B1")),
    "an action twice": (TWO.replace("1B0", "1B0 1B0"), ("device 1", "1B0")),
    "both kinds of backward": (TWO.replace("1B0", "1B0 1W0"), ("device 1", "1W0")),
    "a weight gradient before the input's": (TWO.replace("1B0", "1W0 1I0"), ("device 1", "1W0")),
    "an input gradient alone": (TWO.replace("1B0", "1I0"), ("device 1", "1W0 is missing")),
    "no backward": (TWO.replace(" 0B1", ""), ("device 0", "0B1", "is missing")),
    "no forward": (TWO.replace(" 1F1 1B1", ""), ("device 1", "1F1 is missing")),
    "a stage of another device": (TWO.replace("1B1", "0B1"), ("device 1", "0B1", "stage 0 is on device 0")),
    "a stage that is not there": (TWO.replace("1B1", "7B1"), ("device 1", "7B1", "2 stages")),
    "a microbatch too many": (TWO.replace("1B1", "1B1 1F2 1B2"), ("device 1", "1F2", "2 microbatches")),
    "a device without work": (TWO.replace("placement 0 1", "placement 0 2").replace("device 1:", "device 1:\ndevice 2:"), ("device 1", "no action")),
    "a device that is not there": (TWO.replace("placement 0 1", "placement 0 5"), ("stage 1", "device 5 of 2")),
    "no microbatches": (TWO.replace("microbatches 2", "microbatches 0"), ("0 microbatches",)),
    "a huge number": (TWO.replace("microbatches 2", "microbatches 99999999999"), ("99999999999", "microbatches")),
    "no line of microbatches": (TWO.replace("microbatches", "batches"), ("line 2", "'batches'")),
    "no devices": ("schedule x\nmicrobatches 2\nplacement 0\n", ("0 devices",)),
    "a device out of turn": (TWO.replace("device 1:", "device 3:"), ("line 5", "'device 1:'")),
    "a pair of one": (TWO.replace("0B1", "(0B1)OVERLAP_F_B"), ("device 0", "(0B1)OVERLAP_F_B")),
    "losses out of order": (TWO.replace("1F0 1B0 1F1 1B1", "1F1 1B1 1F0 1B0"), ("device 1", "1F1 where 1F0", "losses")),
    "a deadlock": (TWO.replace("0F0 0F1 0B0 0B1", "0F0 0B0 0F1 0B1").replace("1F0 1B0 1F1 1B1", "1F0 1F1 1B0 1B1"),
                   ("for ever", "device 0 is at 0B0", "device 1 is at 1F1")),
    "a stage on two devices": ("0F0,0B0\n0F1,0B1\n", ("device 1", "0F1", "stage 0 is on device 0")),
    "a stage that is left out": ("0F0,0B0\n2F0,2B0\n", ("stage 1 is on no device",)),
    "an empty row": ("0F0,0B0\n,\n", ("device 1 has no action",)),
    "words of before October 2024": ("0F0,0BW0\n", ("device 0", "0BW0")),
    "something else": ("a,b\nc,d\n", ("device 0", "'a'")),
    "nothing": ("\n", ("0 microbatches",)),
}


def torch_finds_an_order(plan):
    """Whether torch's own pass, which adds messages, gets to the end of all rows."""
    rows = {device: [_Action.from_str(_as_torch_writes(cell)) for cell in row] for device, row in enumerate(plan.rows)}
    try:
        _add_send_recv(rows, lambda stage: plan.device_of[stage], len(plan.device_of))
    except AssertionError:
        return False
    return True


class Drawn(unittest.TestCase):
    def test_orders_are_refused_exactly_where_torch_finds_none(self):
        draw = random.Random(1)
        counts = {True: 0, False: 0}
        for name in ("found_of_two_chunks", "one_f_one_b", "zb_v", "overlapping"):
            text = OVERLAPPING if name == "overlapping" else text_of(name)
            for _ in range(200):
                plan = _read_text(text)
                for row in plan.rows:
                    for _ in range(draw.randrange(4)):
                        i = draw.randrange(len(row) - 1)
                        row[i], row[i + 1] = row[i + 1], row[i]
                try:
                    _expect_no_deadlock(plan)
                    is_taken = True
                except ValueError:
                    is_taken = False
                self.assertEqual(is_taken, torch_finds_an_order(plan), f"{name}: {plan.rows}")
                counts[is_taken] += 1
        self.assertGreater(min(counts.values()), 50)

    def test_damaged_texts_are_refused_or_read_and_nothing_else(self):
        draw = random.Random(2)
        refusals = 0
        texts = [text_of("zb_v"), planned("--csv", **PLANNED["zb_v"]), OVERLAPPING]
        for _ in range(3000):
            text = draw.choice(texts)
            for _ in range(draw.randint(1, 3)):
                at = draw.randrange(len(text))
                text = text[:at] + draw.choice(["", " ", ",", "\n", "(", ")", ";", "0", "9" * 12, "F", "W", "RECOMPUTE", "device", "\0", "\u00b2", '"', "-1"]) + text[at + draw.randrange(6):]
            try:
                read_schedule(text if "\n" in text else text + "\n")
            except ValueError:
                refusals += 1
        self.assertGreater(refusals, 2000)


def refused(call):
    try:
        call()
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return "was taken"


def with_wrong_stages(rank, size):
    one = stages_of([rank], 2)
    swapped = stages_of([1 - rank], 2)
    more = stages_of([rank], 3)
    compiled = [PipelineStage(torch.compile(pipelines.Stage(rank)), rank, 2, torch.device("cpu"))]
    alone = PipelineStage(pipelines.Stage(rank), rank, 2, torch.device("cpu"))
    split = TWO.replace("1B0", "1I0 1W0")
    right = refused(lambda: weft.torch.load_schedule(alone, TWO, loss_fn=loss_of))
    return right, [refused(lambda: weft.torch.load_schedule(*arguments, **options)) for arguments, options in (
        ((swapped, TWO), {}),
        ((more, TWO), {}),
        ((one, "0F0,0B0"), {}),
        (([], TWO), {}),
        ((one, TWO), {"n_microbatches": 4}),
        ((one, TWO), {"no_such_option": 4}),
        ((compiled if rank == 1 else one, split), {}),
        ((one + stages_of([1 - rank], 2), TWO), {}),
    )]


class Refused(unittest.TestCase):
    def test_what_torch_cannot_carry_out_is_refused_with_action_and_device(self):
        for name, (text, words) in REFUSED.items():
            with self.subTest(name=name):
                with self.assertRaises(ValueError) as caught:
                    read_schedule(text)
                for word in ("cannot be used", *words):
                    self.assertIn(word, str(caught.exception))

    def test_a_file_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(TWO.replace("0B1", "0LOAD1"))
            file.flush()
            with self.assertRaises(ValueError) as caught:
                read_schedule(file.name)
            self.assertIn(file.name, str(caught.exception))

    def test_what_is_no_text_is_refused(self):
        with tempfile.NamedTemporaryFile("wb", suffix=".txt") as file:
            for content in (b"", b"\xff\xfe\x00\x01" * 100, b"0F0," + b"x" * 200000):
                file.seek(0)
                file.truncate()
                file.write(content)
                file.flush()
                with self.assertRaises(ValueError) as caught:
                    read_schedule(file.name)
                self.assertIn(file.name, str(caught.exception))

    def test_stages_that_do_not_fit_are_refused(self):
        words = (("ValueError", "device {rank} has the stages [{rank}]", "[{other}] were given"), ("ValueError", "2 stages, and the model 3"),
                 ("ValueError", "1 devices", "2 ranks"), ("ValueError", "no stages"), ("TypeError", "n_microbatches"), ("TypeError", "no_such_option"),
                 None, ("ValueError", "[0, 1] were given"))
        for rank, (right, wrong) in enumerate(run(with_wrong_stages, 2)):
            self.assertEqual(right, "was taken")
            for said, expected in zip(wrong, words):
                if expected is None:
                    if rank == 1:
                        self.assertIn("1I0 splits the backward of a stage, and stage 1 is compiled", said)
                    else:
                        self.assertEqual(said, "was taken")
                    continue
                for word in expected:
                    self.assertIn(word.format(rank=rank, other=1 - rank), said)


def by_name(rank, size, name):
    return carry_out(rank, size, text_of(name) if name != "overlapping" else OVERLAPPING)


Cases = tests_of([Case(f"planned_{name}", by_name, (options["devices"],), BITWISE, 2 * options["microbatches"], {"name": name})
                  for name, options in PLANNED.items()] +
                 [Case("planned_pairs_that_overlap", by_name, (2,), BITWISE, 18, {"name": "overlapping"})])


if __name__ == "__main__":
    unittest.main()
