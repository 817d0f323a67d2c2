"""Schedules that `weft-plan schedule` has found, for torch's own pipelining (torch.distributed.pipelining).

    weft-plan schedule --devices 4 --microbatches 8 --text pipeline.txt

    stage = PipelineStage(module, rank, 4, torch.device("cpu"))
    schedule = weft.torch.load_schedule(stage, "pipeline.txt", loss_fn=loss)
    schedule.step(batch)                              # as with any schedule of torch

It works over every backend. The file says what each device computes, in which order; torch adds the messages and what FSDP needs. What torch
cannot carry out, or would carry out wrongly, is a ValueError before anything runs. It names the action and the device.
"""

import csv
import io
import os
import re
import stat
import tempfile

from torch._dynamo import OptimizedModule as _CompiledModule
from torch.distributed.pipelining import schedules as _torch

__all__ = ["load_schedule", "read_schedule"]

_FORWARD, _BACKWARD, _INPUT, _WEIGHT = "F", "B", "I", "W"
_ACTION = re.compile(r"([0-9]{1,9})((?:WAIT_)?[A-Z][A-Z_]*)([0-9]{0,9})")
_TOGETHER = re.compile(r"\((.*)\)OVERLAP_F_B")
# What weft's schedules have beside computations, and why it is not taken.
_ADDED = ("SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD")
_UNKNOWN_TO_TORCH = ("RECOMPUTE", "OFFLOAD", "LOAD")


class Plan:
    """A schedule as it was read: the device of each stage, and each device's cells, of one action or several that overlap."""

    def __init__(self, name, microbatches, device_of, rows):
        self.name = name
        self.microbatches = microbatches
        self.device_of = device_of
        self.rows = rows

    def stages_of(self, device):
        return [stage for stage, where in enumerate(self.device_of) if where == device]

    def actions(self):
        """All actions, as (device, words, stage, type, microbatch)."""
        for device, row in enumerate(self.rows):
            for cell in row:
                for action in cell:
                    yield device, _words(action), *action


def _words(action):
    stage, kind, microbatch = action
    return f"{stage}{kind}{microbatch}"


def _read_action(text, device):
    match = _ACTION.fullmatch(text)
    if not match:
        raise ValueError(f"device {device}: {text[:40]!r} is no action; one is 2F0 (stage, F or B or I or W, microbatch)")
    kind = match[2].removeprefix("WAIT_")
    if kind in _UNKNOWN_TO_TORCH:
        raise ValueError(f"device {device}: {text}: torch has no {kind}; make the schedule without it")
    if kind in _ADDED:
        raise ValueError(f"device {device}: {text}: torch adds messages and what FSDP needs by itself; give the computations alone (F, B, I, W)")
    if match[2] not in (_FORWARD, _BACKWARD, _INPUT, _WEIGHT):
        raise ValueError(f"device {device}: {text}: {match[2]} is no action; F, B, I and W are")
    if not match[3]:
        raise ValueError(f"device {device}: {text} has no microbatch; one is {text}0")
    return int(match[1]), kind, int(match[3])


def _read_cell(text, device):
    together = _TOGETHER.fullmatch(text)
    if not together:
        return (_read_action(text, device),)
    if not hasattr(_torch._ComputationType, "OVERLAP_F_B"):
        raise ValueError(f"device {device}: {text}: this torch has no OVERLAP_F_B; make the schedule without pairs that overlap")
    cell = tuple(_read_action(each, device) for each in together[1].split(";"))
    if len(cell) < 2:
        raise ValueError(f"device {device}: {text}: one action overlaps with nothing")
    return cell


def _number(text, what):
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f"{text[:40]!r}, where {what} was expected")
    return int(text)


def _read_text(text):
    """weft's own form: the lines schedule, microbatches and placement, and one for each device."""
    lines = text.rstrip().splitlines()
    fields = {}
    for i, keyword in enumerate(("schedule", "microbatches", "placement")):
        word, _, rest = lines[i].partition(" ") if i < len(lines) else ("", "", "")
        if word != keyword:
            raise ValueError(f"line {i + 1}: {word[:40]!r}, where {keyword!r} was expected")
        fields[keyword] = rest
    microbatches = _number(fields["microbatches"].strip(), "how many microbatches")
    device_of = [_number(word, "a device's number") for word in fields["placement"].split()]
    rows = []
    for device, line in enumerate(lines[3:]):
        head, colon, rest = line.partition(":")
        if head != f"device {device}" or not colon:
            raise ValueError(f"line {device + 4}: {line[:40]!r}, where 'device {device}:' was expected")
        rows.append([_read_cell(word, device) for word in rest.split()])
    return Plan(fields["schedule"], microbatches, device_of, rows)


