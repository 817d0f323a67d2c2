#!/usr/bin/env bash
# The recipes for Spack and vcpkg can be read, have weft's version, and name options that weft has. Nothing here runs Spack or vcpkg.
# usage: ports_test.sh SOURCE_FOLDER CMAKE
set -eu
source=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
spack=$source/launchers/packages/spack/weft/package.py
port=$source/launchers/packages/vcpkg/weft
version=$(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) //p' "$source/include/weft/core/version.hpp" | paste -sd.)

python3 - "$spack" "$port/vcpkg.json" "$version" <<'PYTHON'
import ast, json, sys
spack, vcpkg, version = sys.argv[1:]
tree = ast.parse(open(spack).read(), spack)
recipe = next(node for node in tree.body if isinstance(node, ast.ClassDef))
calls = [node for node in ast.walk(recipe) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
first = lambda name: [call.args[0].value for call in calls if call.func.id == name]
assert first("version") == [version], f"package.py has version {first('version')}, weft {version}"
variants = set(first("variant"))
named = {node.args[1].value for node in ast.walk(recipe) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "define_from_variant"}
assert named <= variants, f"package.py has no variants {named - variants}"
port = json.load(open(vcpkg))
assert port["version"] == version, f"vcpkg.json has version {port['version']}, weft {version}"
assert set(port["default-features"]) <= set(port["features"]), "vcpkg.json: a default feature is none"
print("ok: package.py and vcpkg.json")
PYTHON

# portfile.cmake is CMake: it runs, with functions of vcpkg's that only say their names.
echo "cmake_minimum_required(VERSION 3.25)" > "$work/run.cmake"
for name in check_features cmake_configure cmake_install cmake_config_fixup fixup_pkgconfig copy_tools install_copyright; do
  printf 'function(vcpkg_%s)\n  message("vcpkg_%s ${ARGN}")\nendfunction()\n' $name $name
done >> "$work/run.cmake"
printf 'set(FEATURES tools)\nset(CURRENT_PACKAGES_DIR %s)\ninclude(%s)\n' "$work" "$port/portfile.cmake" >> "$work/run.cmake"
"$cmake" -P "$work/run.cmake" > "$work/out" 2>&1 || { cat "$work/out"; exit 1; }
[ "$(grep -c '^vcpkg_' "$work/out")" -eq 7 ] || { echo "FAILED: portfile.cmake calls"; cat "$work/out"; exit 1; }
echo "ok: portfile.cmake"

while read -r option; do
  grep -qE "(weft_option|option)\($option\b" "$source"/cmake/*.cmake || { echo "FAILED: weft has no option $option"; exit 1; }
done < <(grep -ohE 'WEFT_[A-Z]+' "$spack" "$port/portfile.cmake" | sort -u)
echo "ok: their options are weft's"
