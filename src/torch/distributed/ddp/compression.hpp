#pragma once
// What the communication hook of a DDP model calls: its buckets travel compressed.
//
//   Compression compression(group, options, names_and_parameters);
//   auto future = compression.reduce(bucket);      // of the bucket's tensor, which then holds the means
//
// A bucket is known again by its index and its parameters. DDP builds buckets anew after its first step: what
// PowerSGD keeps belongs to parameters and moves to their new buckets; the residuals of other codecs begin at
// zero. The first step of a bucket compares options over the ranks, and blocks for that. Calls for buckets
// come in DDP's order, the same on all ranks; one thread at a time calls. Errors of a call are thrown, those
// that are found later are the future's.

#include <ATen/core/ivalue.h>

#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "torch/distributed/ddp/compressed_bucket.hpp"
#include "torch/distributed/group.hpp"

namespace weft::distributed {

/// What PowerSGD keeps of one parameter.
struct KeptTensor {
  PowerSgdState::Tensor tensor;
  std::int64_t steps = 0;  ///< of its bucket, that counted
  bool left_bases = false;
};

class Compression {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

  /// @throws ValueError for options that weft refuses, and where PowerSGD makes none of the parameters smaller,
  /// or is to leave one whole that there is not
  Compression(std::shared_ptr<Group> group, CompressionOptions options, const Parameters& parameters);

  c10::intrusive_ptr<c10::ivalue::Future> reduce(const c10d::GradBucket& bucket);

  /// Between steps. @throws ValueError unless it is PowerSGD
  std::vector<KeptTensor> state();
  /// Between steps; all ranks load the states that they saved together. Buckets take their part, and compare it
  /// over the ranks, in the next step. @throws ValueError for parameters that the model lacks, or that it has
  /// and the state lacks
  void load_state(std::vector<KeptTensor> state);

 private:
  void expect_power_sgd(const char* call) const;
  std::shared_ptr<CompressedBucket> bucket(const c10d::GradBucket& bucket);
  std::uint64_t drop_from(std::size_t index);
  std::shared_ptr<CompressedBucket> make(BucketIdentity identity, const c10d::GradBucket& bucket,
                                         std::uint64_t steps_before);
  std::optional<PowerSgdState> take_kept(const std::vector<ParamSpec>& parameters);
  void keep(CompressedBucket& bucket);

  const std::shared_ptr<Group> group_;
  const CompressionOptions options_;
  std::map<const void*, std::string> names_;
  std::map<std::string, std::vector<std::int64_t>> matrices_;  ///< what PowerSGD compresses, with its shape
  std::optional<Stream> thread_;  ///< of the wire, where this process has a core for one

  struct Slot {
    std::shared_ptr<CompressedBucket> bucket;
    std::uint64_t steps = 0;  ///< of the training, so far
  };
  std::mutex mutex_;
  std::vector<Slot> slots_;                 ///< by index of the bucket
  std::map<std::string, KeptTensor> kept_;  ///< for buckets that are yet to come
};

}  // namespace weft::distributed
