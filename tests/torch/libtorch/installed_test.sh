#!/usr/bin/env bash
# weft installed, moved elsewhere, and used from outside with find_package(weft COMPONENTS torch); and the torches that this refuses.
# usage: installed_test.sh BUILD_FOLDER CXX_COMPILER CMAKE_PREFIX_PATH TARGET...; the targets are what is installed: they are built first, so that
# none is older than the sources
set -u
build=$1 compiler=$2 torch=$3
shift 3
. "$(dirname "$0")/../../support/checks.sh"

cmake --build "$build" --target "$@" > "$work/out" 2> "$work/err" || { fail "what is installed is not built"; finish; exit; }
for component in lib dev torch; do
  cmake --install "$build" --prefix "$work/first" --component $component > "$work/out" 2> "$work/err" || { fail "cmake --install"; finish; exit; }
done
mv "$work/first" "$work/moved"
if grep -rlF "$work/first" "$work/moved"; then fail "these files name the folder of the installation"; fi

mkdir "$work/project"
cat > "$work/project/main.cpp" <<'CPP'
#include <torch/nn.h>
#include <weft/torch/data_parallel.hpp>
#include <iostream>
int main() {
  torch::nn::Linear net(3, 2);
  weft::torch::DataParallel dp{weft::connect(weft::World::from_environment()), *net};
  net->forward(torch::ones({1, 3})).sum().backward();
  std::cout << "rank " << dp.rank() << " of " << dp.size() << ": the mean of ones is "
            << net->bias.grad().sum().item<float>() / 2 << std::endl;
}
CPP
cat > "$work/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(trainer LANGUAGES CXX)
find_package(weft 0.1 REQUIRED COMPONENTS torch)
add_executable(trainer main.cpp)
target_link_libraries(trainer PRIVATE weft::torch)
CMAKE
# configured NAME STATUS PATTERN FOLDER TORCH
configured() {
  check "$1" "$2" "$3" cmake -S "$work/project" -B "$work/$4" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/moved;$5"
}
configured "a trainer is configured" 0 "Build files have been written" trainer "$torch"
cmake --build "$work/trainer" > "$work/out" 2> "$work/err" || fail "the trainer is not built"
check "it trains" 0 "^rank 0 of 1: the mean of ones is 1$" "$work/trainer/trainer"

find "$work/moved" -name weftLibtorch.cmake -exec mv {} "$work/aside" \;
configured "without its package it is named" 1 "a package of its own, libweft-torch-dev" without "$torch"
mv "$work/aside" "$(dirname "$(find "$work/moved" -name weftConfig.cmake)")/weftLibtorch.cmake"

mkdir -p "$work/old/share/cmake/Torch"
echo 'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")' > "$work/old/share/cmake/Torch/TorchConfig.cmake"
configured "a torch with the old ABI is refused" 1 "has the old ABI of std::string" old "$work/old"
sed -i -E 's/WEFT_LIBTORCH_VERSION STREQUAL "[^"]*"/WEFT_LIBTORCH_VERSION STREQUAL "0.4.1"/' "$(find "$work/moved" -name weftConfig.cmake)"
configured "another version of torch is refused" 1 "and here is [0-9.]+" other "$torch"
finish
