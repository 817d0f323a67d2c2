#pragma once
// The name that was probably meant.

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::detail {

/// Letters to insert, drop or replace (Levenshtein).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// @param all not empty
template <class Names>
std::string nearest_name(const Names& all, std::string_view name) {
  return std::string(
      *std::ranges::min_element(all, {}, [&](const auto& one) { return edit_distance(one, name); }));
}

}  // namespace weft::detail
