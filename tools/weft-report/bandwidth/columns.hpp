#pragma once
// A row of a table of nccl-tests, read by the columns that its heading names. The columns differ by version and operation:
//
//   #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong     since 2.13
//   #       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error               2.0 to 2.12
//   #      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res               1.0, in ms
//
// -I adds i_min, i_max, i_p99 and i_cv% to each half; -C measures cputime; since 2.18 a time stamp may end the line.

#include <optional>
#include <string_view>
#include <vector>

#include "weft-report/bandwidth/tables.hpp"

namespace weft::report::bandwidth {

enum class Column : std::uint8_t {
  bytes,
  dtype,
  redop,
  root,
  microseconds,
  milliseconds,
  algbw,
  busbw,
  wrong,
  other,
  stamp
};
using Columns = std::vector<Column>;

/// @param words behind the "#". Nothing if they are no heading, or one that was cut.
std::optional<Columns> columns_of(std::string_view words);
/// Those of nccl-tests since 2.13, for rows whose heading is lost.
const Columns& usual_columns();

/// What stands before the row (tags of a launcher, time stamps) is passed over. Nothing if the line is no whole row: cut, or with a number that
/// none is (nan, a negative size).
std::optional<Row> row_of(std::string_view line, const Columns& columns);

}  // namespace weft::report::bandwidth
