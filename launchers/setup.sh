#!/usr/bin/env bash
# Installs what weft needs and is missing, with apt (Debian 12); does nothing when all is there.
#   launchers/setup.sh        what the quick start builds and runs
#   launchers/setup.sh test   that, and what the tests need
#   launchers/setup.sh lint   shellcheck, and pre-commit and clang-tidy of PyPI in ~/.cache/weft-lint (WEFT_LINT_VENV), for tests/format.sh and tests/tidy.sh
#   launchers/setup.sh fuzz   that, and clang with libFuzzer for tests/soak.sh fuzz
#   launchers/setup.sh docs   Doxygen and Chromium (300 MB with what they need), and Sphinx of PyPI in ~/.cache/weft-docs (WEFT_DOCS_VENV names another
#                             place), for docs/site.sh and its tests
#   launchers/setup.sh peers  what the quick start builds and runs, and PyTorch for bench/peers/compare.sh
#   launchers/setup.sh torch  what the quick start builds, and PyTorch of PyPI in ~/.cache/weft-torch (WEFT_TORCH_VENV names another place; several GB)
#   launchers/setup.sh jax    what the quick start builds, and JAX of PyPI in ~/.cache/weft-jax (WEFT_JAX_VENV names another place; 600 MB), for weft.jax
#   launchers/setup.sh rust   what the quick start builds, and rustc (400 MB with what it needs), for examples/rust
#   launchers/setup.sh libtorch  what the quick start builds, and Debian's LibTorch for -DWEFT_TORCH=ON (1 GB with what it needs)
#   launchers/setup.sh packages  what the quick start builds, and what launchers/packages/debian.sh needs (1 GB of it is LibTorch)
#   launchers/setup.sh arm64  a compiler for 64-bit ARM and an emulator, for tests/soak.sh arm64
# Without apt, or without the right to use it, it prints the list and goes on: cmake says what it cannot find.
set -euo pipefail

packages=(g++ cmake ninja-build openmpi-bin libopenmpi-dev libpmix-dev libucx-dev libopenblas-dev libhwy-dev liburing-dev
          libboost1.81-dev libboost-program-options1.81-dev libboost-json1.81-dev libssl-dev libxxhash-dev libpugixml-dev libyaml-cpp-dev)
case ${1:-run} in
  run) ;;
  test | fuzz) packages+=(abigail-tools libgtest-dev libgmock-dev libbenchmark-dev libboost-context1.81-dev prometheus-cpp-dev prometheus ccache git procps iproute2 python3 python3-jsonschema python3-numpy python3-venv python3-yaml dpkg-dev file help2man pkg-config mpich munge slurm-wlm) ;;  # iproute2: several hosts on one machine; mpich: its launcher alone
  lint) packages=(git shellcheck python3); python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv) ;;
  peers) packages+=(python3-torch iproute2) ;;
  libtorch) packages+=(libtorch-dev patch) ;;  # patch: examples/torch are programs and the lines that make them parallel
  docs)
    packages=(doxygen)
    python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
    command -v chromium-browser google-chrome >/dev/null || packages+=(chromium) ;;  # another Chromium stays
  torch) python3 -c 'import ensurepip, os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || packages+=(python3-dev python3-venv) ;;
  jax) python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv) ;;
  rust) command -v rustc >/dev/null || packages+=(rustc) ;;  # another rustc stays
  packages) packages+=(dpkg-dev file help2man python3 lintian prometheus-cpp-dev libtorch-dev) ;;
  arm64) packages=(cmake ninja-build g++-aarch64-linux-gnu qemu-user googletest) ;;
  *) echo "setup.sh: unknown argument '$1'; allowed are run, test, lint, fuzz, docs, peers, torch, jax, rust, libtorch, packages, arm64" >&2; exit 42 ;;
