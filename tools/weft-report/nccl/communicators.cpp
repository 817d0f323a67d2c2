#include "weft-report/nccl/communicators.hpp"

#include <algorithm>

#include "weft-report/nccl/kept.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

/// The widest communicator says who a process is; smaller ones are parts of it.
void take_identity(const Said& said, Process& process) {
  const std::string_view message = said.line.message;
  const std::int64_t ranks = number_in(word_after(message, "nranks "), 0);
  process.on_widest = ranks >= process.ranks;
  if (ranks < process.ranks) return;
  process.ranks = ranks;
  process.rank = number_in(word_after(message, " rank "), -1);
  process.cuda_device = number_in(word_after(message, "cudaDev "), -1);
  keep(process.bus, word_after(message, "busId "), said);
}
/// The commId; of a part of another communicator that one's with the number of the split and the part's colour. Empty: the line does not say.
std::string comm_id(std::string_view message, const Process& process) {
  const std::string_view id = word_after(message, "commId ");
  const std::string_view parent = word_after(message, " parent ");
  if (!id.empty() || parent.empty()) return std::string(id);
  const auto whole = std::ranges::find(process.comms, parent, &CommUse::address);
  if (whole == process.comms.end()) return {};
  std::string_view split = word_after(message, "splitCount ");
  if (split.empty()) split = word_after(message, "childCount ");
  return text(whole->id, '/', split, '/', word_after(message, " color "));
}

}  // namespace

bool take_shape(const Said& said, Process& process, Job&) {
  process.nodes = std::max(process.nodes, number_in(word_after(said.line.message, "nNodes "), 0));
  return true;
}
bool take_init_start(const Said& said, Process& process, Job& job) {
  const std::int64_t widest = process.ranks;
  take_identity(said, process);
  if (process.ranks > widest) process.links.clear();
  ++process.inits_started;
  ++process.comm_changes;
  const std::string id = comm_id(said.line.message, process);
  if (id.empty()) return true;
  if (process.ended_ids.contains(id) && job.reused_ids.size() < most_kept)
    job.reused_ids.push_back({id, said.evidence()});
  if (process.comms.size() < most_kept)
    process.comms.push_back(
        {id, std::string(word_after(said.line.message, "comm ")), false, said.evidence()});
  return true;
}
bool take_init_done(const Said& said, Process& process, Job&) {
  take_identity(said, process);
  // Versions that print no start: what follows may be of any communicator.
  if (process.inits_started == 0) process.on_widest = false;
  ++process.inits_done;
  ++process.comm_changes;
  const std::string id = comm_id(said.line.message, process);
  const std::string_view address = word_after(said.line.message, "comm ");
  const bool known =
      std::ranges::any_of(process.comms, [&](const CommUse& one) { return one.id == id && !one.ended; });
  if (!id.empty() && !known && process.comms.size() < most_kept)
    process.comms.push_back({id, std::string(address), false, said.evidence()});
  return true;
}
bool take_destroyed(const Said& said, Process& process, Job&) {
  ++process.comm_changes;
  const std::string_view address = word_after(said.line.message, "comm ");
  for (CommUse& one : process.comms) {
    if (one.address != address || one.ended) continue;
    one.ended = true;
    process.ended_ids.insert(one.id);
  }
  std::erase_if(process.comms, [](const CommUse& one) { return one.ended; });
  return true;
}

}  // namespace weft::report::nccl
