#pragma once
// One row of a benchmark: which operation, on how much data.

#include <cstdint>
#include <string>
#include <vector>

#include "operations.hpp"
#include "weft/collectives/reduce_op.hpp"
#include "weft/core/dtype.hpp"

namespace weft::bench {

struct Case {
  Op op = Op::all_reduce;
  DataType dtype = DataType::f32;
  ReduceOp redop = ReduceOp::sum;
  int root = 0;
  bool in_place = true;
  std::int64_t count = 0;  ///< elements of the whole buffer, or of a rank's part if there are parts
  int rank = 0;
  int ranks = 1;

  std::int64_t in_count() const { return row_of(op).in_parts ? count * ranks : count; }
  std::int64_t out_count() const { return row_of(op).out_parts ? count * ranks : count; }
  /// Bytes of the larger buffer, which nccl-tests calls the size.
  std::size_t bytes() const {
    return static_cast<std::size_t>(has_parts(op) ? count * ranks : count) * size_of(dtype);
  }
  /// Bytes before part `number`.
  std::size_t part_bytes(int number) const {
    return static_cast<std::size_t>(number) * static_cast<std::size_t>(count) * size_of(dtype);
  }
  /// The offset of this rank's smaller part in its buffer if the operation is in place.
  std::size_t in_offset() const { return in_place && row_of(op).out_parts ? part_bytes(rank) : 0; }
  std::size_t out_offset() const { return in_place && row_of(op).in_parts ? part_bytes(rank) : 0; }
  bool reads(int of_rank) const { return row_of(op).root != Root::sends || of_rank == root; }
  bool writes(int of_rank) const { return row_of(op).root != Root::receives || of_rank == root; }
};

/// The sizes of a sweep as cases, without those that would be the same.
struct Sizes {
  std::size_t first = 8;
  std::size_t last = std::size_t{64} << 20;
  std::size_t step = 0;  ///< bytes to add; 0: multiply
  double factor = 2;
};
std::vector<Case> cases(const Sizes& sizes, Case like);

/// The names of nccl-tests ("float", "half"), and a type from these names or weft's. @throws Error (usage)
const char* nccl_name(DataType dtype);
DataType dtype_named(const std::string& word);
ReduceOp redop_named(const std::string& word);
Op op_named(const std::string& word);

}  // namespace weft::bench
