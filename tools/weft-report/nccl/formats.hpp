#pragma once
// The lines that NCCL prints, as patterns: what a line says becomes a list of values.
//
//   values_in("comm 0x1 rank 3 nRanks 16 nNodes 2 ...", "comm %p rank %d nRanks %d nNodes %d ...")     // {"0x1", "3", "16", "2", ...}
//
// In a pattern %d is a whole number, %x one in hexadecimal (with or without 0x), %f a decimal number, %p an address, and %s any text up to
// what follows it. A line has to match from its begin to the end of the pattern; one that was cut states nothing.
//
// WRONG: two rows of one id whose values mean different things; rules ask by id and place.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace weft::report::nccl {

struct LineFormat {
  std::string_view id;
  std::string_view pattern;
};

/// NCCL 2.4 to 2.30. Where versions print a line differently, each has a row of the same id.
std::span<const LineFormat> line_formats();

/// Nothing where the message does not match.
std::optional<std::vector<std::string_view>> values_in(std::string_view message, std::string_view pattern);
/// The longest part of a pattern without a value.
std::string_view longest_literal(std::string_view pattern);

}  // namespace weft::report::nccl
