#!/usr/bin/env bash
# The field's words, one meaning each: identifiers that were replaced stay away, and so do phrases that readers stumbled over, in code,
# comments, docs and messages. docs/glossary.md has the words that are weft's own.
#   usage: tests/words.sh [FOLDER OF THE PROJECT]; prints each place and exits 1
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# old identifier -> the field's word
identifiers='SharedGround|HostGround|ThreadsGround|shared_ground => ShmSegment
Engagement|engagement|carry_on|carries_on => PendingOp, progress
(struct|class|alignas\(128\)) Line|Card => RankBlock, OpSlot
Bell => Doorbell
Latch|class Turn|unique_lock<Turn> => SpinLock
Bulletin|SharedBulletin|shared_bulletin => PeerStatus
Board|MpiBoard|mpi_board => SideChannel
Patience|patience_? => PollDeadline
Lot|PowerSgdLots|power_sgd_lots => BucketWork
StepVerdict|step_verdict => NonFiniteGuard
Whereabouts|whereabouts => ProgressTable
Passage => MicrobatchSlots
RestOfRanks|rest_of_ranks => UnevenInputs
FixedParts|fixed_parts => DeterministicTree
GradientWindows|WindowedGradients|window_bytes|gradient_windows|windowed => BucketRing, bucket_ring_bytes
held_groups|group_of|largest_group|GroupSlots|group_slots => unit (of ZeRO), GatherBuffers
parameter_slots => gather_buffers
BlockCodes|block_codes => BlockCoding'
# phrases in the product, as regular expressions; tests may say nobody
phrases='^ *//+ *Of [a-z]
\b[Ww]hoever\b
\b[Ss]omebody\b
\b[Nn]obody\b
\b[Ww]hat is not over\b
\b[Ww]hereabouts\b
\bcomes back, as\b
\bdrives out nothing\b
\bpost a card\b|\bcards say\b|\bcards agree\b
\bMeetings?\b|\bmeeting point\b|\bat the meeting\b
\blongest first start\b
\b[Oo]f gradients in codes\b|\bbucket.s code\b|\bexchanged as codes\b
\bwithout a code\b|\b[Hh]ooks with codes\b|\buncoded\b|\b[Cc]odes (by blocks|on devices)\b
\bposted ahead take\b|\bare posted ahead\b
\bcannot know of\b
\bwent as those\b|\bwill go as those\b
\b[Cc]ards also\b
\bcome back, as\b|\bcomes back\*
\b[Ii]n windows\b|\bgradient windows\b|\bwindows and slots\b
\bFSDP units?\)? .*\bgroups?\b is\b|\bgroups of parameters\b|\bgathers? (a|the) group\b
\bslots? \(all-gather\b|\bgathered into slots\b'

folders=()
for folder in src include tests tools bench examples docs launchers README.md CONTRIBUTING.md; do
  if [ -e "$folder" ]; then folders+=("$folder"); fi
done
places() { grep -rnE --include='*.cpp' --include='*.hpp' --include='*.cu' --include='*.cuh' --include='*.md' --include='*.sh' --include='CMakeLists.txt' \
  --exclude-dir=build "$1" "${folders[@]}" | grep -vE '^(tests/words(_test)?\.sh|docs/glossary\.md):' || true; }

bad=0
while read -r row; do
  old=${row% => *}
  new=${row#* => }
  found=$(places "\\b($old)\\b")
  if [ -n "$found" ]; then echo "$found" | sed "s/^/say $new: /"; bad=1; fi
done <<<"$identifiers"
while read -r phrase; do
  found=$(places "$phrase" | grep -vE '^tests/.*([Ss]ome|[Nn]o)body' || true)
  if [ -n "$found" ]; then echo "$found" | sed 's/^/in plain words: /'; bad=1; fi
done <<<"$phrases"
if [ $bad -gt 0 ]; then exit 1; fi
echo "no word of the old ones is left"
