#pragma once
// What a DDP model is given: a communication hook whose buckets travel compressed, and sizes of buckets.
//
//   Compression compression(group, options, names_and_parameters);
//   auto future = compression.reduce(bucket);      // of the bucket's tensor, which then holds the means
//
// A bucket is known again by its index and its parameters. DDP builds buckets anew after its first step: what
// PowerSGD keeps belongs to parameters and moves to their new buckets; the residuals of other codecs begin at
// zero. The first step of a bucket compares options over the ranks, and blocks for that. Calls for buckets
// come in DDP's order, the same on all ranks; one thread at a time calls. Errors of a call are thrown, those
// that are found later are the future's.
//
// bucket_sizes(): DDP takes limits of bytes and fills buckets with gradients in their order. weft's planner makes
// the buckets; all ranks must give the same values.

#include <ATen/core/ivalue.h>

#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "torch/distributed/ddp/compressed_bucket.hpp"
#include "torch/distributed/group.hpp"
#include "weft/gradient/bucket_planner.hpp"

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
  void drop_from(std::size_t index);
  std::shared_ptr<CompressedBucket> make(BucketIdentity identity, const c10d::GradBucket& bucket);
  std::optional<PowerSgdState> take_kept(const std::vector<ParamSpec>& parameters);
  void keep(CompressedBucket& bucket);

  const std::shared_ptr<Group> group_;
  const CompressionOptions options_;
  std::map<const void*, std::string> names_;
  std::map<std::string, std::vector<std::int64_t>> matrices_;  ///< what PowerSGD compresses, with its shape
  std::optional<Stream> thread_;  ///< of the wire, where this process has a core for one

  std::mutex mutex_;
  std::vector<std::shared_ptr<CompressedBucket>>
      buckets_;  ///< by index; null where none with elements was seen
  std::uint64_t step_ =
      0;  ///< that is under way, from 1: begins with a bucket that is not behind the last one
  std::size_t last_index_ = std::numeric_limits<std::size_t>::max();
  std::map<std::string, KeptTensor> kept_;  ///< for buckets that are yet to come
};

/// Gradients in the order in which buckets are filled.
struct GradientTimes {
  DataType dtype = DataType::f32;
  std::vector<std::int64_t> counts{};
  std::vector<double> ready_seconds{};
};

/// The bytes of each bucket, which hold the gradients in their order.
/// @param link seconds of an all_reduce by bytes; two sizes at least
/// @throws Error (usage) for times that make no sense
std::vector<std::int64_t> bucket_sizes(const GradientTimes& gradients,
                                       std::span<const LinkModel::Sample> link);
/// The same where nothing was measured: buckets are closed as soon as they hold `bytes`.
std::vector<std::int64_t> bucket_sizes(const GradientTimes& gradients, std::size_t bytes);

}  // namespace weft::distributed
