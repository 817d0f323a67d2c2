#pragma once
// The parts of an SVG drawing of a schedule: what its rows show, and how numbers, words and colours are
// written.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline::detail {

/// One rectangle: a computation, or several short neighbours.
struct Box {
  std::size_t first = 0, last = 0;  ///< entries of the row
  std::int64_t actions = 1;         ///< how many computations it stands for
  std::size_t shown = 0;            ///< the longest of them: the box has its colour
  Nanoseconds begin = 0, end = 0;
};

/// F, B, I, W and RECOMPUTE that take time, in order. Neighbours shorter than `grain` are joined until a box
/// is that long, or idle time of that length or a longer action follows. 0 joins none.
std::vector<Box> boxes(const Schedule& schedule, const Prediction& prediction, std::size_t device,
                       Nanoseconds grain);

/// An entry in which the device waited for a gather, a reduction or a copy.
struct Wait {
  std::size_t entry = 0;
  Nanoseconds begin = 0, end = 0;
};
/// All waits of `least` or longer.
std::vector<Wait> waits(const Schedule& schedule, const Prediction& prediction, std::size_t device,
                        Nanoseconds least);

/// A length in pixels with at most two decimals, the same in every locale.
std::string pixels(double value);
/// Text for between two tags.
std::string escaped(std::string_view raw);

/// CSS for a light and a dark background. Hues are Okabe and Ito's (2008), which differ for all common kinds
/// of colour blindness; letters are dark on light boxes, and light on dark ones.
extern const std::string_view drawing_style;

}  // namespace weft::pipeline::detail
