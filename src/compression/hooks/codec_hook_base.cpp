#include "compression/hooks/codec_hook_base.hpp"

#include <algorithm>
#include <numeric>

#include "compression/codecs/block_kernel.hpp"
#include "compression/codecs/cuda/block_coding.hpp"
#include "compression/hooks/saved_hook.hpp"
#include "core/base/round_up.hpp"
#include "core/memory/elementwise.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

bool can_count(std::span<const float> values) {
  return block_kernel().largest(values.data(), static_cast<std::int64_t>(values.size())) <= largest_coded;
}

}  // namespace

CodecHookBase::CodecHookBase(std::shared_ptr<const Codec> codec, CodecHookOptions options)
    : codec_(std::move(codec)), options_(options) {
  if (options.residual != KeptAs::nothing) feedback_.emplace(codec_, options.residual);
}

std::string CodecHookBase::name() const {
  std::string name = codec_->name();
  if (feedback_) name += options_.residual == KeptAs::f32 ? " with errors in f32" : " with errors in 16 bits";
  if (options_.start_step > 0) name += text(" from step ", options_.start_step);
  return name;
}

std::int64_t CodecHookBase::granularity() const {
  return feedback_ ? std::lcm(codec_->block(), ErrorFeedback::block) : codec_->block();
}

void CodecHookBase::expect_takes(const GradientSpace& gradients) const {
  const bool has_kernels = gradients.device().is_host() || block_form(*codec_);
  if (gradients.dtype() == DataType::f32 && has_kernels) return;
  throw Error(ErrorKind::usage,
              text("gradients of ", gradients.dtype(), " on ", gradients.device(), " in ", codec_->name()),
              has_kernels ? "codecs take f32: chain cast_hook(DataType::f32, codec_hook(...))"
                          : "on devices there are fp16, bf16, fp8, int8, int4 and fp4, and PowerSGD");
}

void CodecHookBase::planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) {
  expect_takes(gradients);
  if (places_.empty() && !gradients.device().is_host()) guard_ = NonFiniteGuard(gradients.device());
  const auto whole_lines = [](std::int64_t bytes) {
    constexpr auto line = static_cast<std::int64_t>(Buffer::alignment);
    return std::max(line, round_up(bytes, line));
  };
  std::int64_t bytes = 0;
  for (const Bucket& bucket : plan.buckets()) {
    if (bucket.begin % granularity() != 0 ||
        (bucket.end % granularity() != 0 && bucket.end != plan.layout().size())) {
      throw Error(ErrorKind::usage,
                  text("a bucket [", bucket.begin, ", ", bucket.end, ") for ", codec_->name()),
                  text("plan buckets of multiples of ", granularity(), " elements, with aligned()"));
    }
    bytes += whole_lines(scratch_bytes(bucket.count(), comm.size()));
  }
  if (bytes > scratch_.count()) scratch_ = comm.allocate(DataType::u8, bytes);
  if (feedback_) feedback_->cover(plan.end(), gradients.device());
  layout_ = plan.layout();
  rank_ = comm.rank();
  ranks_ = comm.size();
  places_.clear();
  std::int64_t at = 0;
  for (const Bucket& bucket : plan.buckets()) {
    const std::int64_t taken = whole_lines(scratch_bytes(bucket.count(), comm.size()));
    places_[bucket.begin] = {scratch_.view().slice(at, taken), gaps_of(bucket, plan.layout())};
    at += taken;
  }
  if (!plan.buckets().empty()) first_begin_ = plan.buckets().front().begin;
}

void CodecHookBase::finish_step() {
  if (!guard_.finish_step()) return;
  if (feedback_ && is_coded_) feedback_->commit();
  ++step_;
}

checkpoint::State CodecHookBase::saved_state() {
  finish_step();
  checkpoint::State state{
      {}, {{hook_steps, static_cast<std::int64_t>(step_)}, {hook_ranks, std::int64_t{ranks_}}}};
  if (!feedback_) return state;
  const auto all = std::make_shared<const std::vector<float>>(feedback_->saved());
  for (int i = 0; i < layout_->parameters(); ++i) {
    const ParamId id{i};
    state.pieces.push_back(kept_piece(residual_name(rank_, layout_->name(id)), layout_->shape(id), all,
                                      layout_->offset(id), layout_->count(id)));
  }
  return state;
}

