#include "zero/offloaded_state.hpp"

#include <algorithm>

#include "core/elementwise.hpp"
#include "core/pinned.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {
namespace {

std::int64_t tile_elements(DataType dtype, std::size_t tile_bytes, std::int64_t elements) {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(dtype));
  const auto lines = static_cast<std::int64_t>(tile_bytes / Buffer::alignment);
  return std::min(elements, std::max<std::int64_t>(1, lines) * line);
}

}  // namespace

StateArrays StateArrays::make(const StateKind& kind, std::int64_t elements, const Allocate& allocate) {
  const DataType exact = kind.dtype == DataType::f64 ? DataType::f64 : DataType::f32;
  return {.master = allocate(kind.kept == Master::split ? DataType::bf16 : DataType::f32,
                             kind.kept == Master::none ? 0 : elements),
          .first = allocate(exact, kind.moments >= 1 ? elements : 0),
          .second = allocate(exact, kind.moments == 2 ? elements : 0)};
}

StepSlice StateArrays::slice(const StateKind& kind, ConstView gradient, View parameters, std::int64_t at) {
  const auto of = [&](Buffer& buffer) {
    return buffer.count() == 0 ? View() : buffer.view().slice(at, gradient.count());
  };
  return {.gradient = gradient,
          .parameters = parameters,
          .master = of(master),
          .first = of(first),
          .second = of(second),
          .kept = kind.kept};
}

void StateArrays::take(std::int64_t at, StateArrays& from, std::int64_t from_at, std::int64_t count,
                       Stream stream) {
  const auto move = [&](Buffer& to, Buffer& source) {
    if (to.count() > 0) copy(to.view().slice(at, count), source.view().slice(from_at, count), stream);
  };
  move(master, from.master);
  move(first, from.first);
  move(second, from.second);
}

std::int64_t StateArrays::bytes() const {
  return static_cast<std::int64_t>(master.size_bytes() + first.size_bytes() + second.size_bytes());
}

OffloadedState::OffloadedState(Device device, const StateKind& kind, std::int64_t elements,
                               std::size_t tile_bytes)
    : kind_(kind), down_(device), up_(device) {
  const auto on_host = [&](DataType dtype, std::int64_t count) { return pinned(device, dtype, count); };
  parameters_ = on_host(kind.dtype, elements);
  arrays_ = StateArrays::make(kind, elements, on_host);
  for (Tile& tile : tiles_)
    tile.gradient = on_host(kind.dtype, tile_elements(kind.dtype, tile_bytes, elements));
}

// Split: what is loaded in bf16 has no lower half.
void OffloadedState::load(std::int64_t at, ConstView parameters) {
  const View here = parameters_.view().slice(at, parameters.count());
  take(at, parameters, down_);
  down_.synchronize();
  if (kind_.kept == Master::f32) on_host::cast(arrays_.master.view().slice(at, here.count()), here);
}

// Streams of the device are carried on by whoever looks; here that is the worker, after each of its tiles.
void OffloadedState::update(std::int64_t at, ConstView gradient, const StepFactors& factors,
                            const Event& reduced, bool reaches_gradient) {
  if (reaches_gradient) {
    worker_.wait(reduced);
  } else {
    down_.wait(reduced);
  }
  worker_.wait(brought_);
  const std::int64_t most = tiles_.front().gradient.count();
  for (std::int64_t done = 0; done < gradient.count(); done += most) {
    const std::int64_t count = std::min(most, gradient.count() - done);
    const ConstView there = gradient.slice(done, count);
    const ConstView here =
        reaches_gradient ? ConstView(there.data(), count, there.dtype()) : bring_down(there);
    const View parameters = parameters_.view().slice(at + done, count);
    fused_step(arrays_.slice(kind_, here, parameters, at + done), factors, worker_);
    const Event updated = worker_.record();
    if (!reaches_gradient) tiles_[next_tile_++ % tiles_.size()].free = updated;
    updated_.push_back({at + done, count, updated});
    worker_.run([down = down_, up = up_]() mutable {
      down.poll();
      up.poll();
    });
  }
}

ConstView OffloadedState::bring_down(ConstView gradient) {
  Tile& tile = tiles_[next_tile_ % tiles_.size()];
  const View staged = tile.gradient.view().slice(0, gradient.count());
  down_.wait(tile.free);
  copy(staged, gradient, down_);
  worker_.wait(down_.record());
  return staged;
}

Event OffloadedState::bring(std::int64_t at, View parameters, const Event& free) {
  up_.wait(free);
  for (std::int64_t brought = 0; brought < parameters.count(); updated_.pop_front()) {
    if (updated_.empty() || updated_.front().at != at + brought)
      throw Error(ErrorKind::usage, "parameters are brought from the host that were not updated there");
    const Updated& next = updated_.front();
    up_.wait(next.done);
    copy(parameters.slice(brought, next.count), parameters_.view().slice(next.at, next.count), up_);
    brought += next.count;
  }
  return up_.record();
}

void OffloadedState::synchronize() {
  worker_.synchronize();
  down_.synchronize();
  up_.synchronize();
}

void OffloadedState::take(std::int64_t at, ConstView parameters, const Stream& stream) {
  copy(parameters_.view().slice(at, parameters.count()), parameters, stream);
}

std::int64_t OffloadedState::bytes() const {
  std::int64_t bytes = arrays_.bytes() + static_cast<std::int64_t>(parameters_.size_bytes());
  for (const Tile& tile : tiles_) bytes += static_cast<std::int64_t>(tile.gradient.size_bytes());
  return bytes;
}

}  // namespace weft::detail
