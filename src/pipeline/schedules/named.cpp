#include <algorithm>
#include <array>

#include "core/nearest_name.hpp"
#include "refusal.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace {

template <std::optional<detail::Refusal> (*refusal)(const Problem&)>
bool suits(const Problem& problem) {
  return !refusal(problem);
}

constexpr std::array<NamedSchedule, 12> all{
    {{"gpipe", suits<detail::gpipe_refusal>, gpipe},
     {"1f1b", suits<detail::one_f_one_b_refusal>, one_f_one_b},
     {"eager-1f1b", suits<detail::eager_one_f_one_b_refusal>, eager_one_f_one_b},
     {"interleaved", suits<detail::interleaved_one_f_one_b_refusal>, interleaved_one_f_one_b},
     {"looped-bfs", suits<detail::looped_bfs_refusal>, looped_bfs},
     {"zb-h1", suits<detail::zb_h1_refusal>, zb_h1},
     {"zb-h2", suits<detail::zb_h2_refusal>, zb_h2},
     {"zb-v", suits<detail::v_refusal>, zb_v},
     {"v-half", suits<detail::v_refusal>, v_half},
     {"v-min", suits<detail::v_refusal>, v_min},
     {"dualpipe-v", suits<detail::dualpipe_v_refusal>, dualpipe_v},
     {"zb-greedy", suits<detail::zero_bubble_greedy_refusal>, zero_bubble_greedy}}};

}  // namespace

std::span<const NamedSchedule> named_schedules() {
  return all;
}

Schedule make_named(std::string_view name, const Problem& problem) {
  const auto found = std::ranges::find(all, name, &NamedSchedule::name);
  if (found != all.end()) return found->make(problem);
  std::array<std::string_view, all.size()> names;
  std::ranges::transform(all, names.begin(), &NamedSchedule::name);
  throw Error(ErrorKind::usage, text("no schedule is named '", name, "'"),
              text("did you mean ", weft::detail::nearest_name(names, name), "?"));
}

}  // namespace weft::pipeline
