#pragma once
// What carries data between nodes: WEFT_TRANSPORT, and what this build has.

#include <memory>
#include <string>

#include "collectives/wire/wire.hpp"
#include "weft/collectives/world.hpp"

namespace weft::detail {

/// Collective over the world's ranks. @param where on which nodes they are, for messages
/// @throws Error (usage) where WEFT_TRANSPORT makes no sense, or asks for what is not there
std::shared_ptr<Wire> make_wire(const World& world, const std::string& where);

}  // namespace weft::detail
