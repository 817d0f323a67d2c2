#pragma once
// What --explain and --tune do: say which algorithm would be taken, and find out which one should be.

#include <iosfwd>

#include "options.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::bench {

/// A line for every row that would be measured; on rank 0.
void explain(const Options& options, const Communicator& comm, std::ostream& out);

/// Measures every algorithm, each on a communicator of its own, and writes the table. Collective.
/// @returns elements that were wrong. @throws Error (usage) where nodes have several ranks: there, what goes
/// between them is another exchange, of nodes
std::int64_t tune(const Options& options, const World& world, Communicator& comm, std::ostream& out);

}  // namespace weft::bench
