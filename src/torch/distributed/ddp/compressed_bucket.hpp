#pragma once
// One bucket of DDP that travels compressed: a hook of weft over a plan of that one bucket.
//
// DDP lays gradients one behind the other, without the gaps of a ParamLayout. PowerSGD, which needs each
// matrix, is told their places; codecs take the bucket for one vector. So the hook works where DDP's bucket
// lies, if its elements are f32 and whole cache lines. Otherwise, and where DDP comes with other memory than
// before, the bucket is copied to memory of its own and back: two passes over it.
//
// The codec and its options are the same on every rank. compress() of Python has checked the names; ranges are
// checked by what takes the values, weft's codecs and PowerSGD.
//
// Only the thread that Group::in_order() or a step of a work gives the communicator to calls it.

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch/distributed/work.hpp"
#include "weft/compression/codec.hpp"
#include "weft/compression/codec_hook.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft::distributed {

struct CompressionOptions {
  std::string codec{};  ///< "powersgd", or a codec's name without parameters, as "top-k"
  double fraction = 0;  ///< of top-k and random-k
  Rounding rounding = Rounding::nearest;
  std::uint64_t seed = 0;
  CodecHookOptions hook{};
  PowerSgdOptions power_sgd{};

  bool is_power_sgd() const { return codec == "powersgd"; }
  /// Whether PowerSGD compresses this parameter.
  bool shrinks(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// PowerSGD for a bucket with these parameters. @throws Error (usage) for values that it does not take
  std::shared_ptr<PowerSgd> make_power_sgd(const std::vector<ParamSpec>& parameters) const;
  /// A codec's hook for a bucket. @param steps_before what counts for the start step beside the hook's own steps
  /// @throws Error (usage) for values that the codec does not take
  std::shared_ptr<CommHook> make_codec_hook(std::uint64_t steps_before) const;
};

/// @throws Error (usage) unless it is "nothing", "sixteen_bits" or "f32"
KeptAs kept_as_named(const std::string& name);

/// What identifies a bucket: its place among DDP's, and its parameters.
struct BucketIdentity {
  std::size_t index = 0;
  std::vector<const void*> parameters;
  friend bool operator==(const BucketIdentity&, const BucketIdentity&) = default;
};

class CompressedBucket {
 public:
  /// Collective: compares options and parameters over the ranks, and `given` is loaded on all or on none.
  /// @param parameters in DDP's order
  /// @param given PowerSGD's state of these parameters, if there is one
  CompressedBucket(const CompressionOptions& options, BucketIdentity identity,
                   const std::vector<ParamSpec>& parameters, const at::Tensor& buffer, Communicator& comm,
                   std::uint64_t steps_before, const std::optional<PowerSgdState>& given, Stream wire);

  const BucketIdentity& identity() const { return identity_; }
  /// Replaces the gradients in `buffer` by their means.
  void reduce(const at::Tensor& buffer, const Issue& issue);
  /// PowerSGD's, between steps; nullopt where it compresses nothing here.
  std::optional<PowerSgdState> state();

 private:
  void make_plan(const std::vector<ParamSpec>& parameters, bool by_parameter);
  void choose_memory(const at::Tensor& buffer, Communicator& comm);
  GradientSpace space(const std::vector<ParamSpec>& parameters) const;

  BucketIdentity identity_;
  std::uint64_t number_ = 0;
  std::shared_ptr<CommHook> hook_;
  std::shared_ptr<PowerSgd> power_sgd_;  // the same, or null
  std::optional<BucketPlan> plan_;
  at::Tensor memory_;  // f32; DDP's, or this bucket's own
  Stream wire_;
};

}  // namespace weft::distributed
