#pragma once
// What an optimizer keeps besides the parameters (masters and moments), and where it lies: StateKind says
// which arrays there are, StateArrays owns them, StateViews refers to a range of them, and StateSplit says
// which elements lie on the device, in host memory and in a file.

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "weft/core/buffer.hpp"
#include "weft/core/recycled.hpp"
#include "weft/zero/sharded_optimizer.hpp"
#include "zero/update/fused_step.hpp"

namespace weft::detail {

/// Which arrays are kept besides the parameters, and their types.
struct StateKind {
  DataType dtype = DataType::f32;  ///< of parameters and gradients
  Master kept = Master::none;
  int moments = 0;

  /// @throws Error (usage) for split masters of anything but bf16
  static StateKind of(DataType dtype, const zero::Optimizer& optimizer, zero::Master master);

  /// No arrays are kept: a step needs only gradient and parameter.
  bool is_empty() const { return kept == Master::none && moments == 0; }
  DataType master_type() const { return kept == Master::split ? DataType::bf16 : exact_type(); }
  DataType exact_type() const { return dtype == DataType::f64 ? DataType::f64 : DataType::f32; }
  /// Bytes for each element of masters, first and second moments; 0 for arrays that are not kept.
  std::array<std::size_t, 3> element_bytes() const;
};

/// Elements in a tile of gradients, and the most in a frame of state.
/// @param elements how many there are in all
std::int64_t tile_elements(DataType dtype, std::size_t tile_bytes, std::int64_t elements);

/// The same range of all arrays, in one memory; views of arrays that are not kept are empty.
struct StateViews {
  View master{};
  View first{};
  View second{};

  StateViews slice(std::int64_t at, std::int64_t count) const;
  StepSlice step(const StateKind& kind, ConstView gradient, View parameters) const;
  /// Copies the same number of elements of every array.
  void copy_from(const StateViews& from, const Stream& stream) const;
};

struct StateArrays {
  Buffer master;
  Buffer first;
  Buffer second;

  using Allocate = std::function<Buffer(DataType dtype, std::int64_t count)>;
  static StateArrays make(const StateKind& kind, std::int64_t elements, const Allocate& allocate);
  /// Views of `count` elements from `at` on.
  StateViews views(std::int64_t at, std::int64_t count);
  std::int64_t bytes() const;
};

/// Which elements of an optimizer's state lie on the device, in host memory and in a file: a plain value.
///
/// The state is cut into cells (the buckets of the first plan) and each cell into three pieces: the first
/// stays on the device, the next lies in host memory, the last in the file. The elements of one place lie
/// there without gaps. Buckets may change later; the pieces do not.
class StateSplit {
 public:
  struct Piece {
    std::int64_t begin = 0;  ///< in this rank's whole state
    std::int64_t count = 0;
    bool offloaded = false;
    std::int64_t at = 0;  ///< offset on the device; or, offloaded, in host memory followed by the file
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  StateSplit() = default;
  /// @param bounds where cells begin, ascending from 0, and where the last ends
  /// @param share share of each cell that is offloaded, 0 to 1
  /// @param file_share share of the offloaded elements that lies in the file, 0 to 1
  /// @param unit pieces are multiples of it, except the last of a cell
  StateSplit(const std::vector<std::int64_t>& bounds, double share, double file_share, std::int64_t unit);

  /// The pieces that make up [begin, end), in order.
  RecycledVector<Piece> pieces(std::int64_t begin, std::int64_t end) const;
  std::int64_t on_device() const { return on_device_; }
  std::int64_t in_memory() const { return in_memory_; }
  std::int64_t in_file() const { return file_bounds_.back(); }
  std::int64_t offloaded() const { return in_memory() + in_file(); }
  /// Where cells begin in the file, and where the last one ends.
  const std::vector<std::int64_t>& file_bounds() const { return file_bounds_; }

 private:
  std::vector<Piece> pieces_;
  std::int64_t on_device_ = 0;
  std::int64_t in_memory_ = 0;
  std::vector<std::int64_t> file_bounds_{0};
};

}  // namespace weft::detail
