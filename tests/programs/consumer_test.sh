#!/usr/bin/env bash
# weft installed, moved elsewhere, and used from outside: find_package with components, libweft.so and libweft.a, pkg-config, and what
# reaches the compile line of who uses it.
# usage: consumer_test.sh BUILD_FOLDER SOURCE_FOLDER CXX_COMPILER CXX_FLAGS WEFT_LAUNCH shared|static mpi|no-mpi metrics|no-metrics
set -u
build=$1 source=$2 compiler=$3 flags=$4 launch=$5 kind=$6 mpi=$7 metrics=$8
. "$(dirname "$0")/../support/checks.sh"

cmake --install "$build" --prefix "$work/first" > "$work/out" 2> "$work/err" || { fail "cmake --install"; finish; exit; }
mv "$work/first" "$work/moved"
prefix=$work/moved
libraries=$(dirname "$(find "$prefix" -name libweft.a)")
for file in include/weft/weft.hpp share/doc/weft/LICENSE share/doc/weft/README.md share/doc/weft/docs/start.md \
  share/doc/weft/examples/consumer/main.cpp bin/weft-launch; do
  [ -e "$prefix/$file" ] || fail "$file is not installed"
done
if grep -rlF "$work/first" "$prefix"; then fail "these files name the folder of the installation"; fi

