#pragma once
// Schedules written down in tests, word by word: rows({"0F0 0SEND_F0 0WAIT_SEND_F0", "1RECV_F0 ..."}). A word
// that ends in & overlaps the next.

#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/pipeline/schedule.hpp"

namespace weft::test {

inline pipeline::Action action(const std::string& word) {
  std::size_t at = 0;
  pipeline::Action result{.stage = std::stoi(word, &at)};
  std::string rest = word.substr(at);
  if (rest.ends_with('&')) {
    result.overlaps_next = true;
    rest.pop_back();
  }
  if (rest.starts_with("WAIT_")) {
    result.awaits = true;
    rest.erase(0, 5);
  }
  const std::size_t digits = rest.find_first_of("-0123456789");
  if (digits != std::string::npos) result.microbatch = std::stoi(rest.substr(digits));
  for (int type = 0; type < pipeline::action_types; ++type) {
    result.type = static_cast<pipeline::ActionType>(type);
    if (name(result.type) == rest.substr(0, digits)) return result;
  }
  throw std::invalid_argument(word);
}

inline std::vector<pipeline::Action> row(const std::string& words) {
  std::istringstream in(words);
  std::vector<pipeline::Action> result;
  for (std::string word; in >> word;) result.push_back(action(word));
  return result;
}

inline std::vector<std::vector<pipeline::Action>> rows(std::initializer_list<const char*> lines) {
  std::vector<std::vector<pipeline::Action>> result;
  for (const char* line : lines) result.push_back(row(line));
  return result;
}

}  // namespace weft::test
