#!/usr/bin/env bash
# Makes the API reference with Doxygen: HTML pages of all public headers. A warning of Doxygen is an error.
#   usage: docs/reference.sh [FOLDER]      (build/reference); launchers/setup.sh docs installs Doxygen
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/reference}
if ! command -v doxygen >/dev/null; then
  echo "reference.sh: there is no doxygen; launchers/setup.sh docs installs it" >&2
  exit 70
fi
mkdir -p "$folder"
warnings=$folder/warnings.txt
{
  cat docs/Doxyfile
  echo "OUTPUT_DIRECTORY = $folder"
  echo "WARN_LOGFILE = $warnings"
  echo "PROJECT_NUMBER = $(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
} | doxygen -
if [ -s "$warnings" ]; then
  cat "$warnings" >&2
  echo "reference.sh: $(wc -l <"$warnings") lines of warnings" >&2
  exit 1
fi
echo "$folder/index.html: $(find "$folder" -name '*.html' | wc -l) pages"
