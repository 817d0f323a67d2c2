# shellcheck shell=bash
# To be sourced by scripts that build: Ninja and a compiler cache, where they are, and as many jobs as there are cores. What is
# set stays. A folder that was configured before keeps what it was configured with.
if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
export CCACHE_DEPEND=${CCACHE_DEPEND:-1}  # the compiler says what it read: ccache does not preprocess each source once more
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}  # what precompiled headers need
# shellcheck disable=SC2034  # for the scripts that source this
jobs=$(nproc)
