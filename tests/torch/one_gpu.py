"""PyTorch's DistributedTest where all ranks share device 0: what its text says of a rank's device means that one (cuda_suite.py)."""

import ast
import re

RANK = r"(?:self\.rank|next_rank|device_id|rank)"
PATTERNS = (
    (rf"\b(set_device|cuda|synchronize)\((?:device=)?{RANK}\)", r"\1(0)"),
    (rf"\bdevice_ids=\[{RANK}\]", "device_ids=[0]"),
    (rf"\b(output_device|device)={RANK}\b(?!\()", r"\1=0"),
    (rf"\.to\({RANK}\)", ".to(0)"),
    (r"\b(device_id|device) = self\.rank\b", r"\1 = 0"),
    (r"\b(Stream|torch\.device)\((?:self\.)?rank\)", r"\1(0)"),
    (r"\.device\.index, self\.rank\b", ".device.index, 0"),
    (r'get\("device_ids"\), str\(rank\)', 'get("device_ids"), "0"'),
    (r'get\("output_device"\), rank\b', 'get("output_device"), 0'),
    (r'f"cuda:\{(?:self\.)?rank:d\}"', '"cuda:0"'),
)


def shared(source: str) -> str:
    """The suite's text with every rank on device 0."""
    for pattern, text in PATTERNS:
        source = re.sub(pattern, text, source)
    return source


def pretend_two() -> None:
    """Before the suite is imported: it is told of two devices, and CUDA does not begin in this process, which forks ranks."""
    import torch
    import torch.utils._triton

    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 2
    torch.utils._triton.has_triton = lambda: False  # which begins CUDA to ask the device


def one_for_each(world_size: int, backend: str) -> dict:
    """In place of init_multigpu_helper()."""
    return {rank: [0] for rank in range(world_size)}


def tests_of_devices(source: str) -> list:
    """The names of tests that ask for a GPU, or two, in the order of the text."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        asked = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
        wants = "skip_if_no_gpu" in asked or "skip_if_lt_x_gpu" in asked or "require_n_gpus" in asked
        if wants and "gpu(4)" not in asked and "world_size(4)" not in asked and "BACKEND, 4)" not in asked:
            names.append((node.lineno, node.name))
    return [name for _, name in sorted(names)]
