#!/usr/bin/env bash
# Makes the site: all pages of docs/ with navigation, a search, and a light and a dark theme, and Doxygen's pages of the public headers. It works
# from the disk, too. A warning of Sphinx or Doxygen, a link that leads nowhere for instance, is an error.
#   usage: docs/site.sh [FOLDER]      (build/site); launchers/setup.sh docs installs what it needs
# Sphinx is that of ~/.cache/weft-docs; WEFT_DOCS_VENV names another place.
set -euo pipefail
cd "$(dirname "$0")/.."
site=$(realpath -m "${1:-build/site}")
sphinx=${WEFT_DOCS_VENV:-$HOME/.cache/weft-docs}/bin/sphinx-build
if [ ! -x "$sphinx" ] || ! command -v doxygen >/dev/null; then
  echo "site.sh: there is no $([ -x "$sphinx" ] && echo doxygen || echo "$sphinx"); launchers/setup.sh docs installs it" >&2
  exit 70
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$site"
mkdir -p "$site"
WEFT_REFERENCE_TAGS=$work/tags.xml WEFT_REFERENCE_BOOK=../docs/README.html docs/reference.sh "$site/reference" >"$work/doxygen.log" || {
  cat "$work/doxygen.log"
  exit 1
}
WEFT_SITE_TAGS=$work/tags.xml "$sphinx" -W --keep-going -q -E -d "$work/doctrees" -b html -c docs/site . "$site"
printf '<!doctype html><meta charset="utf-8"><title>weft</title><meta http-equiv="refresh" content="0; url=docs/README.html"><a href="docs/README.html">The book of weft</a>\n' \
  >"$site/index.html"
touch "$site/.nojekyll"  # GitHub Pages: folders that begin with _ are part of it
rm -f "$site/.buildinfo"
echo "$site/index.html: $(find "$site" -name '*.html' -not -path '*/reference/*' | wc -l) pages, and $(find "$site/reference" -name '*.html' | wc -l) of the reference"
