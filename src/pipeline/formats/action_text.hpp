#pragma once
// How actions are written in weft's text and in PyTorch's CSV: 2F0, 2WAIT_RECV_F0, 2UNSHARD, and
// (0F7;7B3)OVERLAP_F_B for a pair that overlaps.

#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/pipeline/action.hpp"
#include "weft/pipeline/csv.hpp"

namespace weft::pipeline::detail {

/// Where a text stops being an action, and what was expected there.
struct Unread {
  std::size_t at = 0;
  std::string expected;
};

/// Which dialect is read: PyTorch's of today, or that of before October 2024, where BW was the whole backward
/// and B the gradient of the input.
enum class Words : std::uint8_t { current, before_october_2024 };

/// Reads all of `text`, one action or a pair that overlaps, and appends it to `to`.
std::optional<Unread> read_actions(std::string_view text, Words words, std::vector<Action>& to);

/// Takes a number from 0 to 2147483647 off the start of `text`; nothing if there is none.
std::optional<std::int32_t> take_number(std::string_view& text);

/// How many entries from `entry` on are written as one: more than one if they overlap.
std::size_t written_together(std::span<const Action> row, std::size_t entry);
void write_actions(std::ostream& out, std::span<const Action> together);

/// Whether PyTorch's CSV has a word for the action.
bool has_word(const Action& action, CsvFormat format);

}  // namespace weft::pipeline::detail
