#include "weft-report/nccl/calls.hpp"

#include <algorithm>
#include <charconv>

#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::size_t longest_name = 15;
constexpr std::size_t most_positions = std::size_t{1} << 16;
constexpr std::size_t most_references = std::size_t{1} << 14;
constexpr std::size_t most_lines = 16;  // lines of a communicator
constexpr std::size_t most_sides = 4;
constexpr std::string_view count_word = ": opCount ";

bool skip(std::string_view& rest, std::string_view word) {
  if (!rest.starts_with(word)) return false;
  rest.remove_prefix(word.size());
  return true;
}
/// A number and what follows it, as the format has them.
template <class T>
bool take_number(std::string_view& rest, T& value, std::string_view behind, int base = 10) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return skip(rest, behind);
}
std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

/// The communicator as all its ranks know it, or else as the process counts it.
std::string name_of(const RankCalls& calls) {
  return calls.comm.empty() ? text("? ", calls.ranks, ' ', calls.order) : calls.comm;
}

}  // namespace

bool begins_call(std::string_view message) {
  const auto colon = message.find(':');
  return colon <= longest_name && message.substr(colon).starts_with(count_word);
}

bool parse_call(std::string_view message, CallLine& into) {
  const std::string_view name = message.substr(0, message.find(':'));
  std::string_view rest = message.substr(std::min(message.size(), name.size()));
  if (name.empty() || name.size() > longest_name || !skip(rest, count_word)) return false;
  into.call = {};
  std::ranges::copy(name, into.call.name.begin());
  into.message = name == "Send" || name == "Recv";
  if (!take_number(rest, into.op_count, " ", 16)) return false;
  const auto count = rest.find(" count ");
  if (!rest.starts_with("sendbuff ") || count == std::string_view::npos) return false;
  into.buffers = rest.substr(0, count);
  rest.remove_prefix(count + 7);
  if (!take_number(rest, into.call.count, " datatype ") || !take_number(rest, into.call.datatype, " op ") ||
      !take_number(rest, into.call.op, " root ") || !take_number(rest, into.call.root, " comm "))
    return false;
  into.comm = take_word(rest);
  return skip(rest, "[nranks=") && take_number(rest, into.ranks, "] stream ") && !rest.empty();
}

void CallComparison::take(const CallLine& line, const Said& said, std::size_t process, Job& job) {
  if (line.message) return;
  const std::size_t at = position_of(line, process, job);
  if (at == none) return;
  Position& position = positions_[at];
  RankCalls& calls = job.calls[at];
  const bool same_group = position.uses > 0 && line.op_count == calls.last;
  // A line that stands there twice is one call.
  if (same_group && line.call == calls.call && line.buffers == position.buffers) return;
  position.place = same_group ? position.place + 1 : 0;
  position.buffers.assign(line.buffers);
  ++position.uses;
  if (line.op_count >= calls.last) {
    calls.last = line.op_count;
    calls.call = line.call;
    said.copy_to(calls.evidence);
  }
  if (position.reference != none)
    compare(references_[position.reference], line, position.place, said, calls, job);
}

std::size_t CallComparison::position_of(const CallLine& line, std::size_t process, Job& job) {
  if (process >= of_process_.size()) of_process_.resize(process + 1);
  std::vector<std::size_t>& own = of_process_[process];
  const auto known = std::ranges::find(
      own, line.comm, [&](std::size_t at) { return std::string_view(job.calls[at].address); });
  if (known != own.end()) {
    std::rotate(own.begin(), known, known + 1);
  } else if (positions_.size() < most_positions) {
    const auto as_wide = [&](std::size_t at) { return job.calls[at].ranks == line.ranks; };
    job.calls.push_back({.process = process,
                         .address = std::string(line.comm),
                         .ranks = line.ranks,
                         .order = static_cast<std::size_t>(std::ranges::count_if(own, as_wide))});
    own.insert(own.begin(), positions_.size());
    positions_.emplace_back();
  } else {
    return none;
  }
  const Process& owner = job.processes[process];
  if (Position& position = positions_[own.front()];
      position.uses == 0 || position.inits != owner.comm_changes)
    identify(position, job.calls[own.front()], owner);
  return own.front();
}

void CallComparison::identify(Position& position, RankCalls& calls, const Process& owner) {
  position.inits = owner.comm_changes;
  const auto use = std::ranges::find(owner.comms, calls.address, &CommUse::address);
  const bool other = use != owner.comms.end() && use->id != calls.comm;
  if (other) {  // the address belongs to another communicator now
    calls.comm = use->id;
    calls.last = 0;
    position.uses = 0;
  }
  if (other || position.reference == none) position.reference = reference_of(calls);
}

