#pragma once
// How the rows of a table lie in a file: a row and its state together, a *record*, and as many records as fit in a block of the disk, a *span*,
// which is read and written at once. No record lies in two spans.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/round_up.hpp"
#include "core/files/scratch_file.hpp"

namespace weft::detail {

/// A row, and what its rule keeps with it; null where the rule has none.
struct RowParts {
  float* row = nullptr;
  float* first = nullptr;        ///< h of RowAdaGrad, one number; m of LazyAdamW
  float* second = nullptr;       ///< v of LazyAdamW
  std::int32_t* last = nullptr;  ///< LazyAdamW: how many steps the row has had
};

struct RowRecord {
  int columns = 0;
  int first = 0;   ///< how many numbers
  int second = 0;  ///< and here
  int last = 0;    ///< 1 or 0

  std::size_t bytes() const {
    return sizeof(float) * static_cast<std::size_t>(columns + first + second + last);
  }
  std::int64_t per_span() const {
    return static_cast<std::int64_t>(std::max<std::size_t>(1, ScratchFile::block / bytes()));
  }
  std::size_t span_bytes() const {
    return round_up(static_cast<std::size_t>(per_span()) * bytes(), ScratchFile::block);
  }
  std::int64_t spans(std::int64_t rows) const { return ceil_div(rows, per_span()); }

  RowParts parts(std::byte* record) const {
    auto* const numbers = reinterpret_cast<float*>(record);
    auto* const behind = reinterpret_cast<std::int32_t*>(numbers + columns + first + second);
    return {numbers, first > 0 ? numbers + columns : nullptr,
            second > 0 ? numbers + columns + first : nullptr, last > 0 ? behind : nullptr};
  }
};

}  // namespace weft::detail
