#pragma once
// What a named schedule cannot do, and what it needs.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

struct Refusal {
  std::string problem, advice;
};

std::optional<Refusal> unless_chunks(std::string_view name, const Problem& problem, int least, int most);
/// @param needs bytes of each device
std::optional<Refusal> unless_fits(std::string_view name, const Problem& problem,
                                   const std::vector<Bytes>& needs);

/// The placement, where the problem is valid with it and nothing is refused. @throws Error (usage)
std::vector<int> accepted(const Problem& problem, std::vector<int> placement,
                          std::optional<Refusal> (*refusal)(const Problem&));

// Of each schedule, for a valid problem.
std::optional<Refusal> gpipe_refusal(const Problem& problem);
std::optional<Refusal> one_f_one_b_refusal(const Problem& problem);
std::optional<Refusal> eager_one_f_one_b_refusal(const Problem& problem);
std::optional<Refusal> interleaved_one_f_one_b_refusal(const Problem& problem);
std::optional<Refusal> looped_bfs_refusal(const Problem& problem);
std::optional<Refusal> zb_h1_refusal(const Problem& problem);
std::optional<Refusal> zb_h2_refusal(const Problem& problem);
std::optional<Refusal> v_refusal(const Problem& problem);
std::optional<Refusal> dualpipe_v_refusal(const Problem& problem);
std::optional<Refusal> zero_bubble_greedy_refusal(const Problem& problem);

}  // namespace weft::pipeline::detail
