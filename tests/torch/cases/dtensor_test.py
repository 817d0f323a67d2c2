"""DTensor over weft beside gloo: redistributions in all pairs, tensor parallelism, two-dimensional meshes; with steps of an optimizer."""

import itertools
import unittest

import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor, empty, ones, zeros
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel, SequenceParallel,
                                               loss_parallel, parallelize_module)

from table import BITWISE, SUMS, Case, tests_of, whole

STEPS = 3
# Reductions of small whole numbers are exact, in any order.
EXACT = BITWISE


def line(size):
    return init_device_mesh("cpu", (size,))


def square(names=("rows", "columns")):
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=names)


def numbers(*shape, seed=0):
    """Whole numbers, the same on all ranks."""
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).float()


def reals(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) - 0.5


def placed(mesh, placements, shape, rank):
    """A DTensor with these placements; the parts of a sum are other numbers on every rank."""
    if any(placement.is_partial() for placement in placements):
        return DTensor.from_local(numbers(*shape, seed=rank), mesh, placements, run_check=False)
    return distribute_tensor(numbers(*shape), mesh, placements)


def redistributions(rank, size, shape):
    """From each placement to each, and the gradient back."""
    mesh = line(size)
    out = {}
    every = {"rows": Shard(0), "columns": Shard(1), "whole": Replicate(), "sum": Partial("sum"), "max": Partial("max"), "min": Partial("min")}
    for (source, before), (target, after) in itertools.product(every.items(), every.items()):
        if target in ("max", "min") or (target == "sum" and source in ("whole", "max", "min")):
            continue  # torch makes parts of a sum from shards alone, and parts of a maximum from nothing
        tensor = placed(mesh, [before], shape, rank)
        if source in ("max", "min"):
            out[source, target] = tensor.redistribute(mesh, [after]).to_local()
            continue
        tensor.requires_grad_(True)
        there = tensor.redistribute(mesh, [after])
        out[source, target] = there.to_local().detach().clone()
        (there.to_local() * (rank + 1)).sum().backward()
        out[source, target, "gradient"] = whole(tensor.grad)
    return out


def redistributions_2d(rank, size):
    mesh = square()
    each = (Shard(0), Shard(1), Replicate(), Partial("sum"))
    out = {}
    pairs = list(itertools.product(each, each))
    for i, before in enumerate(pairs):
        tensor = placed(mesh, before, (6, 5), rank)
        for step in (1, 5, 7):
            after = pairs[(i + step) % len(pairs)]
            if any(one.is_replicate() and other.is_partial() for one, other in zip(before, after)):
                continue  # torch makes parts of a sum from shards alone
            out[f"{before} to {after}"] = tensor.redistribute(mesh, after).to_local().detach().clone()
    return out


class Mlp(torch.nn.Module):
    def __init__(self, width=8, hidden=12):
        super().__init__()
        torch.manual_seed(3)
        self.up = torch.nn.Linear(width, hidden)
        self.down = torch.nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Net(torch.nn.Module):
    """Embedding, a block with a norm, a head."""

    def __init__(self, words=24, width=8, hidden=12):
        super().__init__()
        torch.manual_seed(4)
        self.embedding = torch.nn.Embedding(words, width)
        self.norm = torch.nn.LayerNorm(width)
        self.mlp = Mlp(width, hidden)
        self.head = torch.nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x + self.mlp(self.norm(x)))


def steps(model, loss_of, lr=0.1):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for step in range(STEPS):
        loss = loss_of(step)
        loss.backward()
        losses.append(whole(loss))
        optimizer.step()
        optimizer.zero_grad()
    shards = [parameter.to_local().detach().clone() for parameter in model.parameters() if isinstance(parameter, DTensor)]
    return {"losses": losses, "whole": [whole(parameter) for parameter in model.parameters()], "shards": shards}


def regress(model, seed=0):
    return lambda step: model(reals(5, 8, seed=seed + step)).square().mean()


def linear(rank, size, style, width=8):
    torch.manual_seed(2)
    model = torch.nn.Linear(8, width)
    parallelize_module(model, line(size), style() if style is not ColwiseParallel else style(output_layouts=Replicate()))
    return steps(model, regress(model))


def rowwise(rank, size):
    torch.manual_seed(2)
    model = torch.nn.Linear(8, 6)
    parallelize_module(model, line(size), RowwiseParallel(input_layouts=Replicate()))
    return steps(model, regress(model))


