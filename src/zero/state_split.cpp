#include "zero/state_split.hpp"

#include <algorithm>
#include <cmath>

namespace weft::detail {
namespace {

/// Of `count` elements, those that do not go: whole units, or all.
std::int64_t rest_of(std::int64_t count, double share, std::int64_t unit) {
  if (share == 0) return count;
  const double units = static_cast<double>(count) * (1 - share) / static_cast<double>(unit);
  return std::min(count, static_cast<std::int64_t>(std::llround(units)) * unit);
}

}  // namespace

StateSplit::StateSplit(const std::vector<std::int64_t>& bounds, double share, double file_share,
                       std::int64_t unit) {
  const auto put = [this](Piece piece) {
    if (piece.count > 0) pieces_.push_back(piece);
  };
  std::vector<std::size_t> in_file;
  for (std::size_t cell = 0; cell + 1 < bounds.size(); ++cell) {
    const std::int64_t count = bounds[cell + 1] - bounds[cell];
    const std::int64_t stays = rest_of(count, share, unit);
    const std::int64_t kept = rest_of(count - stays, file_share, unit);
    const std::int64_t filed = count - stays - kept;
    put({bounds[cell], stays, false, on_device_});
    put({bounds[cell] + stays, kept, true, in_memory_});
    if (filed > 0) in_file.push_back(pieces_.size());
    put({bounds[cell] + stays + kept, filed, true, file_bounds_.back()});
    on_device_ += stays;
    in_memory_ += kept;
    if (filed > 0) file_bounds_.push_back(file_bounds_.back() + filed);
  }
  for (const std::size_t piece : in_file) pieces_[piece].at += in_memory_;
}

RecycledVector<StateSplit::Piece> StateSplit::pieces(std::int64_t begin, std::int64_t end) const {
  RecycledVector<Piece> found;
  const auto after = std::ranges::upper_bound(pieces_, begin, {}, &Piece::begin);
  for (auto piece = after == pieces_.begin() ? after : after - 1; piece != pieces_.end(); ++piece) {
    const std::int64_t from = std::max(begin, piece->begin);
    const std::int64_t to = std::min(end, piece->begin + piece->count);
    if (piece->begin >= end) break;
    if (from < to) found.push_back({from, to - from, piece->offloaded, piece->at + from - piece->begin});
  }
  return found;
}

}  // namespace weft::detail
