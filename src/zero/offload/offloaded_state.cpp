#include "zero/offload/offloaded_state.hpp"

#include <algorithm>
#include <limits>

#include "core/memory/elementwise.hpp"
#include "core/memory/host_memory.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {

OffloadedState::OffloadedState(Device device, const StateKind& kind, const StateSplit& split,
                               const zero::Offload& options, int rank)
    : kind_(kind), in_memory_(split.in_memory()), down_(device), up_(device) {
  const auto on_host = [&](DataType dtype, std::int64_t count) { return pinned(device, dtype, count); };
  const std::int64_t tile = tile_elements(kind.dtype, options.tile_bytes, split.offloaded());
  parameters_ = on_host(kind.dtype, split.offloaded());
  arrays_ = StateArrays::make(kind, in_memory_, on_host);
  if (split.in_file() > 0)
    file_ = std::make_unique<StateFile>(
        device, kind, StateFrames(split.file_bounds(), tile, kind.element_bytes()), options.directory, rank);
  for (Tile& one : tiles_) one.gradient = on_host(kind.dtype, tile);
}

// A split master keeps its zeros: parameters loaded in bf16 have no lower half.
void OffloadedState::load(std::int64_t at, ConstView parameters) {
  const View here = parameters_.view().slice(at, parameters.count());
  copy_parameters(at, parameters, down_);
  down_.synchronize();
  if (kind_.kept != Master::f32) return;
  visit(at, here.count(), true, [&](std::int64_t done, std::int64_t count, const StateViews& there) {
    on_host::cast(there.master, here.slice(done, count));
  });
}

void OffloadedState::visit(std::int64_t at, std::int64_t count, bool changes, const Visitor& visitor) {
  if (at < in_memory_) return visitor(0, count, arrays_.views(at, count));
  announce(at, count);
  for (std::int64_t done = 0, next = 0; done < count; done += next) {
    next = reach(at + done, count - done);
    file_->visit(at - in_memory_ + done, next, changes, 0,
                 [&](const StateViews& there) { visitor(done, next, there); });
  }
}

void OffloadedState::announce(std::int64_t at, std::int64_t count) {
  for (std::int64_t done = 0; done < count; done += reach(at + done, count - done))
    file_->announce(at - in_memory_ + done);
}

std::int64_t OffloadedState::reach(std::int64_t at, std::int64_t most) const {
  return at < in_memory_ ? most : file_->reach(at - in_memory_, most);
}

// Steps, for each piece of at most a tile that lies in one frame or in memory:
//   1. copy its gradient into one of two tiles, unless the host can read the gradient where it lies
//   2. on the worker thread, wait for the copy, then update masters, moments and parameters
//   3. remember the piece, so that upload() can copy its parameters to the device
// Host streams progress only when polled, so the worker polls the copying streams after each piece.
void OffloadedState::update(std::int64_t at, ConstView gradient, const Change& change, const Event& reduced,
                            bool reaches_gradient, std::uint64_t step) {
  if (at >= in_memory_) {
    announce(at, gradient.count());
    worker_.run([this, step] { file_->read_ahead(step); });
  }
  if (reaches_gradient) {
    worker_.wait(reduced);
  } else {
    down_.wait(reduced);
  }
  worker_.wait(uploaded_);
  const std::int64_t most = tiles_.front().gradient.count();
  std::int64_t count = 0;
  for (std::int64_t done = 0; done < gradient.count(); done += count) {
    count = reach(at + done, std::min(most, gradient.count() - done));
    const ConstView there = gradient.slice(done, count);
    update_piece(at + done,
                 reaches_gradient ? ConstView(there.data(), count, there.dtype()) : download(there),
                 {change.begin + done, change.factors}, step);
    const Event updated = worker_.record();
    if (!reaches_gradient) tiles_[next_tile_++ % tiles_.size()].free = updated;
    updated_.push_back({at + done, count, updated});
    worker_.run([down = down_, up = up_]() mutable {
      down.poll();
      up.poll();
    });
  }
}

// A piece lies either in memory or in the file.
void OffloadedState::update_piece(std::int64_t at, ConstView gradient, const Change& change,
                                  std::uint64_t step) {
  const std::int64_t count = gradient.count();
  const View parameters = parameters_.view().slice(at, count);
  if (at < in_memory_)
    return grouped_step(arrays_.views(at, count).step(kind_, gradient, parameters), change.begin,
                        *change.factors, worker_);
  worker_.run([this, at, count, gradient, parameters, change, step] {
    file_->visit(at - in_memory_, count, true, step, [&](const StateViews& there) {
      grouped_step(there.step(kind_, gradient, parameters), change.begin, *change.factors, Stream());
    });
  });
}

ConstView OffloadedState::download(ConstView gradient) {
  Tile& tile = tiles_[next_tile_ % tiles_.size()];
  const View staged = tile.gradient.view().slice(0, gradient.count());
  down_.wait(tile.free);
  copy(staged, gradient, down_);
  worker_.wait(down_.record());
  return staged;
}

Event OffloadedState::upload(std::int64_t at, View parameters, const Event& free) {
  up_.wait(free);
  for (std::int64_t uploaded = 0; uploaded < parameters.count(); updated_.pop_front()) {
    if (updated_.empty() || updated_.front().at != at + uploaded)
      throw Error(ErrorKind::usage, "parameters are uploaded from the host that were not updated there");
    const Updated& next = updated_.front();
    up_.wait(next.done);
    copy(parameters.slice(uploaded, next.count), parameters_.view().slice(next.at, next.count), up_);
    uploaded += next.count;
  }
  return up_.record();
}

void OffloadedState::synchronize() {
  worker_.synchronize();
  if (file_) file_->settle(0);
  down_.synchronize();
  up_.synchronize();
}

void OffloadedState::copy_parameters(std::int64_t at, ConstView parameters, const Stream& stream) {
  copy(parameters_.view().slice(at, parameters.count()), parameters, stream);
}

double OffloadedState::file_rate() {
  if (!file_) return std::numeric_limits<double>::infinity();
  synchronize();
  const auto all = static_cast<double>(parameters_.count());
  const double in_file = all - static_cast<double>(in_memory_);
  return file_->elements_per_second() * static_cast<double>(size_of(kind_.dtype)) * all / in_file;
}

std::int64_t OffloadedState::host_bytes() const {
  std::int64_t bytes = arrays_.bytes() + static_cast<std::int64_t>(parameters_.size_bytes());
  for (const Tile& tile : tiles_) bytes += static_cast<std::int64_t>(tile.gradient.size_bytes());
  return bytes + (file_ ? file_->ring_bytes() : 0);
}

}  // namespace weft::detail
