#pragma once
// How actions are written, in weft's text and in PyTorch's CSV alike: 2F0, 2WAIT_RECV_F0, 2UNSHARD, and
// (0F7;7B3)OVERLAP_F_B for what runs as one.

#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/pipeline/action.hpp"

namespace weft::pipeline::detail {

/// Where a text stops being an action, and what would have gone on.
struct Unread {
  std::size_t at = 0;
  std::string expected;
};

/// Which words are known: PyTorch's of today, or those before October 2024, where BW was the whole backward
/// and B the gradient of the input.
enum class Words : std::uint8_t { current, before_october_2024 };

/// Reads all of `text`, which is one action or several that overlap, and appends them.
std::optional<Unread> read_actions(std::string_view text, Words words, std::vector<Action>& to);

/// A number from 0 to 2147483647 at the start of `text`, which is then shortened; nothing where there is
/// none.
std::optional<std::int32_t> take_number(std::string_view& text);

/// How many entries from `entry` on are written as one: more than one where they overlap.
std::size_t written_together(std::span<const Action> row, std::size_t entry);
/// Writes them.
void write_actions(std::ostream& out, std::span<const Action> together);

}  // namespace weft::pipeline::detail
