#include "gradient/reducer/uneven_inputs.hpp"

#include <algorithm>

#include "core/memory/elementwise.hpp"
#include "core/streams/stream_state.hpp"
#include "weft/core/recycled.hpp"

namespace weft::detail {

void UnevenInputs::begin_step(Communicator& comm, bool has_batch) {
  shared_.wait();  // of the last step
  left_ = make_recycled<std::int32_t>(has_batch ? 1 : 0);
  shared_ = comm.all_reduce(View(std::span(left_.get(), 1)), ReduceOp::sum, stream_);
}

int UnevenInputs::ranks_left() {
  shared_.wait();
  return *left_;
}

void UnevenInputs::correct(View means, int ranks, Stream lane) {
  if (!rescales_) return;
  const auto factor = [ranks](std::int32_t left) { return static_cast<double>(ranks) / std::max(left, 1); };
  if (lane.device().is_host()) {
    const auto scale = [=, left = left_] {
      if (*left != ranks) on_host::scale(means, factor(*left));
    };
    lane.wait(shared_.event());
    if (StreamAccess::state(lane)->takes_work_at_once()) return scale();
    return lane.run(scale);
  }
  // A device's kernel gets its factor at launch, so the host waits until all ranks have begun the step.
  if (ranks_left() != ranks) scale(means, factor(*left_), std::move(lane));
}

bool MicroBatchShares::takes(int micro_steps, bool alike) const {
  return all_ == 0 || micro_steps == most() || (micro_steps == least() && !alike);
}

std::string MicroBatchShares::words() const {
  return text(all_, " micro-batches on ", ranks_, " ranks, of which each takes ", least(),
              least() == most() ? text() : text(" or ", most()));
}

// Divided once, after the reduction: N ranks with one micro-step and one rank with N micro-steps then round
// alike. Where shares are uneven the mean over ranks is undone first, which is exact for a power of two of ranks: 3
// micro-batches on 2 ranks then have the bits of those on 3. All ranks take the same way, so that they hold the same.
void MicroBatchShares::divide(View means, int micro_steps, const Stream& lane) const {
  if (all_ % ranks_ == 0) {
    if (micro_steps > 1) detail::divide(means, micro_steps, lane);
    return;
  }
  scale(means, ranks_, lane);
  detail::divide(means, all_, lane);
}

void UsedParameters::share(Communicator& comm) {
  if (unused_ == Unused::refuse || is_known_) return;
  shared_.wait();  // the last step's all_reduce reads and writes anywhere_ until then
  anywhere_ = here_;
  shared_ = comm.all_reduce(View(std::span(anywhere_)), ReduceOp::max, stream_);
  if (unused_ != Unused::as_in_first_step) return;
  is_known_ = true;
  expected_ = unused_now_;
}

}  // namespace weft::detail