def _read_csv(text):
    """PyTorch's compute_only: a row for each device, a cell for each action; empty cells are idle. It has no name, and says no count."""
    rows = [[_read_cell(cell.strip(), device) for cell in row if cell.strip()] for device, row in enumerate(csv.reader(io.StringIO(text)))]
    plan = Plan("csv", 0, [], rows)
    placed = {}
    for device, words, stage, _, microbatch in plan.actions():
        if placed.setdefault(stage, device) != device:
            raise ValueError(f"device {device}: {words}: stage {stage} is on device {placed[stage]}; a stage lies on one device")
        plan.microbatches = max(plan.microbatches, microbatch + 1)
    for stage in range(len(placed)):
        if stage not in placed:
            raise ValueError(f"stage {stage} is on no device, and stage {max(placed)} on device {placed[max(placed)]}; number stages from 0 on")
    plan.device_of = [placed[stage] for stage in range(len(placed))]
    return plan


def _expect_whole(plan):
    """Each device has work, and each stage does what it should for each microbatch, once."""
    if not plan.rows or not plan.device_of or not plan.microbatches:
        raise ValueError(f"it has {len(plan.rows)} devices, {len(plan.device_of)} stages and {plan.microbatches} microbatches")
    for stage, device in enumerate(plan.device_of):
        if device >= len(plan.rows):
            raise ValueError(f"stage {stage} is on device {device} of {len(plan.rows)}")
    done = {}
    for device, words, stage, kind, microbatch in plan.actions():
        if stage >= len(plan.device_of) or microbatch >= plan.microbatches:
            raise ValueError(f"device {device}: {words}: there are {len(plan.device_of)} stages and {plan.microbatches} microbatches, numbered from 0")
        if plan.device_of[stage] != device:
            raise ValueError(f"device {device}: {words}: stage {stage} is on device {plan.device_of[stage]}")
        before = done.setdefault((stage, microbatch), [])
        needed = {_FORWARD: [], _BACKWARD: [_FORWARD], _INPUT: [_FORWARD], _WEIGHT: [_FORWARD, _INPUT]}[kind]
        if before != needed:
            raise ValueError(f"device {device}: {words} comes after {' '.join(f'{stage}{each}{microbatch}' for each in before) or 'nothing'} of its "
                             f"microbatch, and must come after {' '.join(f'{stage}{each}{microbatch}' for each in needed) or 'nothing'}")
        before.append(kind)
    for stage, device in enumerate(plan.device_of):
        for microbatch in range(plan.microbatches):
            found = done.get((stage, microbatch), [])
            if _BACKWARD not in found and _WEIGHT not in found:
                lacks = _WEIGHT if _INPUT in found else f"B{microbatch}, or {stage}I{microbatch} and {stage}{_WEIGHT}" if found else _FORWARD
                raise ValueError(f"device {device}: {stage}{lacks}{microbatch} is missing")
    for device, row in enumerate(plan.rows):
        if not row:
            raise ValueError(f"device {device} has no action; torch takes no rank without one")


def _expect_losses_in_order(plan):
    """Torch keeps losses in the order of forwards, and finds them by the microbatch's number."""
    last = len(plan.device_of) - 1
    expected = 0
    for device, words, stage, kind, microbatch in plan.actions():
        if stage != last or kind != _FORWARD:
            continue
        if microbatch != expected:
            raise ValueError(f"device {device}: {words} where {last}F{expected} was expected: torch's last stage takes microbatches in order, "
                             "for it finds their losses by number")
        expected += 1


def _needs(action, stages):
    """What must be done on another stage before it."""
    stage, kind, microbatch = action
    if kind == _FORWARD and stage > 0:
        return [(stage - 1, _FORWARD, microbatch)]
    if kind in (_BACKWARD, _INPUT) and stage < stages - 1:
        return [(stage + 1, _BACKWARD, microbatch), (stage + 1, _INPUT, microbatch)]
    return []


