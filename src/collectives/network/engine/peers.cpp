#include "collectives/network/engine/peers.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <utility>

#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::uint32_t goodbye = UINT32_MAX;  // a group that no rank has
constexpr std::chrono::seconds to_leave{2};
constexpr std::chrono::seconds to_be_gone{5};  // to_leave, as long again to close connections, and some
constexpr std::chrono::milliseconds to_say_why{50};
constexpr std::uint32_t most_groups = 1U << (64 - tag_bits - rank_bits);

}  // namespace

void Peers::begin_group(RankGroup& group, const std::shared_ptr<Rendezvous>& rendezvous, Deadline deadline) {
  if (size() > 1 << rank_bits) {
    throw Error(ErrorKind::usage,
                text(size(), " ranks are more than weft's tags over ", name(), " tell apart"),
                text("at most ", 1 << rank_bits, " ranks meet over it"));
  }
  for (const std::string& note :
       rendezvous->all_gather(std::to_string(next_group_), "numbers of groups", deadline))
    group.number =
        std::max(group.number, static_cast<std::uint32_t>(std::strtoul(note.c_str(), nullptr, 10)));
  next_group_ = group.number + 1;
  if (group.number >= most_groups) {
    throw Error(ErrorKind::usage, text("more than ", most_groups, " communicators were made over ", name()),
                "keep those that are needed again");
  }
}

std::unique_ptr<Task> Peers::own_collective(const RankGroup& /*group*/, const Operation& operation,
                                            std::chrono::nanoseconds /*timeout*/) {
  throw Error(
      ErrorKind::usage,
      text(weft::name(operation.kind), " is to be carried out by MPI, but ", name(), " carries the data"),
      "choose an algorithm of weft's for it, or WEFT_TRANSPORT=mpi under mpirun");
}

void Peers::lose(int rank, const std::string& why) {
  std::string& lost = lost_[static_cast<std::size_t>(rank)];
  if (!lost.empty()) return;
  lost = why;
  ++losses_;
}

std::string Peers::find_again(int rank) {
  std::string& lost = lost_[static_cast<std::size_t>(rank)];
  if (!lost.empty()) --losses_;
  return std::exchange(lost, {});
}

void Peers::await(MessageSlot& slot) {
  ++slot.steps;
  unacknowledged_.emplace(slot.tag, &slot);
}

void Peers::acknowledged(std::uint64_t tag) {
  const auto found = unacknowledged_.find(tag);
  if (found == unacknowledged_.end()) return;  // of a stranger
  MessageSlot& slot = *found->second;
  unacknowledged_.erase(found);
  Messages::step(slot);
}

void Peers::keep_note(std::uint32_t group, SideChannel::Message note) {
  if (group == goodbye) {
    has_left_[static_cast<std::size_t>(note.rank)] = true;
    leaving_.push_back({note.rank, std::chrono::steady_clock::now() + to_be_gone});
  } else {
    notes_[group].push_back(std::move(note));
  }
}

/// The end of a connection says that a rank is gone. UCX 1.13 does not always tell of that, and a rank that waits would wait to its deadline.
void Peers::lose_who_is_gone() {
  std::erase_if(leaving_, [this](const Leaving& one) {
    const bool is_gone = std::chrono::steady_clock::now() > one.gone;
    if (is_gone) lose(one.rank, "it has left");
    return is_gone;
  });
}

std::deque<SideChannel::Message> Peers::take_notes(const RankGroup& group) {
  progress(nullptr);
  if (!leaving_.empty()) lose_who_is_gone();
  const auto found = notes_.find(group.number);
  if (found == notes_.end()) return {};
  return std::exchange(found->second, {});
}

void Peers::rest_on(int fd, std::chrono::microseconds at_most) {
  pollfd waits{fd, POLLIN, 0};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  const timespec limit{seconds.count(), std::chrono::nanoseconds(at_most - seconds).count()};
  (void)ppoll(&waits, 1, &limit, nullptr);
}

void Peers::leave() noexcept {
  if (std::uncaught_exceptions() > 0) give_up();
  if (has_given_up()) {  // what it said why must leave before the connections do
    for (const Deadline deadline = Deadline::in(to_say_why); !deadline.passed();) progress(nullptr);
    return;
  }
  const auto body = std::make_shared<const std::string>();
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) send_note({.number = goodbye}, rank, body);
  }
  const auto is_awaited = [this](int rank) {
    return rank != rank_ && !has_left_[static_cast<std::size_t>(rank)] && lost(rank).empty();
  };
  const Deadline deadline = Deadline::in(to_leave);
  Backoff backoff;
  for (int rank = 0; rank < size() && !deadline.passed();) {
    if (!is_awaited(rank)) {
      ++rank;
    } else {
      progress(nullptr);
      backoff.pause();
    }
  }
}

}  // namespace weft::detail
