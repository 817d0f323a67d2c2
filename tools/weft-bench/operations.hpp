#pragma once
// What weft-bench measures: a row for each operation says all that is known of it. A new operation is an enumerator here and a row in
// operations.cpp; options, cases, checks, contestants and reports read the row.

#include <cstdint>
#include <optional>
#include <span>

#include "weft/collectives/algorithm.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::bench {

enum class Op : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  send_receive  ///< around the ring of ranks
};

struct Case;
class SharedMoves;
struct MpiCall;

enum class InPlace : std::uint8_t { either, always, never };
enum class Root : std::uint8_t { none, sends, receives };

/// Which input an element of an output comes from.
struct Source {
  static constexpr int all_ranks = -1;  ///< reduced over their inputs
  int rank;
  std::int64_t element;
};

/// An operation as weft is called.
struct WeftCall {
  Communicator& comm;
  const Case& which;
  ConstView in;
  View out;
  const Stream& stream;
};

struct Operation {
  Op op;
  const char* name;
  std::optional<Collective> kind{};  ///< whose algorithm is chosen; none: there is no choice
  bool reduces = false;
  bool in_parts = false;  ///< the input has a part for each rank
  bool out_parts = false;
  Root root = Root::none;
  InPlace in_place = InPlace::either;
  /// Bus bandwidth, the rate of the slowest link, as a multiple of bytes / time. @param n ranks
  double (*bus_factor)(double n);
  Source (*source)(const Case& which, std::int64_t i);
  const char* osu_title;
  Work (*weft)(const WeftCall& call);
  void (*mpi)(const MpiCall& call);  ///< null without MPI
  /// This rank's share of the memory traffic, with no protocol.
  void (*bound)(SharedMoves& memory, const Case& which);
};

/// In the order of Op.
std::span<const Operation> operations();
inline const Operation& row_of(Op op) {
  return operations()[static_cast<std::size_t>(op)];
}

inline const char* name(Op op) {
  return row_of(op).name;
}
inline bool reduces(Op op) {
  return row_of(op).reduces;
}
inline bool has_root(Op op) {
  return row_of(op).root != Root::none;
}
inline std::optional<Collective> collective_of(Op op) {
  return row_of(op).kind;
}
/// Whether each rank has a part of the larger buffer.
inline bool has_parts(Op op) {
  return row_of(op).in_parts || row_of(op).out_parts;
}
inline bool exists(Op op, bool in_place) {
  return row_of(op).in_place != (in_place ? InPlace::never : InPlace::always);
}

}  // namespace weft::bench
