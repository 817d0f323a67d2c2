#include "pipeline/passes/weaver.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"

namespace weft::pipeline {
namespace {

using enum ActionType;
constexpr std::int64_t stays = -1;

class OffloadedRow {
 public:
  OffloadedRow(const std::vector<Action>& row, const OffloadOptions& options)
      : row_(row), options_(options), works_(detail::works_of(row)), weaver_(row) {}

  /// @param forwards by stage and microbatch, room for the work that is F, where it is to be offloaded
  std::vector<Action> woven(const std::function<bool(int, int)>& which, std::vector<std::int64_t>& forwards,
                            int microbatches) {
    const auto size = static_cast<std::int64_t>(works_.size());
    for (std::int64_t work = 0; work < size; ++work) {
      const Action& action = row_[detail::work_at(works_, work)];
      auto& forward_at =
          forwards[static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(microbatches) +
                   static_cast<std::size_t>(action.microbatch)];
      if (action.type == forward) {
        forward_at = which(action.stage, action.microbatch) ? work : stays;
      } else if (action.type == recompute) {
        forward_at = stays;
      } else if (action.type != backward_weight && forward_at != stays) {
        move(action, forward_at, work);
      }
    }
    return weaver_.woven();
  }

 private:
  void move(const Action& use, std::int64_t computed, std::int64_t used) {
    if (computed + options_.behind >= used - options_.ahead) return;
    const std::size_t left = detail::work_at(works_, computed + options_.behind);
    const std::size_t wanted = detail::work_at(works_, used - options_.ahead);
    if (weaver_.place_after(left) >= weaver_.place_before(wanted)) return;
    const Action out{offload, use.stage, use.microbatch};
    const Action in{load, use.stage, use.microbatch};
    weaver_.after(detail::work_at(works_, computed), out);
    weaver_.after(left, awaited(out));
    weaver_.before(wanted, in);
    weaver_.before(detail::work_at(works_, used), awaited(in));
  }

  const std::vector<Action>& row_;
  const OffloadOptions& options_;
  const std::vector<std::size_t> works_;
  detail::Weaver weaver_;
};

}  // namespace

Schedule with_offload(const Schedule& schedule, const std::function<bool(int, int)>& which,
                      const OffloadOptions& options) {
  detail::expect_without(schedule, {offload, load});
  detail::expect_count("behind", options.behind);
  detail::expect_count("ahead", options.ahead);
  Schedule result = detail::frame_of(schedule);
  std::vector<std::int64_t> forwards(
      schedule.device_of.size() * static_cast<std::size_t>(schedule.microbatches), stays);
  for (std::size_t device = 0; device < schedule.rows.size(); ++device)
    result.rows[device] =
        OffloadedRow(schedule.rows[device], options).woven(which, forwards, schedule.microbatches);
  return result;
}

}  // namespace weft::pipeline
