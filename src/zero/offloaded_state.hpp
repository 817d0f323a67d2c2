#pragma once
// The part of an optimizer's state that lies in host memory: gradients come down in tiles, a thread of the
// host updates, new parameters go up.
//
// There are two tiles of staging for gradients, so that one comes while the other is used. Parameters have a
// place each on the host instead: those of buckets that are updated behind backward stay there until backward
// has read the old ones for the last time.

#include <array>
#include <functional>

#include "weft/core/buffer.hpp"
#include "zero/fused_step.hpp"

namespace weft::detail {

/// How many arrays beside the parameters are kept, and of which type.
struct StateKind {
  DataType dtype = DataType::f32;  ///< of parameters and gradients
  Master kept = Master::none;
  int moments = 0;
};

/// Masters and moments of some elements, in memory of one place; those that are not kept are empty.
struct StateArrays {
  Buffer master;
  Buffer first;
  Buffer second;

  using Allocate = std::function<Buffer(DataType dtype, std::int64_t count)>;
  static StateArrays make(const StateKind& kind, std::int64_t elements, const Allocate& allocate);
  /// Of `count` elements from `at` on.
  StepSlice slice(const StateKind& kind, ConstView gradient, View parameters, std::int64_t at);
  /// `count` elements from `at` on are what `from` has from `from_at` on.
  void take(std::int64_t at, StateArrays& from, std::int64_t from_at, std::int64_t count, Stream stream);
  std::int64_t bytes() const;
};

class OffloadedState {
 public:
  OffloadedState(Device device, const StateKind& kind, std::int64_t elements, std::size_t tile_bytes);

  /// Parameters and masters, from what the device has; blocks.
  void load(std::int64_t at, ConstView parameters);
  /// On the host, of elements from `at` on, when `reduced` has come. The gradient stays until what bring()
  /// returns; the host reads it where it is if it reaches it there.
  void update(std::int64_t at, ConstView gradient, const StepFactors& factors, const Event& reduced,
              bool reaches_gradient);
  /// What update() made of elements from `at` on goes to the device's `parameters` after `free`; in the order
  /// of updates. Returns when it is there.
  Event bring(std::int64_t at, View parameters, const Event& free);
  /// Nothing is under way any more. Blocks.
  void synchronize();
  /// Parameters alone: masters and moments come from where they were.
  void take(std::int64_t at, ConstView parameters, const Stream& stream);
  StateArrays& arrays() { return arrays_; }
  /// All that was updated is brought; then `function` runs on the host's thread.
  template <class Function>
  void then(Function function) {
    worker_.run(std::move(function));
  }
  /// What is updated from now on is of the next step.
  void end_step() { brought_ = up_.record(); }

  std::int64_t bytes() const;

 private:
  struct Tile {
    Buffer gradient;
    Event free{};
  };
  /// Into the next tile; the worker waits for it.
  ConstView bring_down(ConstView gradient);

  struct Updated {
    std::int64_t at;
    std::int64_t count;
    Event done;
  };

  StateKind kind_;
  Buffer parameters_;
  StateArrays arrays_;
  std::array<Tile, 2> tiles_;
  std::size_t next_tile_ = 0;
  RecycledDeque<Updated> updated_;  // and not brought
  Event brought_{};                 // all of the step before
  Stream down_;
  Stream up_;
  Stream worker_ = Stream::queued();  // goes first: it uses the others
};

}  // namespace weft::detail