std::size_t CallComparison::reference_of(const RankCalls& calls) {
  const auto [at, fresh] = by_name_.try_emplace(name_of(calls), references_.size());
  if (!fresh) return at->second;
  if (references_.size() >= most_references) {
    by_name_.erase(at);
    return none;
  }
  references_.emplace_back();
  return references_.size() - 1;
}

/// The slot of a call, free or of this call; null where a newer call has taken it.
CallComparison::Slot* CallComparison::slot_for(Reference& reference, std::uint64_t op_count,
                                               std::uint32_t place) {
  constexpr std::size_t first_slots = 64;
  constexpr std::uint64_t stride = 7919;  // calls of one group lie apart
  if (reference.slots.empty()) {
    if (slots_in_all_ + first_slots > most_calls_in_all) return nullptr;
    reference.slots.resize(first_slots);
    slots_in_all_ += first_slots;
  }
  const auto index = [&](std::uint64_t count, std::uint32_t in_group) {
    return static_cast<std::size_t>((count + in_group * stride) & (reference.slots.size() - 1));
  };
  for (;;) {
    Slot& slot = reference.slots[index(op_count, place)];
    if (slot.ranks == 0 || (slot.op_count == op_count && slot.place == place)) return &slot;
    const std::size_t size = reference.slots.size();
    if (size >= most_calls || slots_in_all_ + size > most_calls_in_all) {
      if (slot.op_count >= op_count) return nullptr;
      slot.ranks = 0;
      return &slot;
    }
    std::vector<Slot> fewer(2 * size);
    fewer.swap(reference.slots);
    slots_in_all_ += size;
    for (const Slot& one : fewer) {
      if (one.ranks > 0) reference.slots[index(one.op_count, one.place)] = one;
    }
  }
}

void CallComparison::compare(Reference& reference, const CallLine& line, std::uint32_t place,
                             const Said& said, const RankCalls& calls, Job& job) {
  Slot* const slot = slot_for(reference, line.op_count, place);
  if (slot == nullptr) return;
  if (slot->ranks == 0) {
    *slot = {.op_count = line.op_count, .place = place, .ranks = 1, .call = line.call};
    if (reference.newest.size() < most_lines) reference.newest.emplace_back();
    Kept& kept = reference.newest[reference.next++ % most_lines];
    kept.op_count = line.op_count;
    kept.place = place;
    kept.process = calls.process;
    said.copy_to(kept.evidence);
    return;
  }
  const bool same = slot->call == line.call;
  if (same) ++slot->ranks;
  if (!same || reference.difference != none) differ(reference, *slot, line, said, calls, job);
}

void CallComparison::differ(Reference& reference, const Slot& slot, const CallLine& line, const Said& said,
                            const RankCalls& calls, Job& job) {
  const bool same = slot.call == line.call;
  const bool fresh = reference.difference == none;
  if (!fresh) {
    const CallDifference& known = job.call_differences[reference.difference];
    const auto now = std::pair(line.op_count, slot.place);
    const auto before = std::pair(known.op_count, reference.place_of_difference);
    if (now > before || (same && now < before)) return;
    if (now == before) return add_side(job.call_differences[reference.difference], line, said, calls);
  }
  CallDifference found{
      .comm = calls.comm, .ranks = calls.ranks, .order = calls.order, .op_count = line.op_count};
  const auto kept = std::ranges::find_if(reference.newest, [&](const Kept& one) {
    return one.op_count == slot.op_count && one.place == slot.place;
  });
  const bool has_line = kept != reference.newest.end();
  found.sides.push_back({.call = slot.call,
                         .ranks = static_cast<int>(slot.ranks),
                         .process = has_line ? kept->process : calls.process,
                         .evidence = has_line ? kept->evidence : Evidence{}});
  add_side(found, line, said, calls);
  reference.place_of_difference = slot.place;
  if (fresh) {
    reference.difference = job.call_differences.size();
    job.call_differences.push_back(std::move(found));
  } else {
    job.call_differences[reference.difference] = std::move(found);
  }
}

void CallComparison::add_side(CallDifference& difference, const CallLine& line, const Said& said,
                              const RankCalls& calls) {
  const auto known = std::ranges::find(difference.sides, line.call, &CallDifference::Side::call);
  if (known != difference.sides.end()) {
    ++known->ranks;
  } else if (difference.sides.size() < most_sides) {
    difference.sides.push_back(
        {.call = line.call, .ranks = 1, .process = calls.process, .evidence = said.evidence()});
  }
}

}  // namespace weft::report::nccl
