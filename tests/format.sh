#!/usr/bin/env bash
# How sources are written, in seconds: clang-format, ruff, codespell, shellcheck, the links of pages (.pre-commit-config.yaml), on all files that git
# knows. What a tool can mend is mended, and reported all the same.
#   usage: tests/format.sh [HOOK]    one of them alone
# launchers/setup.sh lint installs what it needs; the first run fetches the tools.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=${WEFT_LINT_VENV:-$HOME/.cache/weft-lint}/bin:$PATH
command -v pre-commit >/dev/null || { echo "format: there is no pre-commit; launchers/setup.sh lint installs it" >&2; exit 42; }
# The checkout may belong to another user, as in a container.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD
exec pre-commit run --all-files --show-diff-on-failure "$@"