def column_then_row(rank, size, hidden=12):
    model = Mlp(hidden=hidden)
    parallelize_module(model, line(size), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return steps(model, regress(model))


def sequence_parallel(rank, size):
    """Norms work on shards of the sequence; gathers and reduce-scatters lie around the linear layers."""
    torch.manual_seed(6)
    model = torch.nn.Sequential(torch.nn.LayerNorm(8), Mlp(), torch.nn.LayerNorm(8))
    parallelize_module(model, line(size), {
        "0": SequenceParallel(),
        "1": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "1.up": ColwiseParallel(),
        "1.down": RowwiseParallel(output_layouts=Shard(1)),
        "2": SequenceParallel(),
    })
    parallelize_module(model, line(size), PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate()))
    return steps(model, lambda step: model(reals(3, 6, 8, seed=step)).square().mean())


def embedding(rank, size, style):
    torch.manual_seed(7)
    model = torch.nn.Embedding(13, 8)
    parallelize_module(model, line(size), style)
    return steps(model, lambda step: model(torch.arange(step, 10) % 13).square().mean())


def tokens(step):
    generator = torch.Generator().manual_seed(50 + step)
    return torch.randint(0, 24, (4, 6), generator=generator)


def with_loss_parallel(rank, size):
    """The head's outputs stay in shards; the cross entropy reduces maxima and sums."""
    model = Net()
    parallelize_module(model, line(size), {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel(),
                                           "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        with loss_parallel():
            loss = F.cross_entropy(model(tokens(step)).flatten(0, 1), tokens(step + 1).flatten())
            loss.backward()
        losses.append(whole(loss))
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": losses, "whole": [whole(parameter) for parameter in model.parameters()]}


def tensor_and_fully_sharded(rank, size):
    """Two ranks share each layer, and two such pairs shard its parameters."""
    mesh = square(("data", "tensor"))
    model = Net()
    parallelize_module(model, mesh["tensor"], {"embedding": RowwiseParallel(input_layouts=Replicate()), "mlp.up": ColwiseParallel(),
                                               "mlp.down": RowwiseParallel(), "head": ColwiseParallel(output_layouts=Replicate())})
    fully_shard(model.mlp, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    mine = mesh["data"].get_local_rank()
    return steps(model, lambda step: F.cross_entropy(model(tokens(step + 10 * mine)).flatten(0, 1), tokens(step + 1).flatten()))


def tensor_parallel_in_rows_of_a_mesh(rank, size):
    """Linear layers whose weights have a placement on each dimension of the mesh."""
    mesh = square()
    weight = distribute_tensor(reals(6, 8, seed=1), mesh, [Shard(0), Shard(1)]).requires_grad_(True)
    bias = distribute_tensor(reals(6, seed=2), mesh, [Shard(0), Replicate()]).requires_grad_(True)
    losses = []
    for step in range(STEPS):
        x = distribute_tensor(reals(4, 8, seed=10 + step), mesh, [Replicate(), Shard(1)])
        loss = F.linear(x, weight, bias).redistribute(mesh, [Replicate(), Replicate()]).square().mean()
        gradients = torch.autograd.grad(loss, [weight, bias])
        losses.append(whole(loss))
        with torch.no_grad():
            for parameter, gradient in zip((weight, bias), gradients):
                parameter.sub_(0.1 * gradient.redistribute(mesh, parameter.placements))
    return {"losses": losses, "weight": whole(weight), "bias": whole(bias), "shard": weight.to_local().detach().clone()}


def module_by_hand(rank, size):
    """distribute_module with functions of its own for parameters, inputs and outputs."""
    mesh = line(size)

    def place(name, module, mesh):
        for key, parameter in list(module.named_parameters(recurse=False)):
            module.register_parameter(key, torch.nn.Parameter(distribute_tensor(parameter, mesh, [Shard(0)])))

    model = distribute_module(Mlp(), mesh, place, lambda module, inputs, mesh: DTensor.from_local(inputs[0], mesh, [Replicate()]),
                              lambda module, outputs, mesh: outputs.redistribute(mesh, [Replicate()]).to_local())
    return steps(model, regress(model))


def data_parallel_by_placement(rank, size):
    """Whole weights and inputs in shards: gradients are sums over ranks."""
    mesh = line(size)
    model = distribute_module(Mlp(), mesh)
    return steps(model, lambda step: model(distribute_tensor(reals(4 * size + 1, 8, seed=step), mesh, [Shard(0)])).square().mean())


def local_parts_of_any_size(rank, size):
    """Tensors of whom each rank has another number of rows, or none."""
    mesh = line(size)
    out = {}
    for rows in (1, size - 1, size, 2 * size + 1):
        tensor = distribute_tensor(numbers(rows, 3, seed=rows), mesh, [Shard(0)])
        out[rows, "local"] = tensor.to_local().clone()
        out[rows, "whole"] = tensor.full_tensor()
        out[rows, "columns"] = tensor.redistribute(mesh, [Shard(1)]).to_local().clone()
        out[rows, "product"] = (tensor @ distribute_tensor(numbers(3, 5), mesh, [Shard(1)])).full_tensor()
        out[rows, "sum"] = tensor.sum(0).full_tensor()
        out[rows, "all"] = tensor.sum().full_tensor()
        out[rows, "transposed"] = tensor.t().redistribute(mesh, [Shard(0)]).to_local().clone()
    return out


def products(rank, size):
    """Matrix products of all placements that torch multiplies."""
    mesh = line(size)
    out = {}
    for left, right in itertools.product((Shard(0), Shard(1), Replicate()), repeat=2):
        a = distribute_tensor(numbers(2 * size + 1, 3 * size, seed=1), mesh, [left]).requires_grad_(True)
        b = distribute_tensor(numbers(3 * size, size + 2, seed=2), mesh, [right]).requires_grad_(True)
        product = (a @ b).redistribute(mesh, [Replicate()])
        product.to_local().sum().backward()
        out[f"{left} {right}"] = [whole(product), whole(a.grad), whole(b.grad)]
    return out


def reductions(rank, size):
    mesh = line(size)
    tensor = distribute_tensor(numbers(2 * size + 1, 5, seed=9), mesh, [Shard(0)])
    out = {name: whole(getattr(tensor, name)()) for name in ("sum", "mean", "max", "min", "any", "all", "amax", "argmax")}
    out["norm"] = whole(torch.linalg.vector_norm(tensor, ord=float("inf")))
    out["of rows"] = [whole(tensor.sum(dim)) for dim in (0, 1)]
    out["cumulated"] = whole(tensor.cumsum(0))
    out["sorted"] = whole(tensor.sort(dim=0).values)
    return out


def created(rank, size):
    """Tensors that are made in shards, and joined ones."""
    mesh = line(size)
    made = [make(3 * size + 1, 4, device_mesh=mesh, placements=[Shard(0)]) for make in (zeros, ones)]
    hole = empty(2, size, device_mesh=mesh, placements=[Shard(1)]).fill_(3)
    joined = torch.cat([made[0], made[1]], dim=1)
    halves = torch.chunk(joined.redistribute(mesh, [Replicate()]), 2, dim=1)
    return {"made": [whole(tensor) for tensor in made], "hole": whole(hole), "joined": whole(joined),
            "halves": [whole(half) for half in halves], "where": whole(torch.where(joined > 0, joined, -1 * joined))}


TABLE = [
    Case("redistributions", redistributions, (2, 3, 4), EXACT, 20, {"shape": (12, 12)}),
    Case("redistributions_of_uneven_shards", redistributions, (2, 3, 4), EXACT, 20, {"shape": (7, 5)}),
    Case("redistributions_2d", redistributions_2d, (4,), EXACT, 30),
    Case("linear_by_columns", linear, (2, 3, 4), SUMS, 6, {"style": ColwiseParallel, "width": 12}),
    Case("linear_by_uneven_columns", linear, (2, 3), SUMS, 6, {"style": ColwiseParallel, "width": 7}),
    Case("linear_by_rows", rowwise, (2, 4), SUMS, 3),
    Case("columns_then_rows", column_then_row, (2, 3, 4), SUMS, 3),
    Case("sequence_parallel", sequence_parallel, (2, 3), SUMS, 12),
    Case("embedding_by_rows", embedding, (2, 3), SUMS, 3, {"style": RowwiseParallel(input_layouts=Replicate())}),
    Case("embedding_by_columns", embedding, (2, 4), SUMS, 3, {"style": ColwiseParallel(output_layouts=Replicate())}),
    Case("loss_parallel", with_loss_parallel, (2, 3), SUMS, 9),
    Case("tensor_and_fully_sharded_2x2", tensor_and_fully_sharded, (4,), BITWISE, 20),
    Case("weights_on_a_mesh_2x2", tensor_parallel_in_rows_of_a_mesh, (4,), BITWISE, 9),
    Case("module_by_hand", module_by_hand, (2, 3), SUMS, 6),
    Case("data_parallel_by_placement", data_parallel_by_placement, (2, 3), SUMS, 12),
    Case("parts_of_any_size", local_parts_of_any_size, (2, 3, 4), EXACT, 20),
    Case("products_of_all_placements", products, (2, 3), EXACT, 9),
    Case("reductions", reductions, (2, 3), SUMS, 9),
    Case("created_and_joined", created, (2, 4), EXACT, 4),
]
Cases = tests_of(TABLE)


if __name__ == "__main__":
    unittest.main()
