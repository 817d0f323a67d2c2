// The reducer's functions for gradients in a bucket ring: which options go together with one, who may write to a
// place, and what is waited for before (bucket_ring/ring_gradients.cpp has the way of a bucket).

#include "gradient/bucket_ring/ring_gradients.hpp"
#include "gradient/reducer/reducer_state.hpp"

namespace weft {

void GradientReducer::State::expect_ring_fits() const {
  const auto refuse_if = [](bool problem, const char* what, const char* advice) {
    if (problem) throw Error(ErrorKind::usage, text("gradients in a bucket ring ", what), advice);
  };
  refuse_if(options_.means != Means::sharded, "without sharded means",
            "a bucket ring keeps nothing: set means = Means::sharded");
  refuse_if(!std::holds_alternative<BucketPlan>(options_.buckets), "without a plan",
            "give plan_whole_buckets(...) as ReducerOptions::buckets");
  refuse_if(hook_->micro_batches() > 0, "beside a tree of micro-batches",
            "it sums micro-batches in buffers of all gradients: leave ring out");
  refuse_if(options_.unused != Unused::refuse, "beside parameters that may be unused",
            "their buckets would hold their places until the step is finished: mark every parameter, with "
            "zeros where there is no gradient, or leave ring out");
  refuse_if(options_.uneven != Uneven::refuse, "beside uneven batches",
            "give every rank equally many batches, or leave ring out");
}

void GradientReducer::State::make_ring(const BucketPlan& plan) {
  const std::int64_t elements = detail::ring_elements(plan, options_.ring->bytes);
  ring_ = std::make_unique<detail::RingGradients>(plan, elements, comm_.device(), comm_.size(),
                                                  options_.ring->means_on_host);
}

View GradientReducer::State::gradient(ParamId id, Stream stream) {
  expect_known(id, "gradient");
  if (ring_) {
    if (!open_)
      throw Error(ErrorKind::usage,
                  text("a place for the gradient of ", layout().name(id), " was asked for outside a step"),
                  "call begin_step first", {comm_.rank(), "gradient", ready_->step()});
    if (ready_->is_marked(id)) {
      refuse("gradient",
             text("the gradient of ", layout().name(id), " is marked ready: its place may be another's"),
             "ask for it before it is marked");
    }
    wait_for_places(id, std::move(stream));
  }
  return place(id);
}

void GradientReducer::State::wait_for_places(ParamId id, Stream stream) {
  const std::size_t bucket = ready_->bucket_of(id);
  const auto& after = ring_->places().after(bucket);
  if (!after.empty()) expect_launched(after.back(), id);
  ring_->ask(id);
  if (ring_->admits(bucket, stream)) return;
  for (const std::size_t other : ring_->places().after_last_step(bucket))
    wait_for_place(stream, ring_->earlier()[other]);
  for (const std::size_t other : after) wait_for_place(stream, reduced_[other]);
  // The caller of an inline stream writes at once, not in the stream's order.
  if (stream.device().is_host() && stream.is_inline()) stream.synchronize();
}

// Buckets leave in plan order: all up to `bucket` must have been launched.
void GradientReducer::State::expect_launched(std::size_t bucket, ParamId id) {
  if (bucket < next_bucket_) return;
  std::vector<ParamId> unmarked;
  for (std::size_t i = next_bucket_; i <= bucket; ++i) {
    for (const ParamId other : plan_->buckets()[i].params) {
      if (!ready_->is_marked(other)) unmarked.push_back(other);
    }
  }
  refuse("gradient",
         text("the place for the gradient of ", layout().name(id),
              " is taken until these are marked ready: ", detail::ReadyTracker::names(unmarked, layout())),
         text("let gradients come in the order of the plan, or give the ring more bytes than ",
              static_cast<std::size_t>(ring_->places().size()) * size_of(layout().dtype())));
}

void GradientReducer::State::wait_for_place(Stream& stream, const Event& left) {
  if (stream.device().is_host()) {
    const auto waited = [step = times_](auto begin, auto end) { step->carried(end - begin); };
    stream.submit(std::make_unique<detail::WaitForBucket<decltype(waited)>>(left, wire_, waited));
    return;
  }
  wire_->on_device().start(stream);
  stream.wait(left);
  wire_->on_device().stop(stream);
}

}  // namespace weft
