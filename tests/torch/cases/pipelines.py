"""A model cut into stages, and its training: in a pipeline of torch.distributed.pipelining, and in one piece on one process."""

import torch
from torch.distributed.pipelining import PipelineStage

STEPS = 3
WIDTH = 6
ROWS = 2  # of a microbatch


class Stage(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Linear(WIDTH, 10)
        self.second = torch.nn.Linear(10, WIDTH)

    def forward(self, x):
        return x + self.second(torch.tanh(self.first(x)))


def loss_of(output, target):
    return torch.nn.functional.mse_loss(output, target)


def batch(step, microbatches, seed=0):
    generator = torch.Generator().manual_seed(1000 * seed + step)
    return (torch.rand(microbatches * ROWS, WIDTH, generator=generator), torch.rand(microbatches * ROWS, WIDTH, generator=generator))


def stages_of(indices, count, group=None, wrap=lambda module: module, is_static=False):
    """Stages whose values have shapes that are given, or that torch finds out by a step of its own."""
    def shapes(index):
        return {"input_args": torch.zeros(ROWS, WIDTH, requires_grad=index > 0), "output_args": torch.zeros(ROWS, WIDTH, requires_grad=True)}

    return [PipelineStage(wrap(Stage(index)), index, count, torch.device("cpu"), group=group, **(shapes(index) if is_static else {})) for index in indices]


def train(schedule, stages, microbatches, seed=0):
    """Three steps; losses where the last stage is, and the gradients of the last step and the parameters of each stage."""
    parameters = [parameter for stage in stages for parameter in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    indices = {stage.stage_index for stage in stages}
    is_last = stages[0].num_stages - 1 in indices
    losses, gradients = [], {}
    for step in range(STEPS):
        x, target = batch(step, microbatches, seed)
        found = []
        schedule.step(*((x,) if 0 in indices else ()), target=target if is_last else None, losses=found if is_last else None)
        losses += [loss.detach().clone() for loss in found]
        gradients = {stage.stage_index: [whole(parameter.grad) for parameter in stage.submod.parameters()] for stage in stages}
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": losses, "gradients": gradients,
            "parameters": {stage.stage_index: [whole(parameter) for parameter in stage.submod.parameters()] for stage in stages}}


def whole(tensor):
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()
    return tensor.detach().clone()


def train_in_one_piece(count, microbatches):
    """The slow twin: all stages after each other, a microbatch at a time, in one process without a group."""
    stages = [Stage(index) for index in range(count)]
    parameters = [parameter for stage in stages for parameter in stage.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    losses, gradients = [], {}
    for step in range(STEPS):
        x, target = batch(step, microbatches)
        for i in range(microbatches):
            rows = slice(i * ROWS, (i + 1) * ROWS)
            output = x[rows]
            for stage in stages:
                output = stage(output)
            loss = loss_of(output, target[rows])
            loss.backward()
            losses.append(loss.detach().clone())
        for parameter in parameters:
            parameter.grad /= microbatches
        gradients = {index: [parameter.grad.clone() for parameter in stage.parameters()] for index, stage in enumerate(stages)}
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": losses, "gradients": gradients,
            "parameters": {index: [parameter.detach().clone() for parameter in stage.parameters()] for index, stage in enumerate(stages)}}
