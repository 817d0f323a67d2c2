"""`python -m weft.torch`: what was found here."""

import os
import sys


def main() -> int:
    """Prints a line for each; 1 where the backend cannot be used."""
    import torch

    print(f"torch       {torch.__version__} (Python {sys.version.split()[0]})")
    try:
        import weft.torch
    except ImportError as error:
        print(f"weft.torch  cannot be used: {error}")
        return 1
    import torch.distributed as dist

    print(f"weft        {weft.torch.version()}, built {weft.torch.built_with()}")
    print(f"CUDA        tensors of CUDA devices: {weft.torch.cuda_tensors()}")
    store = dist.HashStore()
    dist.init_process_group("weft", store=store, rank=0, world_size=1)
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    heap = os.environ.get("WEFT_HEAP_BYTES", "as much address space as the machine has memory")
    print(f"backend     registered as \"weft\" for {', '.join(dist.Backend.backend_capability['weft'])}; alone it is \"{backend.transport}\"")
    if hasattr(backend, "allocate_tensor"):
        memory = backend.allocate_tensor(1024, dtype=torch.float32, device=torch.device("cpu"))
        print(f"heap        {memory.numel()} elements of it given; WEFT_HEAP_BYTES: {heap}")
    else:
        print("heap        not given: this torch has no allocate_tensor")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
