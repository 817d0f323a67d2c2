"""FSDP2 (fully_shard) over weft beside gloo: forward, backward and three steps of an optimizer each."""

import unittest

import torch
import torch.distributed as dist
import torch.distributed.checkpoint.state_dict as state_dict
import torch.distributed.tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.utils.checkpoint import checkpoint

from table import BITWISE, SUMS, SUMS_OF_16_BITS, Case, tests_of, whole

STEPS = 3
WIDTH = 12


class Block(torch.nn.Module):
    def __init__(self, width=WIDTH, hidden=24):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, hidden)
        self.down = torch.nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, width=WIDTH, hidden=24, blocks=3, recompute=False):
        super().__init__()
        torch.manual_seed(5)
        self.enter = torch.nn.Linear(8, width)
        self.blocks = torch.nn.ModuleList(Block(width, hidden) for _ in range(blocks))
        self.leave = torch.nn.Linear(width, 4)
        self.recompute = recompute

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.leave(x)


def shard(model, mesh, **options):
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def line(size):
    return init_device_mesh("cpu", (size,))


def batches(rank):
    generator = torch.Generator().manual_seed(100 + rank)
    while True:
        yield torch.rand(6, 8, generator=generator)


def optimizer_of(model):
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(trained, lr=0.05, momentum=0.9)


def outcome(model, losses):
    """Losses, all parameters, and this rank's shards."""
    shards = {name: parameter.to_local().detach().clone() for name, parameter in model.named_parameters() if hasattr(parameter, "to_local")}
    return {"losses": losses, "whole": {name: whole(parameter) for name, parameter in model.named_parameters()}, "shards": shards}


def train(model, rank, optimizer=None, before_step=lambda model, losses: None, parts=1):
    optimizer = optimizer or optimizer_of(model)
    losses = []
    data = batches(rank)
    for _ in range(STEPS):
        for part in range(parts):
            if parts > 1:
                model.set_requires_gradient_sync(part == parts - 1)
            loss = model(next(data)).float().square().mean() / parts
            loss.backward()
            losses.append(loss.detach())
        before_step(model, losses)
        optimizer.step()
        optimizer.zero_grad()
    return outcome(model, losses)


def plain(rank, size, **options):
    return train(shard(Model(), line(size), **options), rank)


def adam(rank, size):
    model = shard(Model(), line(size))
    return train(model, rank, torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True))


def mixed(rank, size, reduce_dtype):
    model, mesh = Model(), line(size)
    narrow = {"param_dtype": torch.bfloat16, "reduce_dtype": reduce_dtype}
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=MixedPrecisionPolicy(**narrow))
    return train(fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(**narrow, output_dtype=torch.float32)), rank)


def frozen(rank, size):
    model = Model()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("up" not in name and "enter" not in name)
    return train(shard(model, line(size)), rank)


def shared(rank, size):
    model = Model()
    model.blocks[2].up.weight = model.blocks[0].up.weight
    return train(fully_shard(model, mesh=line(size)), rank)


def uneven(rank, size):
    return train(shard(Model(width=7, hidden=5, blocks=2), line(size)), rank)


def fewer_rows_than_ranks(rank, size):
    return train(shard(Model(width=2, hidden=1, blocks=2), line(size)), rank)


def nested(rank, size):
    model = Model()
    mesh = line(size)
    for block in model.blocks:
        fully_shard(block.up, mesh=mesh)
        fully_shard([block.norm, block.down], mesh=mesh, reshard_after_forward=False)
        fully_shard(block, mesh=mesh)
    return train(fully_shard(model, mesh=mesh), rank)


def accumulated(rank, size):
    return train(shard(Model(), line(size)), rank, parts=3)


def accumulated_without_resharding(rank, size):
    model = shard(Model(), line(size))
    model.set_reshard_after_backward(False)
    return train(model, rank, parts=2)


def hybrid(rank, size):
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicas", "shards"))
    return train(shard(Model(), mesh), rank)


def hybrid_accumulated(rank, size):
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicas", "shards"))
    model = shard(Model(), mesh)

    def all_reduce_at_the_end(part, parts):
        model.set_requires_all_reduce(part == parts - 1)

    losses, data, optimizer = [], batches(rank), optimizer_of(model)
    for _ in range(STEPS):
        for part in range(2):
            all_reduce_at_the_end(part, 2)
            loss = model(next(data)).square().mean()
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return outcome(model, losses)


def clipped(rank, size):
    def clip(model, losses):
        losses.append(whole(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.05)))

    return train(shard(Model(), line(size)), rank, before_step=clip)


def state_dict_round_trip(rank, size):
    """Three steps, all state gathered and given to a fresh model, three steps more."""
    mesh = line(size)
    first = shard(Model(), mesh)
    optimizer = optimizer_of(first)
    train(first, rank, optimizer)
    full = state_dict.StateDictOptions(full_state_dict=True)
    weights, moments = state_dict.get_state_dict(first, optimizer, options=full)
    gathered = {name: tensor.clone() for name, tensor in weights.items()}
    second = shard(Model(), mesh)
    for parameter in second.parameters():
        torch.nn.init.zeros_(parameter)
    fresh = optimizer_of(second)
    state_dict.set_state_dict(second, fresh, model_state_dict=weights, optim_state_dict=moments, options=full)
    result = train(second, rank, fresh)
    result["gathered"] = gathered
    return result


