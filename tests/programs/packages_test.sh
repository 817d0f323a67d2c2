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
for name in "libweft$series" libweft-dev weft-tools; do
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
for program in weft-launch weft-scaling weft-bench weft-plan weft-report; do
  has weft-tools "/bin/$program$"
  has weft-tools "/man1/$program.1.gz$"
  has weft-tools "/completions/$program$"
done
field weft-tools Depends 'libboost-program-options'
has weft-tools '/lib/.*/libnccl-tuner-weft.so$'
dpkg-deb -c "${file[weft-tools]}" | grep -E '/(include|lib)/.*[^/]$' | grep -vE '/libnccl-tuner-weft.so$|/lintian/overrides/weft-tools$' && fail "weft-tools has files of the library"
echo "ok: what the packages have and need"

for name in "${!file[@]}"; do dpkg-deb -x "${file[$name]}" "$work/root"; done
libraries=$(dirname "$(find "$work/root" -name libweft.a)")
check "a program is configured" 0 "Build files" cmake -S "$work/root/usr/share/doc/weft/examples/consumer" -B "$work/build" \
  -DCMAKE_PREFIX_PATH="$work/root/usr" -DCMAKE_CXX_COMPILER="$compiler"
check "a program is built" 0 "consumer" cmake --build "$work/build"
check "it runs on two ranks" 0 "^the mean rank of 2 is 0.5$" "$work/root/usr/bin/weft-launch" -n 2 "$work/build/consumer"
ldd "$work/build/consumer" | grep -q "libweft.so.$series => $libraries" || fail "it does not use the package's libweft.so.$series"
check "a manual can be read" 0 "weft-plan-memory" bash -c "gzip -dc '$work/root/usr/share/man/man1/weft-plan-memory.1.gz' | head -n 5"
finish
