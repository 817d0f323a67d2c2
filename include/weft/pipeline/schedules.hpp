#pragma once
// The named schedules of the field, each with the paper that published it.
//
//   Schedule plan = zb_h1({.devices = 8, .microbatches = 32, .costs = profile});
//   for (const NamedSchedule& one : named_schedules())
//     if (one.suits(problem)) candidates.push_back(one.make(problem));
//   Schedule same = make_named("zb-h1", problem);
//
// All are pure functions of the problem that return actions of computation only; with_communication() adds
// the transfers. They check the problem first, and refuse what they cannot do: a number of chunks that they
// are not made for, too few microbatches, a memory limit below what they hold. A schedule either splits every
// backward into I and W or has B everywhere, except DualPipe-V, which has both.
//
// p is the number of devices, d a device, m the number of microbatches. Where it says "looks at costs", a few
// sets of priorities are tried, fewer for large problems (a million actions take about 0.1 s), and the best
// schedule is taken. A hop counts with its delay alone: shared wires do not matter.
//
// WRONG: verifying a schedule with another problem than it was drawn up for. Orders differ with costs.

#include <cstdint>
#include <span>
#include <string_view>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

// Each device has one chunk unless "chunks" are mentioned.
// All @throw Error (usage): an invalid problem, or what the schedule cannot do

/// All forwards, then all backwards. Holds m microbatches. Huang et al. 2019, section 2.3.
Schedule gpipe(const Problem& problem);
/// PipeDream-Flush: p - d forwards, then backward and forward in turn. Holds min(m, p - d) microbatches on
/// device d. Narayanan et al. 2021 (PipeDream-2BW), section 3.2.
Schedule one_f_one_b(const Problem& problem);
/// 1F1B that begins with up to 2(p - 1 - d) + 1 forwards, as far as memory allows, so that a round trip over
/// a wire is hidden. Zhuang et al. 2023 (cross-mesh resharding), section 4.
Schedule eager_one_f_one_b(const Problem& problem);
/// Megatron's interleaved 1F1B: 2 or more chunks, looped placement. Microbatches go in groups of p; the last
/// group may be smaller. Narayanan et al. 2021 (Megatron-LM), section 2.2.2.
Schedule interleaved_one_f_one_b(const Problem& problem);
/// All microbatches of a chunk, then those of the next: 2 or more chunks, looped placement. Holds m
/// microbatches. Lamy-Poirier 2022, section 4.
Schedule looped_bfs(const Problem& problem);

/// Zero bubble in 1F1B's memory: p - d microbatches in flight (forward to I) and p held (forward to W). Looks
/// at costs. Qi et al. 2023, section 2.1.
Schedule zb_h1(const Problem& problem);
/// Up to 2(p - d) - 1 in flight and 2p - 1 held. Looks at costs. Qi et al. 2023, section 2.2.
Schedule zb_h2(const Problem& problem);

/// Two chunks, placed as a V. Holds at most 2p chunks, as much as 1F1B, or what the memory limit allows.
/// Looks at costs. Qi et al. 2024 (controllable memory), section 3.2.
Schedule zb_v(const Problem& problem);
/// As zb_v with at most p + 2 chunks. Qi et al. 2024, section 3.2.
Schedule v_half(const Problem& problem);
/// As zb_v with at most 2 floor((p + 4) / 3) chunks. Qi et al. 2024, section 3.2.
Schedule v_min(const Problem& problem);
/// Two chunks, placed as a V; forward and backward of different microbatches as overlapping pairs. Takes 2p
/// microbatches or more. DeepSeek-AI 2025 (DualPipe, its cut-in-half form).
Schedule dualpipe_v(const Problem& problem);

/// Does what the automatic schedule of Qi et al. 2023, section 3.1, does: as many forwards as memory allows,
/// then I and F in turn, and W where it fits a gap or must make room. It takes the best of eight sets of
/// priorities, by the objective first and the other one second. Any memory limit, any costs.
Schedule zero_bubble_greedy(const Problem& problem, Objective objective);
Schedule zero_bubble_greedy(const Problem& problem);

struct NamedSchedule {
  std::string_view name;
  int fewest_chunks = 1;  ///< on a device
  int most_chunks = 1;
  bool (*suits)(const Problem& problem);  ///< whether make() accepts this valid problem
  Schedule (*make)(const Problem& problem);
};

/// "gpipe", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min",
/// "dualpipe-v", "zb-greedy"
std::span<const NamedSchedule> named_schedules();
/// @throws Error (usage) also for an unknown name, with the nearest one
Schedule make_named(std::string_view name, const Problem& problem);

}  // namespace weft::pipeline
