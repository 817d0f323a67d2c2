#!/usr/bin/env bash
# Writes the list of places that tests take (tests/CMakeLists.txt), for ctest --resource-spec-file.
#   places.sh COMPUTING WAITING FILE
set -euo pipefail
echo "{\"version\": {\"major\": 1, \"minor\": 0}, \"local\": [{\"computing\": [{\"id\": \"all\", \"slots\": $1}], \"waiting\": [{\"id\": \"all\", \"slots\": $2}]}]}" >"$3"
