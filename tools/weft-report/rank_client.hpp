#pragma once
// Asks the ranks of a job of weft for the figures that they serve for Prometheus: all at once, and none holds up another.
//
//   const std::vector<RankAddress> ranks = parse_rank_addresses("node7:9400-9403");
//   for (const RankLook& look : ask_ranks(ranks, 5)) ...

#include <string>
#include <string_view>
#include <vector>

#include "weft-report/watch/ranks.hpp"

namespace weft::report {

struct RankAddress {
  std::string host = "localhost";
  int port = 0;

  std::string text() const;
};

/// Takes PORT, FIRST-LAST, HOST:PORT and HOST:FIRST-LAST; an IPv6 address stands in brackets. @throws Error (usage)
std::vector<RankAddress> parse_rank_addresses(std::string_view words);

/// @param seconds for all of it @returns one for each address, in their order
std::vector<RankLook> ask_ranks(const std::vector<RankAddress>& ranks, double seconds);

}  // namespace weft::report
