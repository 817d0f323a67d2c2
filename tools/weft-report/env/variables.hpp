#pragma once
// The variables that NCCL reads, as a table, and what their values may be. Names that others set are known, too.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/env/nccl_version.hpp"

namespace weft::report {

enum class Kind : std::uint8_t { tune, system, debug, internal, plugin, ignored };

/// Whether ranks of one job may have different values. equal: they hang, fail or give wrong results if not. alike: some are slower, or
/// behave differently. free: may differ.
enum class Ranks : std::uint8_t { equal, alike, free };

struct Variable {
  std::string_view name;
  std::string_view since;  ///< the first version that reads it; 2.3.5 is the oldest one looked at
  std::string_view gone;   ///< a version that does not any more; empty: none is known
  Kind kind = Kind::tune;
  Ranks ranks = Ranks::alike;
  std::string_view values;  ///< variables.cpp says how it is written
};

/// Sorted by name.
std::span<const Variable> nccl_variables();
/// Null where NCCL reads no such variable.
const Variable* find_variable(std::string_view name);
bool exists_in(const Variable& variable, const NcclVersion& version);

/// Who sets a variable of that name that is not NCCL's: "PyTorch". None where it is not known.
std::optional<std::string_view> foreign_owner(std::string_view name);

/// What is wrong with a value, "is no whole number; NCCL reads 0"; none where it is good or NCCL takes any text.
std::optional<std::string> complaint_about(const Variable& variable, std::string_view value);
/// The values of a variable, for people: "0 to 31", "one of AF_INET, AF_INET6".
std::string allowed_values(const Variable& variable);

/// The number that NCCL reads, as strtoll(value, nullptr, 0) does: that at the beginning, or 0. None where it is out of range.
std::optional<std::int64_t> number_in(std::string_view value);
/// The words of a list, in small letters: without a leading ^ or =, cut at commas and, of functions, at ; and after :.
std::vector<std::string> words_in(std::string_view value);

}  // namespace weft::report
