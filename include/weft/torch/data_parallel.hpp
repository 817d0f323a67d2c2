#pragma once
// Data parallel training for LibTorch: the loop stays as it is, and ranks train one model.
//
// DataParallel sets a hook on every trainable parameter of a module. While backward() runs, the hooks hand
// gradients to a GradientReducer, which averages them over ranks bucket by bucket. When backward() returns,
// `.grad` of every parameter is a view of the reducer's memory and holds the mean; a tensor that the program has put
// there gets the mean and stays. A parameter belongs to one DataParallel or ZeroOptimizer at a time. Optimizers, clipping and
// schedules work on it as before, zero_grad() with and without set_to_none, too. The module gains nothing:
// its state dict is what it was.
//
//   #include <weft/torch/data_parallel.hpp>
//   weft::torch::DataParallel dp{weft::connect(weft::World::from_environment()), *net};
//   auto sampler = torch::data::samplers::DistributedRandomSampler(size, dp.size(), dp.rank());
//   for (auto& batch : *torch::data::make_data_loader(dataset, sampler, 32)) {   // from here on nothing new
//     optimizer.zero_grad();
//     torch::nll_loss(net->forward(batch.data), batch.target).backward();
//     optimizer.step();
//   }
//
// At construction all ranks get the parameters and buffers of rank 0, and after each backward its buffers.
// Gradient accumulation: all passes of a step but the last run under no_sync(); torch's sum over them is
// averaged over ranks.
//
// One thread uses it and calls backward(). Construction and every backward() that is not under no_sync() are
// collective. The module outlives it. Gradients may outlive it: they keep their memory. What backward() found
// wrong it throws (weft/torch/error.hpp), on every rank, and the communicator is broken then.
//
// Not with: modules on a device, parameters of two types, sparse gradients, compiled autograd, and gradients
// of gradients (create_graph): those that stay in `.grad` have no graph.
//
// WRONG: if (dp.rank() == 0) loss.backward();      // the others wait for the gradients of rank 0
// WRONG: the optimizer's step before backward() returned, on another thread: means are not there yet.

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>

#include "weft/compression/hook_named.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/gradient/gradient_reducer.hpp"
#include "weft/gradient/initial_values.hpp"
#include "weft/torch/error.hpp"

namespace weft::torch {

/// How gradients are reduced: those of ReducerOptions that go with torch's gradients, which are means on
/// every rank, in an arena.
struct DataParallelOptions {
  BucketChoice buckets{};
  /// hook_named("fp16"), power_sgd({.rank = 4}) and others; all_reduce_hook(), unless it is given.
  std::shared_ptr<CommHook> hook{};
  std::optional<Stream> wire{};
  /// `find`: a parameter without a gradient on this rank counts as zero; where no rank has one, `.grad` stays
  /// undefined, as without weft. `refuse`: an Error names it. Not `as_in_first_step`.
  Unused unused = Unused::find;
  Uneven uneven = Uneven::refuse;  ///< ranks that run out of batches: DataParallel::join()
  bool count_bad_values = false;
  InitialValues initial_values = InitialValues::from_rank_0;
  /// After each backward that is not under no_sync(), buffers such as running means are those of rank 0.
  bool broadcast_buffers = true;
  /// Gradients of 256 KiB or more are reduced where torch puts them, without a copy: within a node, with a hook
  /// that reduces anywhere (all_reduce, casts). To have them in memory that all ranks reach, weft puts an
  /// allocator before torch's for the CPU (c10::SetCPUAllocator), for the whole process and for good. It serves
  /// only this thread, where gradients are off, and only the sizes of such gradients. `.grad` is then torch's own
  /// tensor, another one after each set_to_none. PlannedBuckets become buckets of 1 MiB, each such gradient alone.
  /// Price: memory for these gradients once more. The bits are the same.
  bool gradients_in_place = false;
};

/// While it lives, backward() accumulates on this rank alone. Ends as its scope does; movable.
class NoSync {
 public:
  explicit NoSync(std::function<void()> end) : end_(std::move(end)) {}
  NoSync(NoSync&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync() {
    if (end_) end_();
  }

 private:
  std::function<void()> end_;
};

class DataParallel {
 public:
  /// Collective. @throws Error (usage) for a module that is not as above; (mismatch) where ranks have other
  /// modules or options
  DataParallel(Communicator comm, ::torch::nn::Module& module, DataParallelOptions options = {});
  ~DataParallel();
  DataParallel(DataParallel&&) noexcept;

  int rank() const;
  int size() const;
  /// auto alone = dp.no_sync(); for all passes of a step but the last. @throws Error (usage) where it is one
  /// already
  [[nodiscard]] NoSync no_sync();
  /// For a rank that has no more batches (DataParallelOptions::uneven): takes part in the others' steps with
  /// gradients of zero, and calls `each` when the means are in `.grad`: take the optimizer's step there.
  /// Every rank ends with join(). Blocks.
  void join(const std::function<void()>& each = nullptr);
  /// What it measured: account(), bad_values(), exposed_seconds(), plan(). Its steps are DataParallel's.
  GradientReducer& reducer();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::torch
