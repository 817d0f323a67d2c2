// The communicators that are made from another: split and shrink.

#include <algorithm>
#include <atomic>
#include <vector>

#include "collectives/nccl/nccl_communicator.hpp"

namespace weft::detail::nccl {

// NCCL also stores a child whose making has failed (init.cc:1612), for its caller to abort.
std::unique_ptr<Communicator> Communicator::child(const char* operation, MakePart make, int rank, int size,
                                                  const Meanwhile& meanwhile) {
  struct Part {
    Comm* comm = nullptr;
    std::atomic<bool> returned = false;
  };
  const auto part = std::make_shared<Part>();
  const bool was_broken = broken();
  const Calling calling(*this, was_broken);
  try {
    const Deadline deadline = Deadline::in(options_.timeout);
    Result result = wait_apart(
        operation,
        [part, make = std::move(make), comm = calling.comm(), wanted = config()]() mutable {
          const Result answer = make(comm, &part->comm, &wanted);
          part->returned = true;
          return answer;
        },
        deadline, meanwhile);
    result = poll(result, operation, deadline, meanwhile);
    if (!was_broken) conclude(result, operation);
    if (result != success) throw error_of(result, operation);
    if (part->comm == nullptr) return nullptr;
    std::unique_ptr<Communicator> made(new Communicator(api_, part->comm, rank, size, options_));
    part->comm = nullptr;
    made->conclude(made->poll(success, operation, deadline), operation);
    return made;
  } catch (...) {
    if (part->returned && part->comm != nullptr) end_now(aborting, part->comm);
    throw;
  }
}

std::unique_ptr<Communicator> Communicator::split(int color, int key, int new_rank, int new_size,
                                                  const Meanwhile& meanwhile) {
  if (const auto why = reason()) throw Error(*why);
  return child(
      "split",
      [api = api_, color, key](Comm* comm, Comm** part, Config* config) {
        return api->CommSplit(comm, color, key, part, config);
      },
      new_rank, new_size, meanwhile);
}

std::unique_ptr<Communicator> Communicator::shrink(std::span<const int> lost) {
  const bool is_broken = broken();
  const int needed = is_broken ? version_code(2, 28, 7) : version_code(2, 27);
  if (api_->version < needed) {
    throw Error(ErrorKind::usage,
                text("NCCL ", version_text(api_->version), " cannot leave ranks out of ",
                     is_broken ? "a broken group" : "a group"),
                text("that came with ", version_text(needed), "; connect the ranks that are left anew"),
                {rank_, "shrink", 0});
  }
  // What ended it may still be under way, and NCCL refuses a communicator that is in progress (init.cc:379).
  if (is_broken) poll(success, "shrink", Deadline::in(options_.timeout));
  const auto before = std::ranges::count_if(lost, [&](int other) { return other < rank_; });
  return child(
      "shrink",
      [api = api_, excluded = std::vector<int>(lost.begin(), lost.end()),
       flags = is_broken ? shrink_abort : 0](Comm* comm, Comm** rest, Config* config) mutable {
        return api->CommShrink(comm, excluded.data(), static_cast<int>(excluded.size()), rest, config, flags);
      },
      rank_ - static_cast<int>(before), size_ - static_cast<int>(lost.size()));
}

}  // namespace weft::detail::nccl
