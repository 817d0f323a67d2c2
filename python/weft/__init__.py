"""weft: the communication of distributed training, over libweft.so. It needs nothing but Python; weft.torch is torch.distributed's backend.

    import weft, numpy as np

    with weft.world() as comm:                   # weft-launch -n 4 python3 train.py; or mpirun, torchrun, Slurm
        gradient = np.full(1000, comm.rank, np.float32)
        comm.all_reduce(gradient, op="avg").wait()

`python -m weft` says which library was found, `python -m weft demo` runs two ranks on this machine.
"""

from ._checkpointer import Checkpointer
from ._communicator import Communicator, Group, Work, alone, built_with, run, run_as_threads, version, world
from ._errors import Error, InternalError, MismatchError, PeerLostError, SystemError, TimeoutError, UsageError
from ._memory import bfloat16
from ._reducer import BadValues, Reducer, StepAccount, sync_initial_values
from ._zero import Gathered, StepResult, Zero

__all__ = [
    "BadValues", "Checkpointer", "Communicator", "Error", "Gathered", "Group", "InternalError", "MismatchError", "PeerLostError", "Reducer", "StepAccount",
    "StepResult", "SystemError", "TimeoutError", "UsageError", "Work", "Zero", "alone", "bfloat16", "built_with", "run", "run_as_threads",
    "sync_initial_values", "version", "world",
]
