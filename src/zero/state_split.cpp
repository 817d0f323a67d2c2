#include "zero/state_split.hpp"

#include <algorithm>
#include <cmath>

namespace weft::detail {

StateSplit::StateSplit(const std::vector<std::int64_t>& bounds, double share, std::int64_t unit) {
  const auto put = [this](std::int64_t begin, std::int64_t count, bool on_host) {
    if (count == 0) return;
    std::int64_t& at = on_host ? on_host_ : on_device_;
    pieces_.push_back({begin, count, on_host, at});
    at += count;
  };
  for (std::size_t cell = 0; cell + 1 < bounds.size(); ++cell) {
    const std::int64_t begin = bounds[cell];
    const std::int64_t count = bounds[cell + 1] - begin;
    const double units = static_cast<double>(count) * (1 - share) / static_cast<double>(unit);
    const std::int64_t stays =
        share == 0 ? count : std::min(count, static_cast<std::int64_t>(std::llround(units)) * unit);
    put(begin, stays, false);
    put(begin + stays, count - stays, true);
  }
}

RecycledVector<StateSplit::Piece> StateSplit::pieces(std::int64_t begin, std::int64_t end) const {
  RecycledVector<Piece> found;
  const auto after = std::ranges::upper_bound(pieces_, begin, {}, &Piece::begin);
  for (auto piece = after == pieces_.begin() ? after : after - 1; piece != pieces_.end(); ++piece) {
    const std::int64_t from = std::max(begin, piece->begin);
    const std::int64_t to = std::min(end, piece->begin + piece->count);
    if (piece->begin >= end) break;
    if (from < to) found.push_back({from, to - from, piece->on_host, piece->at + from - piece->begin});
  }
  return found;
}

}  // namespace weft::detail
