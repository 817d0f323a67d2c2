#!/usr/bin/env bash
# The Debian packages that cpack has made: what is in which, what they need, and a program built in a tree into which they
# were unpacked.
# usage: packages_test.sh FOLDER_OF_PACKAGES SOURCE_FOLDER CXX_COMPILER
set -u
folder=$1 source=$2 compiler=$3
. "$(dirname "$0")/../support/checks.sh"
version=$(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) //p' "$source/include/weft/core/version.hpp" | paste -sd.)
series=${version%.*}
: > "$work/out"
: > "$work/err"

declare -A file
names=("libweft$series" libweft-dev weft-tools)
if compgen -G "$folder/libweft-torch-dev_*" > /dev/null; then names+=(libweft-torch-dev); fi  # where weft was built with Debian's LibTorch
for name in "${names[@]}"; do
  file[$name]=$(ls "$folder/${name}_$version-1_"*.deb)
  [ -e "${file[$name]}" ] || { fail "no package $name in $folder"; finish; exit; }
done
# has PACKAGE PATTERN, field PACKAGE FIELD PATTERN
has() { dpkg-deb -c "${file[$1]}" | grep -qE "$2" || fail "$1 has no $2"; }
field() { dpkg-deb -f "${file[$1]}" "$2" | grep -qE "$3" || fail "$1: $2 is $(dpkg-deb -f "${file[$1]}" "$2"), without $3"; }
has "libweft$series" "/libweft.so.$series -> libweft.so.$version$"
field "libweft$series" Depends 'libc6 \(>= '
for pattern in '/include/weft/weft.hpp$' '/libweft.a$' '/libweft_metrics.a$' '/include/weft/metrics/metrics.hpp$' '/prometheus/weft-alerts.yml$' "/libweft.so -> libweft.so.$series$" '/weftConfig.cmake$' '/weft.pc$' '/docs/start.md$'; do
  has libweft-dev "$pattern"
done
field libweft-dev Depends "^libweft$series \(= $version-1\)$"
if [ -n "${file[libweft-torch-dev]:-}" ]; then
  for pattern in '/include/weft/torch/data_parallel.hpp$' '/libweft_torch.a$' '/weftLibtorch.cmake$'; do has libweft-torch-dev "$pattern"; done
  field libweft-torch-dev Depends "^libweft-dev \(= $version-1\), libtorch-dev \(>= [0-9.]+\), libtorch-dev \(<< "
fi
if dpkg-deb -c "${file[libweft-dev]}" | grep -E 'weft/torch|libweft_torch'; then fail "libweft-dev has files of libweft-torch-dev"; fi
for program in weft-launch weft-scaling weft-bench weft-plan weft-report; do
  has weft-tools "/bin/$program$"
  has weft-tools "/man1/$program.1.gz$"
  has weft-tools "/completions/$program$"
done
field weft-tools Depends 'libboost-program-options'
has weft-tools '/lib/.*/libnccl-tuner-weft.so$'
has weft-tools '/lib/.*/libnccl-profiler-weft.so$'
dpkg-deb -c "${file[weft-tools]}" | grep -E '/(include|lib)/.*[^/]$' | grep -vE '/libnccl-(profiler|tuner)-weft.so$|/lintian/overrides/weft-tools$' && fail "weft-tools has files of the library"
echo "ok: what the packages have and need"

for name in "${!file[@]}"; do dpkg-deb -x "${file[$name]}" "$work/root"; done
libraries=$(dirname "$(find "$work/root" -name libweft.a)")
check "a program is configured" 0 "Build files" cmake -S "$work/root/usr/share/doc/weft/examples/consumer" -B "$work/build" \
  -DCMAKE_PREFIX_PATH="$work/root/usr" -DCMAKE_CXX_COMPILER="$compiler"
check "a program is built" 0 "consumer" cmake --build "$work/build"
check "it runs on two ranks" 0 "^the mean rank of 2 is 0.5$" "$work/root/usr/bin/weft-launch" -n 2 "$work/build/consumer"
ldd "$work/build/consumer" | grep -q "libweft.so.$series => $libraries" || fail "it does not use the package's libweft.so.$series"
if [ -n "${file[libweft-torch-dev]:-}" ]; then
  mkdir "$work/trainer"
  cat > "$work/trainer/main.cpp" << 'CPP'
#include <torch/nn.h>
#include <weft/torch/data_parallel.hpp>
#include <iostream>
int main() {
  torch::nn::Linear net(3, 2);
  weft::torch::DataParallel dp{weft::connect(weft::World::from_environment()), *net};
  net->forward(torch::full({1, 3}, 1.F + dp.rank())).sum().backward();
  if (dp.rank() == 0) std::cout << "the mean gradient of " << dp.size() << " is " << net->weight.grad()[0][0].item<float>() << std::endl;
}
CPP
  cat > "$work/trainer/CMakeLists.txt" << 'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(trainer LANGUAGES CXX)
find_package(weft 0.1 REQUIRED COMPONENTS torch)
add_executable(trainer main.cpp)
target_link_libraries(trainer PRIVATE weft::torch)
CMAKE
  check "a program with LibTorch is configured" 0 "Build files" cmake -S "$work/trainer" -B "$work/trainer/build" \
    -DCMAKE_PREFIX_PATH="$work/root/usr" -DCMAKE_CXX_COMPILER="$compiler"
  check "it is built" 0 "trainer" cmake --build "$work/trainer/build"
  check "it trains on two ranks" 0 "^the mean gradient of 2 is 1.5$" "$work/root/usr/bin/weft-launch" -n 2 "$work/trainer/build/trainer"
fi
check "a manual can be read" 0 "weft-plan-memory" bash -c "gzip -dc '$work/root/usr/share/man/man1/weft-plan-memory.1.gz' | head -n 5"
finish
