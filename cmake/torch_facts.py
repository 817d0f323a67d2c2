"""Prints what CMake needs of this Python's torch: version;folder;suffix of modules;definitions of pybind11. Says in one line what is wrong with it."""
import sys
import sysconfig

try:
    import torch
except ImportError as error:
    sys.exit(f"{sys.executable} has no torch that can be imported: {error}")
version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
if version < (2, 7):
    sys.exit(f"torch {torch.__version__} is older than 2.7, the first with the interfaces that weft's backend uses: update torch")
if not torch._C._GLIBCXX_USE_CXX11_ABI:
    sys.exit(f"torch {torch.__version__} is built with the old ABI of libstdc++ (_GLIBCXX_USE_CXX11_ABI=0), which weft is not: "
             "install a torch of PyPI from 2.7 on, all of which have the new one")
if not torch.distributed.is_available():
    sys.exit(f"torch {torch.__version__} is built without torch.distributed")
# Older pybind11 shares no types between modules of different compilers, unless a module says that it was built with torch's.
names = ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")
values = {name: getattr(torch._C, f"_PYBIND11_{name}", None) for name in names}
definitions = [f'PYBIND11_{name}="{value}"' for name, value in values.items() if value]
print(torch.__version__, torch.__path__[0], sysconfig.get_config_var("SOABI"), *definitions, sep=";")
