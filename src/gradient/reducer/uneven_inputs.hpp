#pragma once
// How ranks differ within a step: how they share out its micro-batches, which have run out of batches, and which
// parameters had a gradient. The last two are exchanged by a small all_reduce on a separate inline stream, which compute streams
// progress in finish_step.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/reducer_options.hpp"

namespace weft::detail {

/// How many ranks still have batches. Each step begins with an all_reduce of 4 bytes.
class UnevenInputs {
 public:
  /// @param rescales whether means are to be over the ranks that have a batch
  explicit UnevenInputs(bool rescales) : rescales_(rescales) {}

  /// Collective; does not block.
  void begin_step(Communicator& comm, bool has_batch);
  /// Done when ranks_left() would not block.
  const Event& shared() const { return shared_.event(); }
  /// The ranks that have a batch in this step. Blocks until all ranks have begun it.
  int ranks_left();
  /// Turns a mean over all `ranks` into a mean over the ranks that have a batch, in the order of `lane`. Does
  /// nothing unless the constructor was told to rescale.
  void correct(View means, int ranks, Stream lane);

 private:
  bool rescales_;
  std::shared_ptr<std::int32_t> left_;  // of this step; streams may still hold that of an earlier one
  Stream stream_;
  Work shared_;
};

/// How ranks share out the micro-batches of a step.
class MicroBatchShares {
 public:
  /// @param all as ReducerOptions::micro_batches
  MicroBatchShares(std::int64_t all, int ranks) : all_(all), ranks_(ranks) {}

  /// Whether a rank may take this many micro-steps. @param alike whether all ranks must take equally many
  bool takes(int micro_steps, bool alike) const;
  /// "4 micro-batches on 3 ranks, of which each takes 1 or 2".
  std::string words() const;
  /// Turns a mean over ranks of their sums into one over micro-batches, in the order of `lane`.
  void divide(View means, int micro_steps, const Stream& lane) const;

 private:
  std::int64_t least() const { return std::max<std::int64_t>(all_ / ranks_, 1); }
  std::int64_t most() const { return (all_ + ranks_ - 1) / ranks_; }

  std::int64_t all_;
  int ranks_;
};

/// Which parameters had a gradient, on this rank and on any.
class UsedParameters {
 public:
  UsedParameters(Unused unused, int parameters)
      : unused_(unused), here_(static_cast<std::size_t>(parameters), 1), anywhere_(here_) {}

  /// @param fresh whether nothing is accumulated yet
  void begin_micro_step(bool fresh) {
    unused_now_.clear();
    if (fresh && unused_ != Unused::refuse) here_.assign(here_.size(), 0);
  }
  void is_used(ParamId id) { here_[index(id)] = 1; }
  void is_unused(ParamId id) { unused_now_.push_back(id); }
  /// Starts an all_reduce(max) of one byte per parameter, when all are marked. Collective; does not block.
  void share(Communicator& comm);
  /// Done when anywhere() would not block.
  const Event& shared() const { return shared_.event(); }
  /// Whether any rank had a gradient of it in the step that was shared last. Blocks until that is known.
  bool anywhere(ParamId id) {
    shared_.wait();
    return anywhere_[index(id)] != 0;
  }
  /// The parameters that are taken to be unused on this rank in every micro-step.
  const std::vector<ParamId>& expected() const { return expected_; }
  /// Whether expected() is what the first step showed.
  bool is_known() const { return is_known_; }

 private:
  Unused unused_;
  std::vector<std::uint8_t> here_;   // in any micro-step
  std::vector<ParamId> unused_now_;  // in this micro-step
  std::vector<std::uint8_t> anywhere_;
  std::vector<ParamId> expected_;
  bool is_known_ = false;
  Stream stream_;
  Work shared_;
};

}  // namespace weft::detail
