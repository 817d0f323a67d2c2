# Untested: Spack has not run this. Its syntax and the options of CMake that it names are checked (tests/programs/ports_test.sh).
from spack.package import *


class Weft(CMakePackage):
    """Communication of distributed training: collectives, gradients averaged while backward runs, ZeRO, compression, pipelines."""

    license("Apache-2.0")
    version("0.1.0")

    variant("shared", default=True, description="libweft.so beside libweft.a")
    variant("mpi", default=True, description="Ranks on several nodes, over MPI")
    variant("ucx", default=True, description="Ranks on several nodes, without MPI")
    variant("tcp", default=True, description="Ranks that meet over TCP")
    variant("simd", default=True, description="Sums with the widest instructions found at run time")
    variant("metrics", default=False, description="Figures for Prometheus")
    variant("uring", default=True, description="Optimizer state in files")
    variant("cuda", default=False, description="CUDA kernels")
    variant("tools", default=True, description="weft-launch, weft-scaling, weft-bench, weft-plan and weft-report", when="+tcp")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi", when="+mpi")
    depends_on("ucx", when="+ucx")
    depends_on("boost@1.81:", when="+tcp")
    depends_on("openssl@3:", when="+tcp")
    depends_on("xxhash", when="+tcp")
    depends_on("boost@1.81: +program_options+json", when="+tools")
    depends_on("openblas", when="+tools")
    depends_on("pugixml", when="+tools")
    depends_on("yaml-cpp", when="+tools")
    depends_on("highway", when="+simd")
    depends_on("liburing", when="+uring")
    depends_on("prometheus-cpp", when="+metrics")
    depends_on("cuda@12:", when="+cuda")
    conflicts("platform=darwin", msg="weft needs Linux")
    conflicts("platform=windows", msg="weft needs Linux")

    def cmake_args(self):
        return [
            self.define_from_variant("WEFT_SHARED", "shared"),
            self.define_from_variant("WEFT_MPI", "mpi"),
            self.define_from_variant("WEFT_UCX", "ucx"),
            self.define_from_variant("WEFT_BOOST", "tcp"),
            self.define_from_variant("WEFT_SIMD", "simd"),
            self.define_from_variant("WEFT_URING", "uring"),
            self.define_from_variant("WEFT_METRICS", "metrics"),
            self.define_from_variant("WEFT_CUDA", "cuda"),
            self.define("WEFT_TOOLS", "+tools" in self.spec),
            self.define("WEFT_MANUALS", False),
            self.define("WEFT_TESTS", False),
            self.define("WEFT_BENCH", False),
        ]