def _expect_no_deadlock(plan):
    """Devices, each at one cell at a time, reach the end."""
    at = [0] * len(plan.rows)
    done = set()
    moved = True
    while moved:
        moved = False
        for device, row in enumerate(plan.rows):
            while at[device] < len(row):
                cell = row[at[device]]
                # Torch begins a cell when all its actions can begin.
                if not all(any(each in done for each in needs) for needs in (_needs(action, len(plan.device_of)) for action in cell) if needs):
                    break
                done.update(cell)
                at[device] += 1
                moved = True
    stuck = [(device, row[at[device]]) for device, row in enumerate(plan.rows) if at[device] < len(row)]
    if stuck:
        raise ValueError("devices wait for each other for ever: " + "; ".join(f"device {device} is at {' and '.join(map(_words, cell))}" for device, cell in stuck[:8]))


def _read_file(path):
    """The text of a regular file. Every rank reads it, so a pipe will not do, and opening one would wait for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"weft: {path!r} is no regular file")
    with open(descriptor, encoding="utf-8", errors="replace") as file:  # what is no text is no action, either
        return file.read()


def read_schedule(schedule):
    """Reads and checks a schedule: a path, or the text itself (weft's form or PyTorch's compute-only CSV). Returns a Plan. @see load_schedule"""
    text = os.fspath(schedule)
    where = "the schedule"
    if not isinstance(text, str):
        raise TypeError(f"a schedule is a path or a text, not {type(schedule).__name__}")
    is_text = isinstance(schedule, str) and ("\n" in text or text.startswith("schedule ") or _ACTION.fullmatch(text.split(",")[0].strip()))
    if not is_text:
        where = repr(text)
        text = _read_file(text)
    try:
        plan = _read_text(text) if text.startswith("schedule") else _read_csv(text)
        _expect_whole(plan)
        _expect_losses_in_order(plan)
        _expect_no_deadlock(plan)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"weft: {where} cannot be used: {error}") from None
    return plan


def _expect_stages(stages, plan):
    """This rank has the stages that the schedule gives its device."""
    rank, size = stages[0].group_rank, stages[0].group_size
    where = f"weft: schedule {plan.name!r}, rank {rank}"
    if size != len(plan.rows):
        raise ValueError(f"{where}: it is for {len(plan.rows)} devices, and the stages' group has {size} ranks")
    if stages[0].num_stages != len(plan.device_of):
        raise ValueError(f"{where}: it has {len(plan.device_of)} stages, and the model {stages[0].num_stages}")
    found = [stage.stage_index for stage in stages]
    if sorted(found) != plan.stages_of(rank):
        raise ValueError(f"{where}: device {rank} has the stages {plan.stages_of(rank)}, and {sorted(found)} were given")
    splits = next((words for _, words, stage, kind, _ in plan.actions() if kind == _INPUT and stage in found), None)
    compiled = next((stage.stage_index for stage in stages
                     if any(isinstance(module, _CompiledModule) for module in stage.submod.modules())), None) if splits else None
    if compiled is not None:
        raise ValueError(f"{where}: {splits} splits the backward of a stage, and stage {compiled} is compiled, which torch cannot split; take a schedule "
                         "without I and W, or do not compile")


def load_schedule(stages, schedule, *, loss_fn=None, **options):
    """A schedule of weft-plan, to be carried out by torch.distributed.pipelining.

    @param stages the PipelineStage of this rank, or a list of them: those that the schedule places on this rank of their group
    @param schedule a path, or the text itself: what `weft-plan schedule` writes with --text or --csv. All ranks give the same
    @param loss_fn loss of an output and a target; without it there are only forwards
    @param options what torch's schedules of several stages take, such as scale_grads or output_merge_spec
    @returns torch's schedule; call its step() and eval()
    @raises ValueError what torch cannot carry out, or does not fit the stages: names the action and the device
    @raises OSError no such file
    """
    stages = list(stages) if isinstance(stages, (list, tuple)) else [stages]
    if not stages:
        raise ValueError("weft: no stages were given; torch takes no rank without one")
    if "n_microbatches" in options:
        raise TypeError("weft: n_microbatches is the schedule's; make one with --microbatches")
    plan = read_schedule(schedule)
    _expect_stages(stages, plan)
    # Torch finds what goes to a neighbour on the same rank by the stages' order.
    stages.sort(key=lambda stage: stage.stage_index)
    runtime = _torch._PipelineScheduleRuntime(stages, plan.microbatches, loss_fn=loss_fn, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schedule.csv")
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([_as_torch_writes(cell) for cell in row] for row in plan.rows)
        runtime._load_csv(path)
    return runtime


def _as_torch_writes(cell):
    return _words(cell[0]) if len(cell) == 1 else f"({';'.join(map(_words, cell))})OVERLAP_F_B"
