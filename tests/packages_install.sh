#!/usr/bin/env bash
# A bare Debian 12 gets weft's packages: they are made, everything that making them needed is removed again, and then docs/start.md is
# worked through with the real apt. For a machine that may be changed, as a container or a debootstrap tree; asks for YES=1 elsewhere.
#   YES=1 tests/packages_install.sh
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${YES:-}" != 1 ] || [ "$(id -u)" -ne 0 ]; then
  echo "packages_install.sh: installs and removes packages of this machine: run it as root in a container, with YES=1" >&2
  exit 42
fi

begin=$SECONDS
installed() { dpkg-query -W -f '${Package}\n' | sort; }
before=$(mktemp)
installed > "$before"
launchers/packages/debian.sh
packages=$PWD/build/packages/deb
mapfile -t new < <(comm -13 "$before" <(installed))
DEBIAN_FRONTEND=noninteractive apt-get -q -y purge "${new[@]}" > build/purge.log 2>&1 || { tail -n 20 build/purge.log; exit 1; }
if ! diff "$before" <(installed); then
  echo "packages_install.sh: the machine is not bare again" >&2
  exit 1
fi
echo "packages_install.sh: ${#new[@]} packages that making them needed are removed"
bash tests/programs/start_page_test.sh "$packages" "$PWD"
echo "packages_install.sh: done in $((SECONDS - begin)) s"
