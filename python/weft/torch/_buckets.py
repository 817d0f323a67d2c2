"""plan_buckets(): sizes of the buckets of a DistributedDataParallel, by weft's planner."""

import inspect as _inspect
import time as _time

import torch as _torch
import torch.distributed as _dist
from torch.nn.parallel import DistributedDataParallel as _DistributedDataParallel

from . import _C
from ._compression import weft_backend as _weft_backend

_MIB = 1 << 20
_BUCKET_BYTES = _MIB
_LINK_BYTES = (1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
_LINK_ROUNDS = 5


def _gradient_times(parameters, step):
    """When each gradient was there, in seconds from the first; the last time where there was none. The second of two steps counts."""
    times = {}
    hooks = [parameter.register_post_accumulate_grad_hook(lambda parameter: times.__setitem__(id(parameter), _time.perf_counter()))
             for parameter in parameters]
    try:
        for _ in range(2):
            times.clear()
            step()
    finally:
        for hook in hooks:
            hook.remove()
        for parameter in parameters:
            parameter.grad = None
    if not times:
        raise ValueError("weft: plan_buckets: step() made no gradients; let it run forward and backward of the model once")
    first, last = min(times.values()), max(times.values())
    return [times.get(id(parameter), last) - first for parameter in parameters]


def _link(backend, group):
    """(bytes, seconds) of an all_reduce, on the slowest rank."""
    samples = []
    for size in _LINK_BYTES:
        tensor = backend.allocate_tensor(size // 4, dtype=_torch.float32, device=_torch.device("cpu"))
        seconds = []
        for _ in range(_LINK_ROUNDS):
            _dist.barrier(group)
            begin = _time.perf_counter()
            _dist.all_reduce(tensor, group=group)
            seconds.append(_time.perf_counter() - begin)
        samples.append((float(size), sorted(seconds)[_LINK_ROUNDS // 2]))
    return samples


def _agreed(values, group, op):
    """The same values on all ranks."""
    tensor = _torch.tensor(values, dtype=_torch.float64)
    _dist.all_reduce(tensor, op=op, group=group)
    return tensor.tolist()


def plan_buckets(model, step=None, group=None, find_unused_parameters=False) -> dict:
    """Keyword arguments for DistributedDataParallel(model, ...): sizes of buckets. Collective over `group`, a group of weft.

        keywords = weft.torch.plan_buckets(model, step=lambda: loss(model(batch)).backward())
        model = DistributedDataParallel(model, **keywords)

    model: as it is before it is wrapped; find_unused_parameters: as DDP is told. step: runs forward and backward of it, twice, so that times of
    gradients are seen; all_reduces are timed, too. Gradients are None afterwards. The plan is the one that exposes least by these times, averaged
    over ranks. Without a step buckets are 1 MiB, as weft's own are within a node.
    """
    if isinstance(model, _DistributedDataParallel):
        raise TypeError("weft: plan_buckets: a DistributedDataParallel has its buckets already; give the model before it is wrapped")
    if "bucket_cap_mb_list" not in _inspect.signature(_DistributedDataParallel.__init__).parameters:
        raise NotImplementedError(f"weft: plan_buckets: DistributedDataParallel of torch {_torch.__version__} takes no list of sizes; give bucket_cap_mb")
    group = group or _dist.group.WORLD
    backend = _weft_backend(group, "plan_buckets")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    types = {parameter.dtype for parameter in parameters}
    if len(types) != 1 or not next(iter(types)).is_floating_point:
        raise ValueError(f"weft: plan_buckets: parameters of {', '.join(sorted(map(str, types))) or 'no type'}; DDP has buckets for each type and one "
                         "list of sizes: all that are trained have one floating-point type")
    ready, link = [0.0] * len(parameters), []
    if step is not None:
        ready = _agreed(_gradient_times(parameters, step), group, _dist.ReduceOp.AVG)
        seen = _link(backend, group)
        link = list(zip((size for size, _ in seen), _agreed([seconds for _, seconds in seen], group, _dist.ReduceOp.MAX)))
    # Backward goes from the last parameter to the first. DDP orders gradients as they came in its first step, if it builds its buckets anew.
    order = list(range(len(parameters)))[::-1]
    if not find_unused_parameters:
        order.sort(key=lambda i: ready[i])
    sizes = _C.bucket_sizes([parameters[i].numel() for i in order], parameters[0].element_size(), [ready[i] for i in order], link, _BUCKET_BYTES)
    # Otherwise it fills its buckets once, from the first parameter on.
    caps = sizes[::-1] if find_unused_parameters else sizes
    return {"bucket_cap_mb_list": [size / _MIB for size in caps]}
