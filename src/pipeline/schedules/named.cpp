// The list of named schedules, and how a schedule refuses a problem.

#include "pipeline/schedules/named.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "core/base/strings.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {

Schedule empty_schedule(const char* name, const Problem& problem, std::vector<int> placement,
                        int actions_of_microbatch) {
  Schedule schedule;
  schedule.name = name;
  schedule.microbatches = problem.microbatches;
  schedule.device_of = std::move(placement);
  schedule.rows.resize(static_cast<std::size_t>(problem.devices));
  for (auto& row : schedule.rows)
    row.reserve(static_cast<std::size_t>(problem.microbatches) *
                static_cast<std::size_t>(actions_of_microbatch * problem.chunks()));
  return schedule;
}

std::optional<Refusal> unless_chunks(std::string_view name, const Problem& problem, int least, int most) {
  const int chunks = problem.chunks();
  if (chunks >= least && chunks <= most) return std::nullopt;
  const std::string range = least == most ? text(least) : text(least, " or more");
  return Refusal{
      text(name, " has ", range, least == 1 ? " chunk" : " chunks", " on a device, and the costs of ",
           problem.stages(), " stages make ", chunks, " on each of ", problem.devices, " devices"),
      text("give costs of ", least * problem.devices, " stages",
           least == most ? "" : text(", or of a larger multiple of ", problem.devices))};
}

std::optional<Refusal> unless_fits(std::string_view name, const Problem& problem,
                                   const std::vector<Bytes>& needs) {
  for (std::size_t device = 0; device < problem.memory_limit.size(); ++device) {
    if (needs[device] <= problem.memory_limit[device]) continue;
    return Refusal{text(name, " holds ", needs[device], " bytes of activations on device ", device,
                        ", where the limit is ", problem.memory_limit[device]),
                   "allow as much, or take a schedule that adapts to its memory, such as zb-greedy or zb-v"};
  }
  return std::nullopt;
}

std::vector<int> accepted(const Problem& problem, std::vector<int> placement,
                          std::optional<Refusal> (*refusal)(const Problem&)) {
  // With chunks that the schedule is not made for, the placement has another length: `refusal` says so.
  const bool covers = static_cast<int>(placement.size()) == problem.stages();
  const int chunks = problem.devices > 0 ? problem.chunks() : 0;
  expect_valid(problem, covers ? placement : looped_placement(problem.devices, chunks));
  if (const auto refused = refusal(problem)) throw Error(ErrorKind::usage, refused->problem, refused->advice);
  return placement;
}

}  // namespace detail

namespace {

template <std::optional<detail::Refusal> (*refusal)(const Problem&)>
bool suits(const Problem& problem) {
  return !refusal(problem);
}

constexpr int unbounded = std::numeric_limits<int>::max();
constexpr std::array<NamedSchedule, 12> all{
    {{"gpipe", 1, 1, suits<detail::gpipe_refusal>, gpipe},
     {"1f1b", 1, 1, suits<detail::one_f_one_b_refusal>, one_f_one_b},
     {"eager-1f1b", 1, 1, suits<detail::eager_one_f_one_b_refusal>, eager_one_f_one_b},
     {"interleaved", 2, unbounded, suits<detail::interleaved_one_f_one_b_refusal>, interleaved_one_f_one_b},
     {"looped-bfs", 2, unbounded, suits<detail::looped_bfs_refusal>, looped_bfs},
     {"zb-h1", 1, 1, suits<detail::zb_h1_refusal>, zb_h1},
     {"zb-h2", 1, 1, suits<detail::zb_h2_refusal>, zb_h2},
     {"zb-v", 2, 2, suits<detail::v_refusal>, zb_v},
     {"v-half", 2, 2, suits<detail::v_refusal>, v_half},
     {"v-min", 2, 2, suits<detail::v_refusal>, v_min},
     {"dualpipe-v", 2, 2, suits<detail::dualpipe_v_refusal>, dualpipe_v},
     {"zb-greedy", 1, 1, suits<detail::zero_bubble_greedy_refusal>, zero_bubble_greedy}}};

}  // namespace

std::span<const NamedSchedule> named_schedules() {
  return all;
}

Schedule make_named(std::string_view name, const Problem& problem) {
  const auto found = std::ranges::find(all, name, &NamedSchedule::name);
  if (found != all.end()) return found->make(problem);
  std::array<std::string_view, all.size()> names;
  std::ranges::transform(all, names.begin(), &NamedSchedule::name);
  const auto near = weft::detail::nearest_name(names, name);
  throw Error(ErrorKind::usage, text("no schedule is named '", name, "'"),
              near ? text("did you mean ", *near, "?") : "allowed are " + weft::detail::listed(names));
}

}  // namespace weft::pipeline
