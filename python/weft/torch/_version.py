"""The torch that weft.torch._C was compiled for. Torch's C++ interfaces change between versions, and say nothing when they do not fit."""

import pathlib


def built_for() -> str:
    """Such as "2.15.0+cu132"."""
    return (pathlib.Path(__file__).parent / "torch_version.txt").read_text().strip()


def check(found: str) -> None:
    """Raises ImportError where torch `found` is another."""
    wanted = built_for()
    if found.split("+")[0] != wanted.split("+")[0]:
        raise ImportError(f"weft.torch was built for torch {wanted}, and this is torch {found}: "
                          "build it again with `pip install --no-build-isolation --force-reinstall .` in weft's folder")
