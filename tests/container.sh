#!/usr/bin/env bash
# The steps of launchers/kubernetes/Containerfile, on a bare Debian 12 in the place of an image: stage by stage, with all packages of a stage
# removed before the next, so that it has what it installs and copies itself. Then weft's programs run as the image's user. For a machine that
# may be changed, as a container or a debootstrap tree; asks for YES=1 elsewhere.
#   YES=1 tests/container.sh
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${YES:-}" != 1 ] || [ "$(id -u)" -ne 0 ]; then
  echo "container.sh: installs and removes packages of this machine: run it as root in a container, with YES=1" >&2
  exit 42
fi
context=$PWD
begin=$SECONDS
kept=$(mktemp -d)  # of a stage, what a later one copies
installed() { dpkg-query -W -f '${Package}\n' | sort; }
before=$(mktemp)
log=$(mktemp)
folder=/
stage=
stages=0

# A machine where builds are repeated keeps what was compiled. Not part of the image.
if [ -d /root/.cache/ccache ]; then
  apt-get -q update > "$log" 2>&1 && apt-get -q -y install --no-install-recommends ccache >> "$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
fi

# End of a stage: keeps what the others copy from it, removes its packages and files.
end_stage() {
  local from path
  [ $stages -eq 0 ] && return
  while read -r from path; do
    if [ "$from" = "$stage" ]; then mkdir -p "$kept/$stage$(dirname "$path")" && mv "$path" "$kept/$stage$path"; fi
  done < <(sed -nE 's/^COPY --from=([a-z]+) ([^ ]+) .*/\1 \2/p' "$context/launchers/kubernetes/Containerfile")
  mapfile -t new < <(comm -13 "$before" <(installed))
  DEBIAN_FRONTEND=noninteractive apt-get -q -y purge "${new[@]}" > "$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
  cd / && rm -rf "$folder" /build
}

step() {  # WORD REST
  case $1 in
    ARG | ENV)
      if [ "$1" = ENV ]; then export "${2?}"; fi ;;
    FROM)
      end_stage
      stages=$((stages + 1)) stage=${2##* AS }
      installed > "$before"
      echo "container.sh: stage $stages (${2})" ;;
    WORKDIR) folder=$2 && mkdir -p "$folder" && cd "$folder" ;;
    COPY)
      read -ra words <<< "$2"
      local to=${words[-1]} from=$context what
      unset 'words[-1]'
      if [[ ${words[0]} == --from=* ]]; then from=$kept/${words[0]#--from=} && words=("${words[@]:1}"); fi
      for what in "${words[@]}"; do
        if [ "$what" = . ]; then (cd "$from" && tar --exclude=./build -cf - .) | tar -xf - -C "$to"
        elif [[ $to == */ ]]; then mkdir -p "$to" && cp -a "$from/$what" "$to"
        else mkdir -p "$(dirname "$to")" && cp -a "$from/$what" "$to"; fi
      done ;;
    RUN) echo "RUN ${2:0:100}"; sh -ec "$2" > "$log" 2>&1 || { tail -n 30 "$log"; echo "container.sh: a step failed: $2" >&2; exit 1; } ;;
    *) echo "container.sh: does not know $1" >&2; exit 1 ;;
  esac
}

line=
while IFS= read -r next; do
  [[ -z $line && ($next == \#* || -z $next) ]] && continue
  if [[ $next == *\\ ]]; then line+=${next%\\}; continue; fi
  line+=$next
  step "${line%% *}" "${line#* }"
  line=
done < launchers/kubernetes/Containerfile
[ $stages -eq 2 ] || { echo "container.sh: $stages stages" >&2; exit 1; }

# What the manifests start, as the image's user.
as_user() { su -s /bin/sh mpiuser -c "cd /tmp && PATH=$PATH $*"; }
try() { echo "try: $*"; as_user "$*" > "$log" 2>&1 || { tail -n 20 "$log"; echo "container.sh: status $?: $*" >&2; exit 1; }; }
try weft-launch -n 2 weft-scaling --model gpt-tiny --steps 5 --strategies nocomm,ddp --text /usr/share/common-licenses/GPL-3
try mpirun --oversubscribe -n 2 weft-bench all_reduce -b 8 -e 1K
try weft-launch -n 2 gpt --model gpt-tiny --steps 5 --text /usr/share/common-licenses/GPL-3 --checkpoint /tmp/checkpoints
cp -r "$context/launchers/kubernetes" /tmp/manifests && chmod -R a+rX /tmp/manifests
for base in mpijob/mpijob.yaml jobset/jobset.yaml trainer/runtime.yaml; do try weft-launch lint /tmp/manifests/base/$base; done
try /usr/sbin/sshd -t -f /home/mpiuser/.sshd_config
try test -x /opt/weft/kubernetes/notice.sh
ldd /opt/weft/bin/* 2> /dev/null | grep "not found" && { echo "container.sh: a library is missing" >&2; exit 1; }
echo "container.sh: done in $((SECONDS - begin)) s; /opt/weft has $(du -sm /opt/weft | cut -f1) MB"
