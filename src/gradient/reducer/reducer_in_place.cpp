// Gradients that are reduced where backward put them, in memory that the communicator reaches.
//
// An operation names memory by its place in the heap, so that each rank may give its own: what one rank reduces
// in place another may have copied to the arena. Count and order of operations are those of the plan on all.
// What keeps addresses of the arena cannot follow a gradient elsewhere: hooks that say so, sums of squares, trees
// of micro-batches, sharded means, and gradients that earlier micro-steps added up.

#include "gradient/hooks/deterministic_tree.hpp"
#include "gradient/reducer/reducer_state.hpp"

namespace weft {

bool GradientReducer::State::can_reduce_in_place(ParamId id) const {
  const bool arena_only = ring_ || tree_ || squares_ || options_.means == Means::sharded;
  if (arena_only || !hook_->reduces_anywhere()) return false;
  if (exchange_ != Exchange::now || micro_steps_ != 1) return false;
  const Bucket& bucket = plan_->buckets()[ready_->bucket_of(id)];
  return bucket.begin == layout().offset(id) && bucket.count() == layout().count(id);
}

View GradientReducer::State::mark_ready_in_place(ParamId id, View gradient, const Stream& stream) {
  expect_known(id, "mark_ready_in_place");
  if (!can_reduce_in_place(id)) {
    mark_ready(id, ConstView(gradient), stream);
    return place(id);
  }
  expect_shape(id, gradient);
  expect_unmarked(id, stream);
  in_place_[ready_->bucket_of(id)] = gradient;
  used_.is_used(id);
  mark(id, stream);
  return gradient;
}

}  // namespace weft
