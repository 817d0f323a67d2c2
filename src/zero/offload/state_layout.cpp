#include "zero/offload/state_layout.hpp"

#include <algorithm>
#include <cmath>

#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"
#include "zero/plan/step_factors.hpp"

namespace weft::detail {
namespace {

/// How many of `count` elements stay when `share` of them goes: whole units, or all.
std::int64_t rest_of(std::int64_t count, double share, std::int64_t unit) {
  if (share == 0) return count;
  const double units = static_cast<double>(count) * (1 - share) / static_cast<double>(unit);
  return std::min(count, static_cast<std::int64_t>(std::llround(units)) * unit);
}

}  // namespace

StateKind StateKind::of(DataType dtype, const zero::Optimizer& optimizer, zero::Master master) {
  if (master == zero::Master::split && dtype != DataType::bf16)
    throw Error(ErrorKind::usage, text("split masters of parameters of ", dtype),
                "the upper half of an f32 is a bf16: use Master::f32");
  const bool is_exact = dtype == DataType::f32 || dtype == DataType::f64;
  const Master kept = is_exact ? Master::none : master == zero::Master::split ? Master::split : Master::f32;
  return {dtype, kept, factors(optimizer, 1, 0, 1).moments()};
}

std::int64_t tile_elements(DataType dtype, std::size_t tile_bytes, std::int64_t elements) {
  const std::size_t lines = std::max<std::size_t>(1, tile_bytes / Buffer::alignment);
  return std::min(elements, static_cast<std::int64_t>(lines * Buffer::alignment / size_of(dtype)));
}

std::array<std::size_t, 3> StateKind::element_bytes() const {
  return {kept == Master::none ? 0 : size_of(master_type()), moments >= 1 ? size_of(exact_type()) : 0,
          moments == 2 ? size_of(exact_type()) : 0};
}

StateViews StateViews::slice(std::int64_t at, std::int64_t count) const {
  const auto of = [&](const View& view) { return view.empty() ? View() : view.slice(at, count); };
  return {of(master), of(first), of(second)};
}

StepSlice StateViews::step(const StateKind& kind, ConstView gradient, View parameters) const {
  return {.gradient = gradient,
          .parameters = parameters,
          .master = master,
          .first = first,
          .second = second,
          .kept = kind.kept};
}

void StateViews::copy_from(const StateViews& from, const Stream& stream) const {
  const auto move = [&](const View& to, const View& source) {
    if (!to.empty()) copy(to, source, stream);
  };
  move(master, from.master);
  move(first, from.first);
  move(second, from.second);
}

StateArrays StateArrays::make(const StateKind& kind, std::int64_t elements, const Allocate& allocate) {
  const auto bytes = kind.element_bytes();
  const auto kept = [&](std::size_t which) { return bytes[which] > 0 ? elements : 0; };
  return {.master = allocate(kind.master_type(), kept(0)),
          .first = allocate(kind.exact_type(), kept(1)),
          .second = allocate(kind.exact_type(), kept(2))};
}

StateViews StateArrays::views(std::int64_t at, std::int64_t count) {
  return StateViews{master.view(), first.view(), second.view()}.slice(at, count);
}

std::int64_t StateArrays::bytes() const {
  return static_cast<std::int64_t>(master.size_bytes() + first.size_bytes() + second.size_bytes());
}

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
