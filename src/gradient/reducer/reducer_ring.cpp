// The reducer's functions for gradients in a bucket ring: which options go together with one, who may write to a
// place, and what is waited for before (bucket_ring/ring_gradients.cpp has the way of a bucket).

#include "gradient/bucket_ring/ring_gradients.hpp"
#include "gradient/reducer/reducer_state.hpp"
#include "weft/core/copy.hpp"

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
    if (ready_->is_marked(id) || ring_->holds(id)) {
      refuse("gradient",
             text("the gradient of ", layout().name(id), " is marked ready: its place may be another's"),
             "ask for it before it is marked");
    }
    if (!has_place(id)) {
      ring_->ask(id);
      return ring_->aside(id, layout().count(id));
    }
    if (ring_->is_aside(id)) return ring_->memory_aside(id);  // asked for again: it is being written
    wait_for_places(id, std::move(stream));
  }
  return place(id);
}

// Buckets leave in plan order: all up to the last that had the place must have been launched.
bool GradientReducer::State::has_place(ParamId id) const {
  const auto& after = ring_->places().after(ready_->bucket_of(id));
  return after.empty() || after.back() < next_bucket_;
}

void GradientReducer::State::wait_for_places(ParamId id, Stream stream) {
  const std::size_t bucket = ready_->bucket_of(id);
  ring_->ask(id);
  if (ring_->admits(bucket, stream)) return;
  for (const std::size_t other : ring_->places().after_last_step(bucket))
    wait_for_place(stream, ring_->earlier()[other]);
  for (const std::size_t other : ring_->places().after(bucket)) wait_for_place(stream, reduced_[other]);
  // The caller of an inline stream writes at once, not in the stream's order.
  if (stream.device().is_host() && stream.is_inline()) stream.synchronize();
}

void GradientReducer::State::place_held() {
  while (auto one = ring_->next_held([this](ParamId id) { return has_place(id); })) {
    auto& [id, stream] = *one;
    wait_for_places(id, stream);
    copy(place(id), ring_->memory_aside(id), stream);
    mark(id, stream);
  }
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
