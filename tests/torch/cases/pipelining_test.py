"""torch.distributed.pipelining over weft beside gloo: each schedule that torch has, with several numbers of microbatches, three steps each.

Stages send values and sum nothing over ranks, so all results are bitwise gloo's.
"""

import unittest

import torch
import torch.distributed.config as dist_config
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import pipelines
from pipelines import loss_of, stages_of, train
from table import BITWISE, Case, tests_of


def loop(rank, size, chunks):
    """Stage s on rank s mod size."""
    return range(rank, size * chunks, size)


def vee(rank, size):
    """Forth and back."""
    return (rank, 2 * size - 1 - rank)


def one_stage(rank, size, kind, microbatches, **options):
    stages = stages_of([rank], size)
    return train(kind(stages[0], microbatches, loss_fn=loss_of, **options), stages, microbatches)


def given_shapes(rank, size, kind, microbatches):
    stages = stages_of([rank], size, is_static=True)
    return train(kind(stages[0], microbatches, loss_fn=loss_of), stages, microbatches)


def group_for_each_edge(rank, size):
    """A group for each pair of ranks and direction, which torch splits off."""
    with dist_config.patch(pipeline_per_edge_p2p=True):
        return several(rank, size, pipelining.ScheduleInterleaved1F1B, 2 * size)


def several(rank, size, kind, microbatches, place=loop, chunks=2, **options):
    indices = place(rank, size, chunks) if place is loop else place(rank, size)
    stages = stages_of(indices, size * chunks)
    return train(kind(stages, microbatches, loss_fn=loss_of, **options), stages, microbatches)


def with_each(rank, size, body, kind, each, **options):
    return {microbatches: body(rank, size, kind=kind, microbatches=microbatches, **options) for microbatches in each}


def many(rank, size, body, kind, per_rank, **options):
    """Microbatches as multiples of the number of ranks, which schedules of several stages ask for."""
    return with_each(rank, size, body, kind, [factor * size for factor in per_rank], **options)


class TwoValues(pipelines.Stage):
    """Takes and gives two tensors, one of which skips the layer."""

    def forward(self, x, skipped=None):
        return super().forward(x), x if skipped is None else x + skipped


def tuples(rank, size):
    """Several tensors go between stages, of different shapes each time that the batch changes."""
    is_last = rank == size - 1
    torch.manual_seed(rank)
    module = TwoValues(rank)
    stage = pipelining.PipelineStage(module, rank, size, torch.device("cpu"))
    schedule = pipelining.ScheduleGPipe(stage, 3, loss_fn=lambda outputs, target: loss_of(outputs[0] + outputs[1], target))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for step in range(pipelines.STEPS):
        x, target = pipelines.batch(step, 3)
        found = []
        schedule.step(*((x,) if rank == 0 else ()), target=target if is_last else None, losses=found if is_last else None)
        losses += [loss.detach().clone() for loss in found]
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": losses, "parameters": [parameter.detach().clone() for parameter in module.parameters()]}


def evaluated(rank, size):
    """A forward without backward after the training."""
    stages = stages_of([rank], size)
    schedule = pipelining.Schedule1F1B(stages[0], 4, loss_fn=loss_of)
    result = train(schedule, stages, 4)
    is_last = rank == size - 1
    x, target = pipelines.batch(9, 4)
    output = schedule.eval(*((x,) if rank == 0 else ()), target=target if is_last else None)
    if is_last:
        result["output"] = output.detach().clone()
    return result


def beside_data_parallel(rank, size, wrap_with):
    """Two pipelines of two stages, whose equal stages average their gradients."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "pipeline"))
    index, replica = mesh["pipeline"].get_local_rank(), mesh["data"].get_local_rank()

    def wrap(module):
        if wrap_with == "ddp":
            return DistributedDataParallel(module, process_group=mesh["data"].get_group())
        return fully_shard(module, mesh=mesh["data"])

    # DDP does not survive the step by which torch finds out the shapes.
    stages = stages_of([index], 2, mesh["pipeline"].get_group(), wrap, is_static=wrap_with == "ddp")
    return train(pipelining.ScheduleGPipe(stages[0], 4, loss_fn=loss_of), stages, 4, seed=replica)


def interleaved_beside_fsdp(rank, size):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "pipeline"))
    index, replica = mesh["pipeline"].get_local_rank(), mesh["data"].get_local_rank()
    stages = stages_of([index, index + 2], 4, mesh["pipeline"].get_group(), lambda module: fully_shard(module, mesh=mesh["data"]))
    return train(pipelining.ScheduleInterleaved1F1B(stages, 4, loss_fn=loss_of), stages, 4, seed=replica)


def each_of(body, kind, sizes, microbatches, calls, **options):
    arguments = {"body": body, "kind": kind, **options}
    return sizes, BITWISE, calls, {**arguments, "each": microbatches} if body is one_stage else {**arguments, "per_rank": microbatches}


# A rank sends or receives at least one activation and one gradient of each microbatch, in three steps.
TABLE = [
    Case("gpipe", with_each, *each_of(one_stage, pipelining.ScheduleGPipe, (2, 3, 4), (1, 3, 8), 72)),
    Case("one_f_one_b", with_each, *each_of(one_stage, pipelining.Schedule1F1B, (2, 3, 4), (4, 5, 9), 108)),
    Case("one_f_one_b_of_one_microbatch_a_rank", many, (2, 3), BITWISE, 12, {"body": one_stage, "kind": pipelining.Schedule1F1B, "per_rank": (1,)}),
    Case("interleaved_1f1b", many, *each_of(several, pipelining.ScheduleInterleaved1F1B, (2, 3, 4), (1, 2, 3), 108)),
    Case("interleaved_1f1b_of_three_chunks", many, *each_of(several, pipelining.ScheduleInterleaved1F1B, (2,), (2,), 60, chunks=3)),
    Case("looped_bfs", many, *each_of(several, pipelining.ScheduleLoopedBFS, (2, 3, 4), (1, 2), 54)),
    Case("interleaved_zero_bubble", many, *each_of(several, pipelining.ScheduleInterleavedZeroBubble, (2, 3, 4), (1, 2), 54)),
    Case("zbv_zero_bubble", many, *each_of(several, pipelining.ScheduleZBVZeroBubble, (2, 3, 4), (2, 3), 60, place=vee)),
    Case("dual_pipe_v", many, *each_of(several, pipelining.ScheduleDualPipeV, (2, 3, 4), (2, 3), 60, place=vee)),
    Case("gpipe_of_given_shapes", with_each, (2, 3), BITWISE, 24, {"body": given_shapes, "kind": pipelining.ScheduleGPipe, "each": (4,)}),
    Case("sums_of_losses", with_each, (2,), BITWISE, 24, {"body": one_stage, "kind": pipelining.ScheduleGPipe, "each": (4,), "scale_grads": False}),
    Case("several_tensors_between_stages", tuples, (2, 3), BITWISE, 30),
    Case("a_group_for_each_edge", group_for_each_edge, (2, 3), BITWISE, 50),
    Case("evaluated_after_training", evaluated, (2, 3), BITWISE, 28),
    Case("beside_ddp_2x2", beside_data_parallel, (4,), BITWISE, 30, {"wrap_with": "ddp"}),
    Case("beside_fsdp2_2x2", beside_data_parallel, (4,), BITWISE, 30, {"wrap_with": "fsdp2"}),
    Case("interleaved_beside_fsdp2_2x2", interleaved_beside_fsdp, (4,), BITWISE, 50),
]
Cases = tests_of(TABLE)


if __name__ == "__main__":
    unittest.main()
