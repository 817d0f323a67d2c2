#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure.hpp"

namespace weft::bench {

enum class Format : std::uint8_t { nccl, osu, csv };

struct Options {
  std::vector<Op> ops;
  std::vector<DataType> dtypes{DataType::f32};
  std::vector<ReduceOp> redops{ReduceOp::sum};
  Sizes sizes;
  Effort effort;
  int root = 0;
  bool out_of_place = true;
  bool arena = true;
  Format format = Format::nccl;
  std::vector<std::string> against;
  std::optional<double> expect;
  std::optional<std::string> json;
  std::optional<std::string> tune;  ///< where the table goes
  bool explain = false;
  bool quiet = false;
  bool help = false;

  bool compares_with(const std::string& name) const;
  /// One case for each table of rows: its collective, type and operation.
  std::vector<Case> tables(int rank, int ranks) const;
  /// The largest of all cases.
  std::size_t largest_bytes(int ranks) const;
};

/// @throws Error (usage) naming the argument, its value and what is allowed
Options parse(const std::vector<std::string>& arguments);
std::string help();

/// "64K", "1.5M", "2G", "100" in bytes. @throws Error (usage)
std::size_t bytes_named(const std::string& option, const std::string& word);

}  // namespace weft::bench
