// Gradients in windows: what cannot be had there, and who waits for a place.

#include "gradient/reducer_state.hpp"

namespace weft {

using detail::ReadyTracker;

void GradientReducer::State::expect_windows_fit() const {
  const auto refuse_if = [](bool problem, const char* what, const char* advice) {
    if (problem) throw Error(ErrorKind::usage, text("window_bytes ", what), advice);
  };
  refuse_if(options_.means != Means::sharded, "without sharded means",
            "a window keeps nothing: set means = Means::sharded");
  refuse_if(!options_.plan, "without a plan", "give plan_whole_buckets(...) as ReducerOptions::plan");
  refuse_if(options_.fixed_parts > 0, "beside fixed_parts",
            "they fold micro-batches in buffers of all gradients: leave window_bytes out");
  refuse_if(options_.unused != Unused::refuse, "beside parameters that may be unused",
            "their buckets would hold their places until the step is finished: mark every parameter, with "
            "zeros where there is no gradient, or leave window_bytes out");
  refuse_if(options_.uneven != Uneven::refuse, "beside uneven batches",
            "give every rank equally many batches, or leave window_bytes out");
}

void GradientReducer::State::make_windows(const BucketPlan& plan) {
  const std::int64_t elements = detail::window_elements(plan, *options_.window_bytes);
  windows_ = std::make_unique<detail::InWindows>(plan, elements, comm_.device(), comm_.size(),
                                                 options_.means_on_host);
}

View GradientReducer::State::gradient(ParamId id, Stream stream) {
  expect_known(id, "gradient");
  if (windows_) {
    if (!open_)
      throw Error(ErrorKind::usage,
                  text("a place for the gradient of ", layout().name(id), " was asked for outside a step"),
                  "call begin_step first", {comm_.rank(), "gradient", ready_->step()});
    if (ready_->is_marked(id)) {
      refuse("gradient",
             text("the gradient of ", layout().name(id), " is marked ready: its place may be another's"),
             "ask for it before it is marked");
    }
    admit(id, std::move(stream));
  }
  return place(id);
}

// The place is this bucket's when all have left it that had it before.
void GradientReducer::State::admit(ParamId id, Stream stream) {
  const std::size_t bucket = ready_->bucket_of(id);
  const auto& after = windows_->places().after(bucket);
  if (!after.empty()) expect_left(after.back(), id);
  windows_->ask(id);
  if (windows_->admits(bucket, stream)) return;
  for (const std::size_t other : windows_->places().after_last_step(bucket))
    wait_for_place(stream, windows_->earlier()[other]);
  for (const std::size_t other : after) wait_for_place(stream, reduced_[other]);
  // Whoever has an inline stream writes at once.
  if (stream.device().is_host() && stream.is_inline()) stream.synchronize();
}

void GradientReducer::State::expect_left(std::size_t bucket, ParamId id) {
  if (bucket < next_bucket_) return;
  std::vector<ParamId> unmarked;
  for (std::size_t i = next_bucket_; i <= bucket; ++i) {
    for (const ParamId other : plan_->buckets()[i].params) {
      if (!ready_->is_marked(other)) unmarked.push_back(other);
    }
  }
  refuse("gradient",
         text("the place for the gradient of ", layout().name(id),
              " is taken until these are marked ready: ", ReadyTracker::names(unmarked, layout())),
         text("let gradients come in the order of the plan, or set window_bytes above ",
              static_cast<std::size_t>(windows_->places().size()) * size_of(layout().dtype())));
}

void GradientReducer::State::wait_for_place(Stream& stream, const Event& left) {
  wait_for(stream, left, [step = times_](auto begin, auto end) { step->carried(end - begin); });
}

}  // namespace weft
