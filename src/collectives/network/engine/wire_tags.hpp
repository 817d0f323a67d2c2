#pragma once
// Who uses which tags of a wire; those of a rendezvous are MPI's, where it meets on the same communicator.
//
// The tag of a collective is made of all that ranks must agree on. So operations that differ never take each
// other's data: both sides wait, say on the side channel what they wait in, and hear that they disagree.

#include <cstdint>

#include "collectives/backend/backend.hpp"
#include "collectives/network/plan/exchange.hpp"
#include "core/base/fnv.hpp"

namespace weft::detail::wire_tags {

inline constexpr int side_channel = 0;
inline constexpr int arrival = 1;  ///< of a rendezvous
inline constexpr int verdict = 2;
inline constexpr int transfers = 3;  ///< of messages with tag 0; those with other tags follow
inline constexpr std::uint32_t largest_of_a_message = 4095;
inline constexpr int first_collective = transfers + static_cast<int>(largest_of_a_message) + 1;

/// The tag of the first stage; those of the others follow. @param most the largest tag that the wire allows
inline int of(const Operation& operation, int most) {
  Fnv words;
  words.add(static_cast<std::int64_t>(operation.number)).add(static_cast<std::int64_t>(operation.kind));
  words.add(operation.count).add(static_cast<std::int64_t>(operation.dtype));
  words.add(static_cast<std::int64_t>(operation.op)).add(static_cast<std::int64_t>(operation.root));
  const std::uint64_t hash = words.value() ^ words.value() >> 32;  // low bits of a product know low bits only
  const int operations = (most - first_collective) / exchange_stages;
  return first_collective + static_cast<int>(hash % static_cast<std::uint64_t>(operations)) * exchange_stages;
}

}  // namespace weft::detail::wire_tags
