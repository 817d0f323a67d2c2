#pragma once
// The part of an optimizer's state that is not on the device: gradients come down in tiles, a thread of the
// host updates, new parameters go up. Masters and moments lie in host memory, the first of these elements,
// and in a file, the rest.
//
// There are two tiles of staging for gradients, so that one comes while the other is used. Parameters have a
// place each on the host instead: those of buckets that are updated behind backward stay there until backward
// has read the old ones for the last time.

#include <array>
#include <functional>
#include <memory>

#include "weft/zero/offload.hpp"
#include "zero/state_arrays.hpp"
#include "zero/state_file.hpp"
#include "zero/state_split.hpp"

namespace weft::detail {

class OffloadedState {
 public:
  /// Masters and moments of some elements, in memory for as long as this is called; the first is `done` after
  /// the first of all.
  using Work = std::function<void(std::int64_t done, std::int64_t count, const StateViews& there)>;

  OffloadedState(Device device, const StateKind& kind, const StateSplit& split, const zero::Offload& options,
                 int rank);

  /// Parameters and masters, from what the device has; blocks.
  void load(std::int64_t at, ConstView parameters);
  /// On the host, of elements from `at` on, when `reduced` has come. The gradient stays until what bring()
  /// returns; the host reads it where it is if it reaches it there. @param step for messages
  void update(std::int64_t at, ConstView gradient, const StepFactors& factors, const Event& reduced,
              bool reaches_gradient, std::uint64_t step);
  /// What update() made of elements from `at` on goes to the device's `parameters` after `free`; in the order
  /// of updates. Returns when it is there.
  Event bring(std::int64_t at, View parameters, const Event& free);
  /// Nothing is under way any more. Blocks.
  void synchronize();
  /// Parameters alone: masters and moments come from where they were.
  void take(std::int64_t at, ConstView parameters, const Stream& stream);
  /// Masters and moments from `at` on, where nothing is under way: part by part. Blocks.
  void visit(std::int64_t at, std::int64_t count, bool changes, const Work& work);
  /// All that was updated is brought; then `function` runs on the host's thread.
  template <class Function>
  void then(Function function) {
    worker_.run(std::move(function));
  }
  /// What is updated from now on is of the next step.
  void end_step() { brought_ = up_.record(); }

  /// Of parameters, that pass in a second where the file is all that takes time; without one, endless.
  /// Blocks.
  double file_rate();
  std::int64_t host_bytes() const;
  std::int64_t file_bytes() const { return file_ ? file_->file_bytes() : 0; }

 private:
  struct Tile {
    Buffer gradient;
    Event free{};
  };
  /// Elements from `at` on, at most `most`, that are updated at once.
  std::int64_t reach(std::int64_t at, std::int64_t most) const;
  /// Of the file: they will be visited.
  void announce(std::int64_t at, std::int64_t count);
  /// Of so many elements, in the worker's order.
  void work_on(std::int64_t at, ConstView gradient, const StepFactors& factors, std::uint64_t step);
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
  std::int64_t in_memory_;           // elements of it
  std::unique_ptr<StateFile> file_;  // of the others; null: there are none
  std::array<Tile, 2> tiles_;
  std::size_t next_tile_ = 0;
  RecycledDeque<Updated> updated_;  // and not brought
  Event brought_{};                 // all of the step before
  Stream down_;
  Stream up_;
  Stream worker_ = Stream::queued();  // goes first: it uses the others
};

}  // namespace weft::detail