void CodecHookBase::load_saved_state(const checkpoint::Values& values, const checkpoint::Reader& read) {
  finish_step();
  const SavedResiduals residuals{static_cast<int>(saved_number(values, hook_ranks)), ranks_, rank_};
  if (feedback_) {
    std::vector<float> all(static_cast<std::size_t>(layout_->size()));
    for (int i = 0; i < layout_->parameters(); ++i) {
      const ParamId id{i};
      residuals.read(read, layout_->name(id), layout_->shape(id),
                     std::span(all).subspan(static_cast<std::size_t>(layout_->offset(id)),
                                            static_cast<std::size_t>(layout_->count(id))));
    }
    feedback_->restore(all);
  }
  step_ = static_cast<std::uint64_t>(saved_number(values, hook_steps));
}

void CodecHookBase::reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream&,
                           const Stream& wire) {
  submit(bucket, gradient, {}, comm, wire);
}

void CodecHookBase::reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                                   const Stream&, const Stream& wire) {
  submit(bucket, gradient, mine, comm, wire);
}

void CodecHookBase::submit(const Bucket& bucket, View gradient, std::optional<View> mine, Communicator& comm,
                           const Stream& wire) {
  const auto place = places_.find(bucket.begin);
  if (place == places_.end())
    throw Error(ErrorKind::usage, text("a bucket [", bucket.begin, ", ", bucket.end, ") of no plan"),
                "call planned() first");
  if (bucket.begin == first_begin_) {
    finish_step();
    is_coded_ = step_ >= options_.start_step;
  }
  const Job job{
      gradient,           mine, place->second.scratch, {step_, comm.rank(), bucket.begin}, comm.size(),
      &place->second.gaps};
  if (is_coded_) {
    exchange(job, comm, wire);
  } else {
    exchange_uncompressed(job, comm, wire);
  }
  guard_.submitted(wire);
}

// With sharded means a rank does not see NaN in the parts of others. So an all_reduce(max) of one
// flag tells all.
void CodecHookBase::exchange_uncompressed(const Job& job, Communicator& comm, Stream wire) {
  const View any_bad(job.scratch.data(), 1, DataType::i32, job.scratch.device());
  const bool on_host = job.gradient.device().is_host();
  const auto kernels = on_host ? nullptr : cuda::block_code_kernels();
  const cuda::Place place = on_host ? cuda::Place() : cuda::place_of(wire);
  if (on_host) {
    wire.run([=] { any_bad.as<std::int32_t>()[0] = can_count(job.gradient.as<float>()) ? 0 : 1; });
  } else {
    fill(any_bad, 0, wire);
    wire.run([=] { kernels->check(job.gradient, static_cast<std::int32_t*>(any_bad.data()), place); });
  }
  comm.all_reduce(any_bad, ReduceOp::max, wire);
  if (job.mine) {
    comm.reduce_scatter(job.gradient, *job.mine, ReduceOp::avg, wire);
  } else {
    comm.all_reduce(job.gradient, ReduceOp::avg, wire);
  }
  if (on_host) {
    wire.run([this, any_bad] {
      if (any_bad.as<std::int32_t>()[0] != 0) found_non_finite();
    });
  } else {
    wire.run([=, this] {
      kernels->report(static_cast<const std::int32_t*>(any_bad.data()), non_finite_flag(), place);
    });
  }
}

bool CodecHookBase::encode(std::span<std::byte> encoded, std::span<float> values,
                           const CodingPosition& position) const {
  if (feedback_) return feedback_->encode(encoded, values, position);
  codec_->encode(encoded, values, position);
  return can_count(values);
}

void CodecHookBase::clear_gaps(const Job& job, const Stream& wire) {
  for (const auto& [begin, end] : *job.gaps) fill(job.gradient.slice(begin, end - begin), 0, wire);
}

void CodecHookBase::clear_gaps(const Job& job) {
  const auto gradient = job.gradient.as<float>();
  for (const auto& [begin, end] : *job.gaps)
    std::fill(gradient.begin() + begin, gradient.begin() + end, 0.0F);
}

}  // namespace weft::detail
