#pragma once
// Collectives as phases of messages between pairs: what is sent where, and what is computed when a phase has
// arrived.
//
// A plan is a value; a wire (MPI) carries it out. Reductions are a pairwise reduce-scatter in which the owner
// of a slice sums in rank order (the bytes of a ring, but bitwise independent of size and slicing), then an
// all-gather. docs/algorithms.md counts steps and bytes.

#include <functional>
#include <vector>

#include "collectives/backend.hpp"

namespace weft::detail {

/// One message; exactly one of `out` (sent) and `in` (received into) is set, or neither when it is empty.
struct Message {
  int peer = 0;
  bool sends = false;
  const std::byte* out = nullptr;
  std::byte* in = nullptr;
  std::size_t bytes = 0;
};

struct Phase {
  std::vector<Message> messages;  ///< in flight together
  std::function<void()> then;     ///< once all of them are complete
};

struct ExchangePlan {
  std::vector<Phase> phases;
  std::vector<Buffer> scratch;
};

ExchangePlan plan_exchange(const Operation& operation, int rank, int size);
ExchangePlan plan_exchange(const std::vector<Transfer>& transfers);

}  // namespace weft::detail