# project NAME COMPONENTS LIBRARIES: a program of its own folder, configured and built
cmake_options=(-DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
project() {
  mkdir -p "$work/$1"
  cat > "$work/$1/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project($1 LANGUAGES CXX)
find_package(weft 0.1 REQUIRED $2)
add_executable($1 main.cpp)
target_link_libraries($1 PRIVATE $3)
CMAKE
  check "$1 is configured" 0 "Build files have been written" cmake -S "$work/$1" -B "$work/$1/build" "${cmake_options[@]}"
  check "$1 is built" 0 "Built target $1|\[[0-9]/[0-9]\]" cmake --build "$work/$1/build"
}
# runs NAME PROGRAM: alone, on three ranks, and where the library throws an Error, which the program catches by its type
runs() {
  check "$1 on one rank" 0 "^the mean rank of 1 is 0$" "$2"
  check "$1 on three ranks" 0 "^the mean rank of 3 is 1$" "$launch" -n 3 "$2"
  check "$1 catches an Error" 42 "^weft: .*WEFT_RANK" env WEFT_RANK=5 "$2"
}

check "the consumer is configured" 0 "Build files" cmake -S "$prefix/share/doc/weft/examples/consumer" -B "$work/consumer" "${cmake_options[@]}"
check "the consumer is built" 0 "consumer" cmake --build "$work/consumer"
runs "the consumer" "$work/consumer/consumer"
# Headers of weft alone: no folder of MPI, CUDA or OpenSSL, and no definition.
words=$(grep -oE '"command": .*' "$work/consumer/compile_commands.json" | grep -oE -- ' -(I|isystem|D)[^ ]*( /[^ ]*)?' | tr -d '\n')
[ "$words" = " -isystem $prefix/include" ] || fail "the consumer is compiled with$words, not with -isystem $prefix/include alone"
if [ "$kind" = shared ]; then
  ldd "$work/consumer/consumer" | grep -q "libweft.so.0.1 => $prefix" || fail "the consumer does not use libweft.so.0.1"
  # Names that begin with weft::detail belong to weft alone; templates in public headers call append, weft::torch shares one table, and the
  # figures for Prometheus, which are an archive, agree by functions of it.
  nm -DC --defined-only "$libraries/libweft.so" | cut -d' ' -f3- > "$work/out"
  grep -q '^weft::connect(' "$work/out" || fail "libweft.so does not show weft::connect"
  grep -q '^typeinfo for weft::Error' "$work/out" || fail "libweft.so does not show the type of weft::Error"
  if grep -E '^((typeinfo|vtable|typeinfo name) for )?weft::(pipeline::)?detail::' "$work/out" | grep -vE '^weft::detail::(append(_printed)?\(|ParameterClaim::|agree\(|exchange_texts\(|Outcome::keep\()'; then
    fail "libweft.so shows these names of detail"
  fi
  if grep -vE 'weft::|^WEFT|^weft_[a-z_0-9]+@@WEFT_C_' "$work/out"; then fail "libweft.so shows these names of others"; fi
  # And all that the example trainers use, who know public headers alone.
  names() { sed -nE 's/.* (_Z[A-Z]*4weft[^@]*)(@.*)?$/\1/p' | sort -u; }
  nm -u "$build"/tools/weft-scaling/gpt/*.a 2> /dev/null | names > "$work/used"
  { nm --defined-only "$build"/tools/weft-scaling/gpt/*.a 2> /dev/null; nm -D --defined-only "$libraries/libweft.so"; } | names > "$work/shown"
  [ "$(wc -l < "$work/used")" -gt 50 ] || fail "the example trainers use $(wc -l < "$work/used") names of weft, fewer than 50"
  if comm -23 "$work/used" "$work/shown" | c++filt | grep .; then fail "libweft.so does not show these names, which the example trainers use"; fi
fi

# libweft.a, and the parts by name; with it MPI's headers, for a program that has an MPI of its own.
mkdir -p "$work/archive"
cp "$source/examples/consumer/main.cpp" "$work/archive"
if [ "$mpi" = mpi ]; then
  echo '#include <weft/interop/mpi.hpp>' >> "$work/archive/main.cpp"
  project archive "COMPONENTS static gradient mpi" "weft::gradient weft::mpi"
else
  project archive "COMPONENTS static gradient" weft::gradient
fi
runs "libweft.a" "$work/archive/build/archive"
if ldd "$work/archive/build/archive" | grep libweft; then fail "component static, but libweft.so is used"; fi

# The figures for Prometheus: with libweft.so where it is, and headers of weft alone.
if [ "$metrics" = metrics ]; then
  mkdir -p "$work/served" "$work/textfile"
  sed 's|#include <weft/weft.hpp>|#include <weft/metrics/metrics.hpp>\n#include <weft/weft.hpp>|
       s|^\( *\)weft::Stream stream;|\1const weft::Metrics metrics{comm, {.textfile = "'"$work/textfile"'"}};\n&|
       s|^\( *\)if (comm.rank() == 0)|\1if (metrics.text().find("weft_info{rank=") == std::string::npos) return 1;\n&|' \
    "$source/examples/consumer/main.cpp" > "$work/served/main.cpp"
  grep -q 'weft::Metrics metrics' "$work/served/main.cpp" || fail "the consumer is another one now: it serves no metrics"
  project served "COMPONENTS metrics" "weft::weft weft::metrics"
  runs "metrics" "$work/served/build/served"
  grep -oE '"command": .*' "$work/served/build/compile_commands.json" | grep -q prometheus && fail "headers of prometheus-cpp reach who serves metrics"
fi

# finds STATUS PATTERN ARGUMENTS...: a project with one find_package for each of the arguments
mkdir -p "$work/found"
finds() {
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(found LANGUAGES CXX)\n' > "$work/found/CMakeLists.txt"
  printf 'find_package(weft %s)\n' "${@:3}" >> "$work/found/CMakeLists.txt"
  check "find_package(weft ${*:3})" "$1" "$2" cmake -S "$work/found" -B "$work/found/build" "${cmake_options[@]}"
}
finds 1 "has no component lunch: there are core," "REQUIRED COMPONENTS lunch"
finds 0 "Build files" "REQUIRED COMPONENTS pipeline OPTIONAL_COMPONENTS lunch"
finds 1 "requested version \"9.0\"" "9.0 REQUIRED"
[ "$metrics" = metrics ] || finds 1 "-DWEFT_METRICS=ON" "REQUIRED COMPONENTS metrics"
[ "$mpi" = mpi ] || finds 1 "-DWEFT_MPI=ON" "REQUIRED COMPONENTS mpi"
if [ "$kind" = shared ]; then
  finds 1 "already used static in this project" "REQUIRED COMPONENTS static" REQUIRED
else
  finds 1 "-DWEFT_SHARED=ON" "REQUIRED COMPONENTS shared"
fi

# pkg-config, where it is
if command -v pkg-config > /dev/null; then
  export PKG_CONFIG_PATH=$libraries/pkgconfig
  version=$(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) //p' "$prefix/include/weft/core/version.hpp" | paste -sd.)
  check "pkg-config knows the version" 0 "^$version$" pkg-config --modversion weft
  read -ra includes <<< "$(pkg-config --cflags weft)"
  [ "${#includes[@]}" -eq 1 ] && [ "$(realpath "${includes[0]#-I}")" = "$prefix/include" ] || fail "pkg-config --cflags weft: ${includes[*]}"
  read -ra link <<< "$(pkg-config --libs weft)"
  read -ra archive <<< "$(pkg-config --static --libs weft | sed 's/-lweft /-l:libweft.a /')"  # the linker prefers libweft.so
  read -ra flags <<< "$flags"
  build() { "$compiler" "${flags[@]}" "$@" > "$work/out" 2> "$work/err" || fail "pkg-config: $*"; }
  build -std=c++20 "${includes[@]}" -c "$source/examples/consumer/main.cpp" -o "$work/main.o"
  build "$work/main.o" "${link[@]}" -Wl,-rpath,"$libraries" -o "$work/by_pkg_config"
  runs "pkg-config" "$work/by_pkg_config"
  build "$work/main.o" "${archive[@]}" -o "$work/by_pkg_config_static"
  runs "pkg-config --static" "$work/by_pkg_config_static"
  if [ "$metrics" = metrics ]; then
    read -ra link <<< "$(pkg-config --libs weft-metrics)"
    build -std=c++20 "${includes[@]}" -c "$work/served/main.cpp" -o "$work/served.o"
    build "$work/served.o" "${link[@]}" -Wl,-rpath,"$libraries" -o "$work/served_by_pkg_config"
    runs "pkg-config weft-metrics" "$work/served_by_pkg_config"
  fi
else
  echo "skipped: there is no pkg-config here"
fi
finish
