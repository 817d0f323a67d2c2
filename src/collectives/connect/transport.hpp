#pragma once
// What carries data between nodes: WEFT_TRANSPORT, and what this build has.

#include <memory>
#include <string>

#include "collectives/network/engine/wire.hpp"
#include "weft/collectives/world.hpp"

namespace weft::detail {

/// @throws Error (usage) where WEFT_TRANSPORT is none of its words
void expect_transport(const Environment& environment);

/// Collective over the world's ranks. @param where on which nodes they are, for messages
/// @throws Error (usage) where WEFT_TRANSPORT asks for what is not there
std::shared_ptr<GroupWire> make_wire(const World& world, const std::string& where);

}  // namespace weft::detail
