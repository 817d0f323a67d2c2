#pragma once
// Texts of any length between ranks: descriptions, summaries, reasons. Collective; blocks. For what is rare: each call takes two operations.

#include <string>
#include <vector>

#include "weft/collectives/communicator.hpp"

namespace weft::detail {

/// All ranks' texts on every rank, by rank. All have the room of the longest.
std::vector<std::string> exchange_texts(Communicator comm, const std::string& mine);
/// All ranks' texts at rank 0, by rank; elsewhere nothing.
std::vector<std::string> gather_texts(Communicator comm, const std::string& mine);
/// The text of rank `root`, on every rank.
std::string broadcast_text(Communicator comm, const std::string& mine, int root);

}  // namespace weft::detail
