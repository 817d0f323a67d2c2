from datetime import timedelta

import torch.distributed as dist

torch_version: str
cuda_tensors: str

class Backend(dist.distributed_c10d.C10DBackend):  # type: ignore[name-defined]
    """A process group's backend; torch.distributed calls it."""

    @property
    def transport(self) -> str: ...

def connect(store: dist.Store, rank: int, size: int, timeout: timedelta, name: str, ranks: list[int]) -> Backend: ...
def stop() -> None: ...
def version() -> str: ...
def built_with() -> str: ...