def state_from_rank_0(rank, size):
    """Rank 0 alone has the weights; each takes its shards by broadcast."""
    source = Model()
    weights = {name: 0.5 * tensor for name, tensor in source.state_dict().items()} if rank == 0 else {}
    model = shard(Model(), line(size))
    options = state_dict.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    state_dict.set_model_state_dict(model, weights, options=options)
    return train(model, rank)


def ignored(rank, size):
    model = Model()
    kept = {model.leave.weight, model.leave.bias}
    fully_shard(model, mesh=line(size), ignored_params=kept)

    def average(model, losses):
        for parameter in kept:
            dist.all_reduce(parameter.grad)
            parameter.grad /= size

    return train(model, rank, before_step=average)


def sharded_by_columns(rank, size):
    return plain(rank, size, shard_placement_fn=lambda parameter: Shard(parameter.ndim - 1))


def divided(rank, size):
    model = shard(Model(), line(size))
    for module in [model, *model.blocks]:
        module.set_gradient_divide_factor(2.0 * size)
        module.set_force_sum_reduction_for_comms(True)  # gloo has no premultiplied sums
    return train(model, rank)


def prefetched(rank, size):
    model = shard(Model(), line(size))
    blocks = list(model.blocks)
    for one, after in zip(blocks, blocks[1:]):
        one.set_modules_to_forward_prefetch([after])
        after.set_modules_to_backward_prefetch([one])
    handles = []

    def gather_ahead(module, _):
        handles.append(blocks[0].unshard(async_op=True))

    model.register_forward_pre_hook(gather_ahead)
    result = train(model, rank)
    for handle in handles:
        handle.wait()
    return result


def recomputed(rank, size):
    return train(shard(Model(recompute=True), line(size)), rank)


def memory_of_the_group(rank, size):
    """Over weft the buffers of gathers and reductions are memory that all ranks of the node reach; gloo has none."""
    model = shard(Model(), line(size))
    if dist.get_backend() == "weft":
        for module in [model, *model.blocks]:
            module.set_allocate_memory_from_process_group_for_comm(True)
    return train(model, rank)


def evaluated_between(rank, size):
    """Forwards without gradients between steps, as validation does."""
    model = shard(Model(), line(size))
    found = []

    def validate(model, losses):
        with torch.no_grad():
            found.append(model(torch.ones(2, 8)))
        model.reshard()

    result = train(model, rank, before_step=validate)
    result["validated"] = found
    return result


def one_group_of_two(rank, size):
    """The ranks in pairs, each pair a training of its own, at the same time."""
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("trainings", "shards"))["shards"]
    return train(shard(Model(), mesh), rank)


TABLE = [
    Case("resharded_after_forward", plain, (2, 3, 4), SUMS, 30, {"reshard_after_forward": True}),
    Case("kept_after_forward", plain, (2, 3, 4), SUMS, 24, {"reshard_after_forward": False}),
    Case("resharded_to_two_of_four", plain, (4,), SUMS, 30, {"reshard_after_forward": 2}),
    Case("adamw_with_foreach", adam, (2, 3), SUMS, 30),
    Case("bfloat16_reduced_in_float32", mixed, (2, 3), SUMS_OF_16_BITS, 30, {"reduce_dtype": torch.float32}),
    Case("bfloat16_reduced_in_bfloat16", mixed, (2, 3), SUMS_OF_16_BITS, 30, {"reduce_dtype": torch.bfloat16}),
    Case("frozen_parameters", frozen, (2, 3), SUMS, 24),
    Case("shared_parameters", shared, (2, 3), SUMS, 6),
    Case("uneven_shapes", uneven, (2, 3, 4), SUMS, 20),
    Case("fewer_rows_than_ranks", fewer_rows_than_ranks, (3, 4), SUMS, 20),
    Case("nested_wrapping", nested, (2, 3), SUMS, 60),
    Case("accumulated_gradients", accumulated, (2, 3), SUMS, 60),
    Case("accumulated_without_resharding", accumulated_without_resharding, (2, 4), SUMS, 20),
    Case("hybrid_shards_2x2", hybrid, (4,), BITWISE, 40),
    Case("hybrid_shards_accumulated_2x2", hybrid_accumulated, (4,), BITWISE, 70),
    Case("clipped_by_norm", clipped, (2, 3, 4), SUMS, 36),
    Case("state_dict_round_trip", state_dict_round_trip, (2, 3), SUMS, 80),
    Case("state_from_rank_0", state_from_rank_0, (2, 4), SUMS, 30),
    Case("ignored_parameters", ignored, (2, 3), SUMS, 12),
    Case("sharded_by_columns", sharded_by_columns, (2, 4), SUMS, 30),
    Case("divided_by_another_factor", divided, (2, 3), SUMS, 30),
    Case("prefetched", prefetched, (2, 4), SUMS, 30),
    Case("recomputed_activations", recomputed, (2, 3), SUMS, 30),
    Case("memory_of_the_group", memory_of_the_group, (2, 3), SUMS, 30),
    Case("evaluated_between_steps", evaluated_between, (2, 3), SUMS, 40),
    Case("pairs_at_the_same_time", one_group_of_two, (4,), BITWISE, 30),
]
Cases = tests_of(TABLE)


if __name__ == "__main__":
    unittest.main()
