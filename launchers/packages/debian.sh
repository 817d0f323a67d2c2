#!/usr/bin/env bash
# Makes the Debian packages libweft0.1, libweft-dev, libweft-torch-dev and weft-tools, with the flags of Debian's own, and lets lintian look at them.
#   launchers/packages/debian.sh [OPTION_OF_CMAKE...]     installs what is missing, builds, and leaves the packages in build/packages/deb
#     -DWEFT_TORCH=OFF     without libweft-torch-dev
set -euo pipefail
cd "$(dirname "$0")/../.."

begin=$SECONDS
launchers/setup.sh packages
. launchers/toolchain.sh
log=build/packages.log
mkdir -p build
echo "packages: building, $jobs at a time"
# The level of optimization is the preset's; the rest hardens programs, as lintian wants it.
flags="$(dpkg-buildflags --get CPPFLAGS) $(dpkg-buildflags --get CXXFLAGS | sed 's/^-g -O2 //')"
link=$(DEB_BUILD_MAINT_OPTIONS=hardening=+bindnow dpkg-buildflags --get LDFLAGS)
if ! { cmake --preset packages -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_EXE_LINKER_FLAGS="$link" -DCMAKE_SHARED_LINKER_FLAGS="$link" "$@" &&
       cmake --build --preset packages -j "$jobs" && cpack --config build/packages/CPackConfig.cmake -D CPACK_DEBIAN_COMPRESSION_TYPE=xz; } >"$log" 2>&1; then
  tail -n 30 "$log"
  echo "packages: the build failed; all of it is in $log" >&2
  exit 70
fi
bash tests/programs/lintian_test.sh build/packages/deb
stat -c '%s %n' build/packages/deb/*.deb | awk '{printf "%8.1f MB  %s\n", $1 / 1e6, $2}'
echo "packages: made in $((SECONDS - begin)) s. Next, as root: apt install build/packages/deb/*.deb"
