#pragma once
// The common part of the codec hooks: it counts steps, keeps errors, has memory for each bucket, and reduces
// without a codec before start_step. A hook of one algebra adds the exchange of encoded buckets.

#include <map>
#include <optional>

#include "compression/hooks/non_finite_guard.hpp"
#include "gradient/bucket_ring/ring_gradients.hpp"
#include "weft/compression/codec_hook.hpp"

namespace weft::detail {

class CodecHookBase : public CommHook {
 public:
  CodecHookBase(std::shared_ptr<const Codec> codec, CodecHookOptions options);

  std::string name() const override;
  std::int64_t granularity() const override;
  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override;
  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) final;
  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                      const Stream& compute, const Stream& wire) final;

  checkpoint::State saved_state() override;
  void load_saved_state(const checkpoint::Values& values, const checkpoint::Reader& read) override;

  /// Waits for the previous step, if there was one, and commits its errors if it counts.
  void finish_step();
  const ErrorFeedback* errors() const { return feedback_ ? &*feedback_ : nullptr; }

 protected:
  /// A bucket that is being reduced. Tasks of the stream hold copies.
  struct Job {
    View gradient;
    std::optional<View> mine;  ///< with sharded means: the part to write
    View scratch;              ///< scratch_bytes() bytes
    CodingPosition position;   ///< this rank's, at the bucket's begin
    int ranks = 1;
    const Gaps* gaps = nullptr;  ///< between parameters
  };

  virtual std::int64_t scratch_bytes(std::int64_t count, std::int64_t ranks) const = 0;
  /// Submits to `wire` what makes means of the job's gradients.
  virtual void exchange(const Job& job, Communicator& comm, Stream wire) = 0;

  const Codec& codec() const { return *codec_; }
  ErrorFeedback* feedback() { return feedback_ ? &*feedback_ : nullptr; }
  /// Encodes values + error. With error feedback, it leaves in `values` what the codec lost.
  /// @returns true if the step can count
  bool encode(std::span<std::byte> encoded, std::span<float> values, const CodingPosition& position) const;
  void found_non_finite() { guard_.found_non_finite(); }
  /// For kernels that find it.
  std::int32_t* non_finite_flag() { return guard_.flag(); }
  /// Sets the elements between parameters to zero: a NaN block may have written NaN there. Call it before
  /// anything is encoded.
  static void clear_gaps(const Job& job);
  /// The same on a device, in the order of `wire`.
  static void clear_gaps(const Job& job, const Stream& wire);

 private:
  struct Place {
    View scratch;
    Gaps gaps;
  };

  void submit(const Bucket& bucket, View gradient, std::optional<View> mine, Communicator& comm,
              const Stream& wire);
  void exchange_uncompressed(const Job& job, Communicator& comm, Stream wire);
  void expect_takes(const GradientSpace& gradients) const;

  std::shared_ptr<const Codec> codec_;
  CodecHookOptions options_;
  std::optional<ErrorFeedback> feedback_;
  NonFiniteGuard guard_;
  std::uint64_t step_ = 0;  // number of steps that counted
  bool is_coded_ = false;   // whether the current step uses the codec
  std::int64_t first_begin_ = 0;
  std::optional<ParamLayout> layout_;  // once planned
  int rank_ = 0;
  int ranks_ = 1;
  std::map<std::int64_t, Place> places_;  // by the begin of a bucket
  Buffer scratch_;
};

std::shared_ptr<CommHook> blockwise_hook(std::shared_ptr<const Codec> codec, CodecHookOptions options);

}  // namespace weft::detail
