#pragma once
// The offloaded part of an optimizer's state. Gradients are copied to the host in tiles, a worker thread
// updates, and new parameters are copied to the device. Masters and moments of the first elements lie in host
// memory, all others in a file.
//
// Gradients pass through two staging tiles, so that one is copied while the other is used. Parameters are
// kept whole on the host: a bucket that is updated behind backward must not reach the device before backward
// has read the old parameters for the last time.

#include <array>
#include <functional>
#include <memory>

#include "weft/zero/offload.hpp"
#include "zero/offload/state_file.hpp"
#include "zero/offload/state_layout.hpp"
#include "zero/update/grouped_step.hpp"

namespace weft::detail {

class OffloadedState {
 public:
  /// Called with masters and moments of `count` elements, which stay in memory during the call. `done`
  /// elements of the visited range came before.
  using Visitor = std::function<void(std::int64_t done, std::int64_t count, const StateViews& there)>;

  /// How an update goes: factors by group, and where its elements begin in the flat space.
  struct Change {
    std::int64_t begin = 0;
    std::shared_ptr<const GroupedFactors> factors{};
  };

  OffloadedState(Device device, const StateKind& kind, const StateSplit& split, const zero::Offload& options,
                 int rank);

  /// Copies parameters from the device and sets masters from them; blocks.
  void load(std::int64_t at, ConstView parameters);
  /// Starts the update of elements from `at` on, which begins when `reduced` is done. The gradient must stay
  /// valid until the event that upload() returns.
  /// @param reaches_gradient whether the host reads the gradient where it lies, without a copy
  /// @param step the step's number for messages
  void update(std::int64_t at, ConstView gradient, const Change& change, const Event& reduced,
              bool reaches_gradient, std::uint64_t step);
  /// Copies updated parameters from `at` on to the device's `parameters` after `free`. Call it in the order
  /// of update(). The event is done when the copy is.
  Event upload(std::int64_t at, View parameters, const Event& free);
  /// Blocks until all updates and copies are done.
  void synchronize();
  /// Copies parameters only, when state moves and its masters and moments are copied by visit().
  void copy_parameters(std::int64_t at, ConstView parameters, const Stream& stream);
  /// Calls `visitor` with masters and moments from `at` on, piece by piece; no update may be under way.
  /// Blocks.
  void visit(std::int64_t at, std::int64_t count, bool changes, const Visitor& visitor);
  /// Runs `function` on the worker thread after the updates started so far.
  template <class Function>
  void then(Function function) {
    worker_.run(std::move(function));
  }
  /// Ends a step: updates started from now on wait for the copies to the device started so far.
  void end_step() { uploaded_ = up_.record(); }

  /// Bytes of parameters per second at which the file's reads and writes alone would allow updates; infinity
  /// without a file. Blocks.
  double file_rate();
  std::int64_t host_bytes() const;
  std::int64_t file_bytes() const { return file_ ? file_->file_bytes() : 0; }

 private:
  struct Tile {
    Buffer gradient;
    Event free{};
  };
  /// How many elements from `at` on, at most `most`, are updated at once.
  std::int64_t reach(std::int64_t at, std::int64_t most) const;
  /// Announces elements of the file that will be visited.
  void announce(std::int64_t at, std::int64_t count);
  /// Updates one piece on the worker.
  void update_piece(std::int64_t at, ConstView gradient, const Change& change, std::uint64_t step);
  /// Copies a gradient into the next tile; the worker waits for the copy.
  ConstView download(ConstView gradient);

  struct Updated {
    std::int64_t at;
    std::int64_t count;
    Event done;
  };

  StateKind kind_;
  Buffer parameters_;
  StateArrays arrays_;
  std::int64_t in_memory_;           // elements in host memory
  std::unique_ptr<StateFile> file_;  // the others; null if there are none
  std::array<Tile, 2> tiles_;
  std::size_t next_tile_ = 0;
  RecycledDeque<Updated> updated_;  // and not uploaded yet
  Event uploaded_{};                // all copies to the device of the step before
  Stream down_;
  Stream up_;
  Stream worker_ = Stream::queued();  // last, to be destroyed first: it uses the others
};

}  // namespace weft::detail
