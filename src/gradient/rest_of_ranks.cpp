#include "gradient/rest_of_ranks.hpp"

#include <algorithm>

#include "core/elementwise.hpp"

namespace weft::detail {

void RestOfRanks::begin_step(Communicator& comm, bool has_batch) {
  told_.wait();  // of the step before
  left_ = make_recycled<std::int32_t>(has_batch ? 1 : 0);
  told_ = comm.all_reduce(View(std::span(left_.get(), 1)), ReduceOp::sum, stream_);
}

int RestOfRanks::count() {
  told_.wait();
  return *left_;
}

void RestOfRanks::correct(View means, int ranks, Stream lane) {
  if (!divides_) return;
  const auto factor = [ranks](std::int32_t left) { return static_cast<double>(ranks) / std::max(left, 1); };
  if (lane.device().is_host()) {
    lane.wait(told_.event());
    lane.run([=, left = left_] {
      if (*left != ranks) on_host::scale(means, factor(*left));
    });
    return;
  }
  // A device's kernel is given its factor when it is handed over: the host waits until all have begun.
  if (count() != ranks) scale(means, factor(*left_), std::move(lane));
}

}  // namespace weft::detail
