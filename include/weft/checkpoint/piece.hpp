#pragma once
// What a checkpoint holds: tensors in logical coordinates, and single values.
//
// A tensor has a name, a shape and one element type. A rank saves or loads *pieces* of it: ranges of its elements, counted in
// row-major order over the whole tensor. How many ranks there are, and which one holds what, is no part of a checkpoint: pieces
// that were saved by 8 ranks are loaded as other pieces by 3.
//
//   const Piece mine{"layer0.weight", {1024, 512}, 4096, ConstView(std::span(part))};   // elements 4096 and following
//
// State that each rank has for itself, such as its random numbers, is a tensor for each rank: "random/rank3".

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "weft/core/view.hpp"

namespace weft::checkpoint {

/// Elements that lie in no memory as they are saved: in a file, or in another form.
struct Computed {
  DataType dtype = DataType::f32;
  std::int64_t count = 0;
  /// Fills `to`, in host memory, with elements from `at` on, 0 being the piece's first. Called in ascending order, by blocks of 1 MiB.
  std::function<void(std::int64_t at, View to)> fill;
};

/// Elements [first, first + count) of a tensor, to save. Memory of the host or of a device, which stays as it is until they are saved.
struct Piece {
  std::string tensor;
  std::vector<std::int64_t> shape;  ///< of the whole tensor; {} is one element
  std::int64_t first = 0;
  std::variant<ConstView, Computed> values;

  std::int64_t count() const;
  DataType dtype() const;
};

/// Where elements go that lie in no memory as they are loaded.
struct Taken {
  DataType dtype = DataType::f32;
  std::int64_t count = 0;
  /// Takes elements from `at` on, 0 being the piece's first. Called once for every element, in any order.
  std::function<void(std::int64_t at, ConstView from)> take;
};

/// The same, to load into.
struct Wanted {
  std::string tensor;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;
  std::variant<View, Taken> values;

  std::int64_t count() const;
  DataType dtype() const;
};

/// A count, a finite number, or text. Doubles are kept exactly.
using Value = std::variant<std::int64_t, double, std::string>;
/// Position in the data, loss scale, state of a random generator: whatever all ranks have alike.
using Values = std::map<std::string, Value>;

/// Fills pieces, before it returns: Checkpoint::read(), or another source.
using Reader = std::function<void(std::span<const Wanted>)>;

/// What an object hands to a Saver.
struct State {
  std::vector<Piece> pieces;
  Values values;
  /// An owner that changes the pieces' memory later calls `*before_change` first, where that is set. Saver::begin() sets it, to have read
  /// them by then. Null: the owner does not call, and who saves behind the training calls Saver::release().
  std::shared_ptr<std::function<void()>> before_change{};
};

inline std::int64_t Piece::count() const {
  const ConstView* const view = std::get_if<ConstView>(&values);
  return view != nullptr ? view->count() : std::get<Computed>(values).count;
}
inline DataType Piece::dtype() const {
  const ConstView* const view = std::get_if<ConstView>(&values);
  return view != nullptr ? view->dtype() : std::get<Computed>(values).dtype;
}
inline std::int64_t Wanted::count() const {
  const View* const view = std::get_if<View>(&values);
  return view != nullptr ? view->count() : std::get<Taken>(values).count;
}
inline DataType Wanted::dtype() const {
  const View* const view = std::get_if<View>(&values);
  return view != nullptr ? view->dtype() : std::get<Taken>(values).dtype;
}

}  // namespace weft::checkpoint
