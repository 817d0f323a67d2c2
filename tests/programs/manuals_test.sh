#!/usr/bin/env bash
# --version of every program, and that manuals and completions say what --help says: each option of it, and no other.
# usage: manuals_test.sh FOLDER_OF_MANUALS FOLDER_OF_PROGRAMS VERSION GPT
set -u
manuals=$1 programs=$2 version=$3 gpt=$4
. "$(dirname "$0")/../support/checks.sh"
: > "$work/out"
: > "$work/err"

# named COMMAND...: its options, as --help names them
named() { "$@" --help | grep -oE '^  (-[a-z] \[ --[a-z0-9-]+ \]|--[a-z0-9-]+|-[a-z]( |$))' | grep -oE -- '--?[a-z][a-z0-9-]*' | sort -u; }
# completed PROGRAM WORDS...: what bash offers for the last word
completed() {
  local program=$1
  shift
  (
    # shellcheck source=/dev/null  # made by the build
    . "$manuals/bash/$program"
    COMP_WORDS=("$program" "$@") COMP_CWORD=$#
    "_${program//-/_}"
    printf '%s\n' "${COMPREPLY[@]}"
  )
}
# alike WHAT EXPECTED GOT
alike() { if [ "$2" = "$3" ]; then echo "ok: $1"; else fail "$1: $(diff <(echo "$2") <(echo "$3") | grep '^[<>]' | tr '\n' ' ')"; fi; }

pages=0
for path in "$programs"/weft-{launch,scaling,bench,plan,report}; do
  program=$(basename "$path")
  check "$program --version" 0 "^$program $version$" "$path" --version
  lines "what it was built with" 1 "^with(out)? [A-Za-z_]+(, [A-Za-z_]+)*( and without .*)?$"
  full_output "$program --version" "$path" --version
  for page in "$manuals/man1/$program".1 "$manuals/man1/$program"-*.1; do
    [ -e "$page" ] || continue
    pages=$((pages + 1))
    command=$(basename "$page" .1)
    command=${command#"$program"}
    command=${command#-}
    words=("$program")
    [ -z "$command" ] || words+=("$command")
    wanted=$(named "$path" "${words[@]:1}")
    [ -n "$wanted" ] || fail "$program $command --help names no option"
    alike "bash, $program $command" "$wanted" "$(completed "${words[@]}" - | sort -u)"
    alike "$(basename "$page")" "$wanted" "$(sed -n '/^\.SH OPTIONS/,/^\.SH "*[A-NP-Z]/p' "$page" | sed 's/\\f[BR]//g; s/\\-/-/g' | grep -A1 '^\.TP' |
      grep -oE '^(-[a-z], )?--?[a-z][a-z0-9-]*' | grep -oE -- '--?[a-z][a-z0-9-]*' | sort -u)"
    check "$program $command --version" 0 "^$program $version$" "$path" "${words[@]:1}" --version
  done
  for shell in zsh/_$program fish/$program.fish; do
    missing=$(for option in $(named "$path"); do grep -qE -- "['(]$option\[|-[sl] ${option##*-}|-l ${option#--}( |$)" "$manuals/$shell" || echo "$option"; done)
    [ -z "$missing" ] || fail "$shell lacks $missing"
  done
  bash -n "$manuals/bash/$program" || fail "bash does not read the completion of $program"
  if command -v zsh > /dev/null; then zsh -n "$manuals/zsh/_$program" || fail "zsh does not read _$program"; fi
  if command -v fish > /dev/null; then fish -n "$manuals/fish/$program.fish" || fail "fish does not read $program.fish"; fi
done
command -v zsh > /dev/null || echo "skipped: there is no zsh here to read its completions"
command -v fish > /dev/null || echo "skipped: there is no fish here to read its completions"
[ $pages -ge 9 ] || fail "$pages manuals, fewer than 9"
check "gpt --version" 0 "^gpt $version$" "$gpt" --version
# A program's own --version is not weft-launch's.
check "the program's --version" 0 "^gpt $version$" "$programs/weft-launch" -n 1 "$gpt" --version

alike "the commands of weft-plan" "buckets checkpoint memory scale schedule" "$(completed weft-plan "" | paste -sd' ')"
alike "a collective" "all_reduce" "$(completed weft-bench all_re)"
alike "an option's beginning" "--timeout" "$(completed weft-launch --ti)"
alike "an option of a command" "--vocabulary" "$(completed weft-plan memory --voc)"
touch "$work/figures.json"
alike "a file after an option" "$work/figures.json" "$(completed weft-scaling --compare "$work/fig")"
alike "no file after a number" "" "$(cd "$work" && completed weft-scaling --steps "")"
finish
