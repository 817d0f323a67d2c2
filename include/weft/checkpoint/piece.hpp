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
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "weft/core/view.hpp"

namespace weft::checkpoint {

/// Elements [first, first + values.count()) of a tensor, to save. Memory of the host or of a device.
struct Piece {
  std::string tensor;
  std::vector<std::int64_t> shape;  ///< of the whole tensor; {} is one element
  std::int64_t first = 0;
  ConstView values;
};

/// The same, to load into.
struct Wanted {
  std::string tensor;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;
  View values;
};

/// A count, a finite number, or text. Doubles are kept exactly.
using Value = std::variant<std::int64_t, double, std::string>;
/// Position in the data, loss scale, state of a random generator: whatever all ranks have alike.
using Values = std::map<std::string, Value>;

}  // namespace weft::checkpoint
