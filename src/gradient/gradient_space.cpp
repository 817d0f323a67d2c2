#include "weft/gradient/gradient_space.hpp"

#include <algorithm>

namespace weft {

View GradientSpace::slice(std::int64_t begin, std::int64_t count) const {
  if (!places_) return memory_.slice(begin, count);
  const auto after = std::ranges::upper_bound(*places_, begin, {}, &Place::begin);
  if (after == places_->begin() || count < 0 || begin + count > std::prev(after)->end)
    throw Error(
        ErrorKind::usage,
        text("gradients [", begin, ", ", begin + count, ") of the flat space, which no one bucket has"),
        "in windows, ask for what lies in one bucket");
  const Place& place = *std::prev(after);
  return memory_.slice(place.at + begin - place.begin, count);
}

GradientSpace GradientSpace::over(View memory) const {
  if (memory.count() != memory_.count())
    throw Error(ErrorKind::usage, text("places in ", memory_.count(), " elements over ", memory.count()));
  GradientSpace other = *this;
  other.memory_ = memory;
  return other;
}

}  // namespace weft
