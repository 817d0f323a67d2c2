#include "zero/state_arrays.hpp"

#include <algorithm>

#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"
#include "zero/step_factors.hpp"

namespace weft::detail {

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

void StateViews::take(const StateViews& from, const Stream& stream) const {
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

}  // namespace weft::detail
