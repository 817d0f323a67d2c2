#pragma once
// Masters and moments of some elements: as memory that is owned, and as views of it.

#include <array>
#include <functional>

#include "weft/core/buffer.hpp"
#include "weft/zero/sharded_optimizer.hpp"
#include "zero/fused_step.hpp"

namespace weft::detail {

/// How many arrays beside the parameters are kept, and of which type.
struct StateKind {
  DataType dtype = DataType::f32;  ///< of parameters and gradients
  Master kept = Master::none;
  int moments = 0;

  /// @throws Error (usage) for split masters of anything but bf16
  static StateKind of(DataType dtype, const zero::Optimizer& optimizer, zero::Master master);

  /// Nothing is: a step needs no more than gradient and parameter.
  bool is_empty() const { return kept == Master::none && moments == 0; }
  DataType master_type() const { return kept == Master::split ? DataType::bf16 : exact_type(); }
  DataType exact_type() const { return dtype == DataType::f64 ? DataType::f64 : DataType::f32; }
  /// Of masters, first and second moments; 0 for what is not kept.
  std::array<std::size_t, 3> element_bytes() const;
};

/// Elements of a tile of gradients and, at most, of a frame of state. @param elements there are
std::int64_t tile_elements(DataType dtype, std::size_t tile_bytes, std::int64_t elements);

/// Of the same elements, in memory of one place; those that are not kept are empty.
struct StateViews {
  View master{};
  View first{};
  View second{};

  StateViews slice(std::int64_t at, std::int64_t count) const;
  StepSlice step(const StateKind& kind, ConstView gradient, View parameters) const;
  /// As many elements of everything.
  void take(const StateViews& from, const Stream& stream) const;
};

struct StateArrays {
  Buffer master;
  Buffer first;
  Buffer second;

  using Allocate = std::function<Buffer(DataType dtype, std::int64_t count)>;
  static StateArrays make(const StateKind& kind, std::int64_t elements, const Allocate& allocate);
  /// Of `count` elements from `at` on.
  StateViews views(std::int64_t at, std::int64_t count);
  std::int64_t bytes() const;
};

}  // namespace weft::detail
