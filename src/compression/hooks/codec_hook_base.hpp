#pragma once
// What hooks of all algebras have in common: steps that count, errors, memory by bucket, and steps before the
// first that is coded.

#include <map>
#include <optional>

#include "compression/hooks/non_finite_guard.hpp"
#include "gradient/gaps.hpp"
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

  /// Waits for the step before, if there was one, and takes over what it kept, if it counts.
  void settle();
  const ErrorFeedback* errors() const { return feedback_ ? &*feedback_ : nullptr; }

 protected:
  /// A bucket under way. Copies travel with the stream's work.
  struct Job {
    View gradient;
    std::optional<View> mine;  ///< where only this part is asked for
    View scratch;              ///< as many bytes as scratch_bytes() said
    CodingPosition position;   ///< of this rank, at the bucket's begin
    int ranks = 1;
    const Gaps* gaps = nullptr;  ///< between parameters
  };

  virtual std::int64_t scratch_bytes(std::int64_t count, std::int64_t ranks) const = 0;
  /// Submits to `wire` what makes means of the job's gradients.
  virtual void exchange(const Job& job, Communicator& comm, Stream wire) = 0;

  const Codec& codec() const { return *codec_; }
  ErrorFeedback* feedback() { return feedback_ ? &*feedback_ : nullptr; }
  /// values + error as code; leaves in `values` what it lost, where there is feedback.
  /// @returns whether the step can count
  bool encode(std::span<std::byte> code, std::span<float> values, const CodingPosition& position) const;
  void found_non_finite() { guard_.found_non_finite(); }
  /// No parameter's: zero, also when NaN of a block has come there. Before anything is encoded.
  static void clear_gaps(const Job& job);

 private:
  struct Place {
    View scratch;
    Gaps gaps;
  };

  void submit(const Bucket& bucket, View gradient, std::optional<View> mine, Communicator& comm,
              const Stream& wire);
  void exchange_as_it_is(const Job& job, Communicator& comm, Stream wire);

  std::shared_ptr<const Codec> codec_;
  CodecHookOptions options_;
  std::optional<ErrorFeedback> feedback_;
  NonFiniteGuard guard_;
  std::uint64_t step_ = 0;  // of those that count
  bool is_coded_ = false;   // the step that runs
  std::int64_t first_begin_ = 0;
  std::map<std::int64_t, Place> places_;  // of buckets, by their begin
  Buffer scratch_;
};

std::shared_ptr<CommHook> blockwise_hook(std::shared_ptr<const Codec> codec, CodecHookOptions options);

}  // namespace weft::detail
