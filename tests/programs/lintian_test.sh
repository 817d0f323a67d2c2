#!/usr/bin/env bash
# lintian finds no error in the packages, and no warning but those below. Status 77 where it is not installed.
# usage: lintian_test.sh FOLDER_OF_PACKAGES
set -eu
command -v lintian > /dev/null || { echo "skipped: there is no lintian here; launchers/setup.sh packages installs it"; exit 77; }
# These stay: a first version closes no bug of Debian's, and cpack writes scripts that call ldconfig.
stay=initial-upload-closes-no-bugs,maintscript-calls-ldconfig
LC_ALL=C lintian --allow-root --fail-on error,warning --suppress-tags $stay "$1"/*.deb
packages=("$1"/*.deb)
echo "lintian: no error in ${#packages[@]} packages, and no warning but $stay"
