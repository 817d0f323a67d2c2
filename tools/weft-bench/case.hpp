#pragma once
// One row of a benchmark: which operation, on how much data; and its bandwidth by the arithmetic of
// nccl-tests.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/collectives/reduce_op.hpp"
#include "weft/core/dtype.hpp"

namespace weft::bench {

/// In the order of Collective.
enum class Op : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  send_receive  ///< around the ring of ranks
};

inline constexpr std::array op_names{"all_reduce", "reduce_scatter", "all_gather",  "broadcast",
                                     "reduce",     "all_to_all",     "send_receive"};
constexpr const char* name(Op op) {
  return op_names[static_cast<std::size_t>(op)];
}
constexpr bool reduces(Op op) {
  return op == Op::all_reduce || op == Op::reduce_scatter || op == Op::reduce;
}
constexpr bool has_root(Op op) {
  return op == Op::broadcast || op == Op::reduce;
}
/// Whether each rank has a part of the larger buffer.
constexpr bool has_parts(Op op) {
  return op == Op::reduce_scatter || op == Op::all_gather || op == Op::all_to_all;
}
/// broadcast is only in place; an operation in which every rank sends and receives at once cannot be in
/// place.
constexpr bool exists(Op op, bool in_place) {
  return in_place ? op != Op::all_to_all && op != Op::send_receive : op != Op::broadcast;
}

struct Case {
  Op op = Op::all_reduce;
  DataType dtype = DataType::f32;
  ReduceOp redop = ReduceOp::sum;
  int root = 0;
  bool in_place = true;
  std::int64_t count = 0;  ///< elements of the whole buffer, or of a rank's part if there are parts
  int rank = 0;
  int ranks = 1;

  std::int64_t in_count() const {
    return op == Op::reduce_scatter || op == Op::all_to_all ? count * ranks : count;
  }
  std::int64_t out_count() const {
    return op == Op::all_gather || op == Op::all_to_all ? count * ranks : count;
  }
  /// Bytes of the larger buffer, which nccl-tests calls the size.
  std::size_t bytes() const {
    return static_cast<std::size_t>(has_parts(op) ? count * ranks : count) * size_of(dtype);
  }
  /// The offset of this rank's smaller part in its buffer if the operation is in place.
  std::size_t in_offset() const { return in_place && op == Op::all_gather ? part_offset() : 0; }
  std::size_t out_offset() const { return in_place && op == Op::reduce_scatter ? part_offset() : 0; }
  bool writes_here() const { return op != Op::reduce || rank == root; }

  /// Bus bandwidth as a multiple of bytes / time: the rate of the slowest link, independent of the algorithm.
  double bus_factor() const;

 private:
  std::size_t part_offset() const { return static_cast<std::size_t>(rank * count) * size_of(dtype); }
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
