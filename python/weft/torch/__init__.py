"""The torch.distributed backend "weft".

    import torch.distributed as dist
    dist.init_process_group("weft")          # torchrun, or any other way that torch knows

Torch finds the backend by itself (since 2.15, by the entry point torch.distributed.backends); older ones need `import weft.torch` first.
Tensors of the host go through shared memory or the network, those of CUDA devices over NCCL, if torch and weft were built with CUDA.

    schedule = weft.torch.load_schedule(stage, "pipeline.txt", loss_fn=loss)     # which weft-plan has found, for torch's pipelining

compress() lets the gradients of a DistributedDataParallel on the host travel in fewer bytes, plan_buckets() gives it sizes of buckets.
"""

import atexit as _atexit
import datetime as _datetime
import os as _os
import typing as _typing

import torch as _torch
import torch.distributed as _dist

from ._version import check as _check

_check(_torch.__version__)

from . import _C  # noqa: E402
from ._buckets import plan_buckets  # noqa: E402
from ._compression import Compression, compress  # noqa: E402

if _typing.TYPE_CHECKING:
    from .schedules import load_schedule

__all__ = [
    "Backend", "Compression", "built_with", "compress", "cuda_tensors", "load_schedule", "plan_buckets", "register", "version",
]

Backend = _C.Backend


def version() -> str:
    """The version of weft."""
    return _C.version()


def built_with() -> str:
    """What this build has and has not, in one line."""
    return _C.built_with()


def cuda_tensors() -> str:
    """What becomes of tensors of CUDA devices: "over NCCL", or "refused: " and why."""
    return _C.cuda_tensors


def __getattr__(name: str):
    if name == "load_schedule":  # torch's pipelining takes a second to import
        from .schedules import load_schedule

        return load_schedule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _connect(options, _backend_options=None):
    # DDP then takes its buckets from allocate_tensor(), and nothing is copied. It asks any backend, so this is for machines without a device, where
    # no other backend has memory to give.
    if _torch.cuda.device_count() == 0:
        _os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    timeout = options.timeout
    if isinstance(timeout, _datetime.timedelta):
        timeout = timeout.total_seconds()
    backend = _C.connect(options.store, options.group_rank, options.group_size, _datetime.timedelta(seconds=timeout), options.group_id,
                         list(options.global_ranks_in_group or []))
    # init_process_group(device_id=): torch asks a backend to connect at once where it can also split, and weft's cannot.
    device = getattr(getattr(options, "process_group", None), "bound_device_id", None)
    if device is not None and device.type != "cpu":
        backend.eager_connect_single_device(device)
    return backend


def register() -> None:
    """Makes the backend known to torch.distributed; importing this module does. More than once is as good as once."""
    if "WEFT" not in _dist.Backend._plugins:
        _dist.Backend.register_backend("weft", _connect, extended_api=True, devices=["cpu", "cuda"])


# What is under way at the end of the program is not waited for: destroy_process_group() does that.
_atexit.register(_C.stop)
register()
