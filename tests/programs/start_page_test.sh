#!/usr/bin/env bash
# The first hour of a new user: the files of docs/start.md are copied and its commands are run, in a view of this machine in which the
# packages are really installed by apt; nothing of that reaches the machine itself. Status 77 where such a view cannot be made.
# usage: start_page_test.sh FOLDER_OF_PACKAGES SOURCE_FOLDER
# In the page, a line <!-- file: NAME --> before a block makes it a file, <!-- commands: debian --> makes it commands, and each line of
# a block after <!-- output: first --> has to appear in what they print.
set -u
packages=$1 source=$2
. "$(dirname "$0")/../support/checks.sh"
page=$source/docs/start.md

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "installing packages in a view of this machine needs root"
for program in apt-get unshare chroot; do command -v $program > /dev/null || skip "there is no $program here"; done
private=private  # in a chroot the root is no mount, and what is mounted stays inside anyway
unshare --mount --propagation private true 2> /dev/null || private=unchanged

# block MARK: the lines of the block that follows the line <!-- MARK -->
block() { awk -v mark="<!-- $1 -->" '$0 == mark {armed = 1; next} armed && /^```/ {if (inside) exit; inside = 1; next} inside' "$page"; }
mkdir -p "$work/job"
while read -r name; do
  block "file: $name" > "$work/job/$name"
done < <(sed -nE 's/^<!-- file: (.*) -->$/\1/p' "$page")
block "commands: debian" > "$work/commands"
for file in "$work/job/main.cpp" "$work/job/CMakeLists.txt" "$work/commands"; do
  [ -s "$file" ] || { echo "FAILED: docs/start.md has no $(basename "$file")"; exit 1; }
done
cp "$packages"/*.deb "$work/job"

cat > "$work/view.sh" <<'EOS'
set -e
mount -t tmpfs none "$VIEW" || exit 77
mkdir "$VIEW"/{upper,work,root}
mount -t overlay overlay -o lowerdir=/,upperdir="$VIEW/upper",workdir="$VIEW/work" "$VIEW/root" || exit 77
for folder in proc dev sys; do mount --rbind /$folder "$VIEW/root/$folder"; done
cp -r "$JOB" "$VIEW/root/root/job"
cp "$COMMANDS" "$VIEW/root/root/commands"
# What a page writes for a person: sudo, and questions that are answered with yes.
printf '#!/bin/sh\nexec "$@"\n' > "$VIEW/root/usr/local/bin/sudo"
chmod +x "$VIEW/root/usr/local/bin/sudo"
echo 'APT::Get::Assume-Yes "true"; APT::Sandbox::User "root";' > "$VIEW/root/etc/apt/apt.conf.d/99job"
echo "in the view"
exec chroot "$VIEW/root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  WEFT_FLIGHT_DIR=off bash -c 'cd /root/job && exec bash -ex ../commands'
EOS
mkdir "$work/view"
VIEW=$work/view JOB=$work/job COMMANDS=$work/commands timeout -k 5 300 unshare --mount --propagation $private bash "$work/view.sh" \
  > "$work/out" 2> "$work/err" < /dev/null
status=$?
if [ $status -eq 77 ] && ! grep -q "^in the view$" "$work/out"; then skip "an overlay cannot be mounted here: $(tail -n 1 "$work/err")"; fi
[ $status -eq 0 ] || fail "the commands of docs/start.md ended with $status"
while read -r line; do
  grep -qxF -- "$line" "$work/out" || fail "no line '$line' was printed"
done < <(block "output: first")
if [ -e /usr/bin/weft-launch ] && ! dpkg-query -W weft-tools > /dev/null 2>&1; then fail "a program was left on this machine"; fi
[ "$failures" -gt 0 ] || sed 's/^/  | /' <(tail -n 3 "$work/out")
finish
