#include <algorithm>

#include "pipeline/passes/weaver.hpp"
#include "weft/pipeline/passes.hpp"

namespace weft::pipeline {
namespace {

using enum ActionType;

/// @param last_uses of each stage, -1
std::vector<Action> woven(const std::vector<Action>& row, const UnshardOptions& options,
                          const std::vector<bool>& is_sharded, std::vector<std::int64_t>& last_uses) {
  const std::vector<std::size_t> works = detail::works_of(row);
  const auto size = static_cast<std::int64_t>(works.size());
  // Where UNSHARD would stand right after RESHARD, neither does.
  const std::int64_t kept = std::max<std::int64_t>(options.kept, std::int64_t{options.ahead} + 1);
  detail::Weaver weaver(row);
  std::vector<std::int64_t> waits;  // added after all that is posted, to stand behind it at the same place
  for (std::int64_t work = 0; work < size; ++work) {
    const int stage = row[detail::work_at(works, work)].stage;
    if (!is_sharded[static_cast<std::size_t>(stage)]) continue;
    std::int64_t& last_use = last_uses[static_cast<std::size_t>(stage)];
    if (last_use < 0 || work - last_use > kept) {
      if (last_use >= 0) weaver.after(detail::work_at(works, last_use), {reshard, stage});
      weaver.before(detail::work_at(works, work - options.ahead), {unshard, stage});
      waits.push_back(work);
    }
    last_use = work;
  }
  for (const std::int64_t work : waits) {
    const std::size_t entry = detail::work_at(works, work);
    weaver.before(entry, awaited({unshard, row[entry].stage}));
  }
  for (std::int64_t work = 0; work < size; ++work) {
    const int stage = row[detail::work_at(works, work)].stage;
    if (is_sharded[static_cast<std::size_t>(stage)] && last_uses[static_cast<std::size_t>(stage)] == work)
      weaver.after(detail::work_at(works, work), {reshard, stage});
  }
  return weaver.woven();
}

}  // namespace

Schedule with_unshards(const Schedule& schedule, const UnshardOptions& options) {
  detail::expect_without(schedule, {unshard, reshard});
  detail::expect_count("ahead", options.ahead);
  detail::expect_count("kept", options.kept);
  std::vector<bool> is_sharded = detail::marked(schedule, options.stages);
  if (options.stages.empty()) is_sharded.flip();
  Schedule result = detail::frame_of(schedule);
  std::vector<std::int64_t> last_uses(schedule.device_of.size(), -1);
  for (std::size_t device = 0; device < schedule.rows.size(); ++device)
    result.rows[device] = woven(schedule.rows[device], options, is_sharded, last_uses);
  return result;
}

}  // namespace weft::pipeline
