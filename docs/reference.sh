#!/usr/bin/env bash
# Makes the API reference with Doxygen: HTML pages of all public headers. A warning of Doxygen is an error.
#   usage: docs/reference.sh [FOLDER]      (build/reference); launchers/setup.sh docs installs Doxygen
# docs/site.sh sets WEFT_REFERENCE_TAGS, where to write which page is whose, and WEFT_REFERENCE_BOOK, where the book is from there.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/reference}
if ! command -v doxygen >/dev/null; then
  echo "reference.sh: there is no doxygen; launchers/setup.sh docs installs it" >&2
  exit 70
fi
mkdir -p "$folder"
warnings=$folder/warnings.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  cat docs/Doxyfile
  echo "OUTPUT_DIRECTORY = \"$folder\""
  echo "WARN_LOGFILE = \"$warnings\""
  # The version stands in a header, as CMakeLists.txt reads it.
  echo "PROJECT_NUMBER = $(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' include/weft/core/version.hpp 2>/dev/null | paste -sd.)"
  if [ -n "${WEFT_REFERENCE_TAGS:-}" ]; then echo "GENERATE_TAGFILE = \"$WEFT_REFERENCE_TAGS\""; fi
  if [ -n "${WEFT_REFERENCE_BOOK:-}" ]; then
    doxygen -l "$work/layout.xml" >/dev/null
    sed -i "s|<navindex>|&<tab type=\"user\" url=\"$WEFT_REFERENCE_BOOK\" title=\"The book of weft\"/>|" "$work/layout.xml"
    echo "LAYOUT_FILE = \"$work/layout.xml\""
  fi
} | doxygen -
if [ -s "$warnings" ]; then
  cat "$warnings" >&2
  echo "reference.sh: $(wc -l <"$warnings") lines of warnings" >&2
  exit 1
fi
rm -f "$warnings"
echo "$folder/index.html: $(find "$folder" -name '*.html' | wc -l) pages"