esac
if [[ "${1:-run}" =~ ^(test|fuzz)$ ]] && ! command -v kubectl >/dev/null; then packages+=(kubernetes-client); fi  # for kustomize; another kubectl stays
if [ "${1:-run}" = fuzz ]; then packages+=(clang-14 libclang-rt-14-dev llvm-14); fi

# PyTorch with what tests and builds of weft.torch need, in an environment of its own that is kept.
torch_environment() {
  local venv=${WEFT_TORCH_VENV:-$HOME/.cache/weft-torch}
  if [ "${1:-run}" != torch ] || "$venv/bin/python" -c 'import expecttest, numpy, safetensors, scikit_build_core, torch' 2>/dev/null; then return; fi
  echo "setup: installing PyTorch in $venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q torch numpy expecttest safetensors scikit-build-core || { echo "setup: pip failed; see above" >&2; exit 70; }
}

# JAX, which Debian has not.
jax_environment() {
  local venv=${WEFT_JAX_VENV:-$HOME/.cache/weft-jax}
  if [ "${1:-run}" != jax ] || "$venv/bin/python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("jax") is None)' 2>/dev/null; then return; fi
  echo "setup: installing JAX in $venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q jax || { echo "setup: pip failed; see above" >&2; exit 70; }
}

# Sphinx with its theme, of the versions that the site is built with.
docs_environment() {
  local venv=${WEFT_DOCS_VENV:-$HOME/.cache/weft-docs} wanted
  wanted=$(dirname "${BASH_SOURCE[0]}")/../docs/site/requirements.txt
  if [ "${1:-run}" != docs ] || cmp -s "$wanted" "$venv/requirements.txt"; then return; fi
  echo "setup: installing Sphinx in $venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q -r "$wanted" && cp "$wanted" "$venv/requirements.txt" || { echo "setup: pip failed; see above" >&2; exit 70; }
}

# The tools that look at sources. pre-commit fetches the others, at the versions that .pre-commit-config.yaml names.
lint_environment() {
  local venv=${WEFT_LINT_VENV:-$HOME/.cache/weft-lint}
  local tools=(pre-commit==4.7.0 clang-tidy==21.1.6)
  if [ "${1:-run}" != lint ] || [ "$("$venv/bin/pip" freeze 2>/dev/null | grep -cFx -e "${tools[0]/-/_}" -e "${tools[1]}")" = 2 ]; then return; fi
  echo "setup: installing ${tools[*]} in $venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q "${tools[@]}" || { echo "setup: pip failed; see above" >&2; exit 70; }
}

environments() {
  torch_environment "$@"
  jax_environment "$@"
  docs_environment "$@"
  lint_environment "$@"
}

missing=()
if command -v dpkg-query >/dev/null; then
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
else
  missing=("${packages[@]}")
fi
if [ ${#missing[@]} -eq 0 ]; then
  environments "$@"
  echo "setup: everything is installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
if ! command -v apt-get >/dev/null || { [ ${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null; }; then
  echo "setup: cannot install packages here; on Debian 12 these would be: ${missing[*]}"
  echo "setup: going on, in case they are there under other names"
  environments "$@"
  exit 0
fi

echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Of prometheus the tests need the programs: nothing is to listen on this machine because weft is tested here.
policy=/usr/sbin/policy-rc.d
if [[ " ${missing[*]} " == *" prometheus "* ]] && [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
  "${as_root[@]}" chmod +x $policy
  trap '"${as_root[@]}" rm -f $policy; rm -f "$log"' EXIT
fi
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "setup: apt-get $1 failed; see above" >&2
    exit 70
  }
}
install update
install install -y --no-install-recommends "${missing[@]}"
if [[ " ${missing[*]} " == *" prometheus "* ]] && command -v systemctl >/dev/null; then
  "${as_root[@]}" systemctl disable --quiet prometheus >>"$log" 2>&1 || true  # where systemd runs, not at the next start either
fi
environments "$@"
echo "setup: done"
