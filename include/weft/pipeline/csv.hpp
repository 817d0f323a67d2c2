#pragma once
// Schedules as PyTorch's CSV (torch.distributed.pipelining, _load_csv and _dump_csv): a row per device, a
// cell per action, no header.
//
//   Schedule plan = parse_csv(file, CsvFormat::compute_only);
//   file << to_csv(plan, CsvFormat::compute_only);                   // the same bytes but for empty cells
//   file << to_csv(without_awaits(lowered), CsvFormat::compute_comms);
//
// Order survives both ways. Costs, memory and the name do not: the format has no place for them. Reading is
// strict: all of a cell must be an action. Lines end in \n or \r\n; to_csv writes \n.
//
// The format has two dialects. Today B is the whole backward and I the gradient of the input; before October
// 2024 (PyTorch's #138886) BW was the whole and B, beside a W, the gradient of the input. The words of a file
// show its dialect, or the caller gives it; a file with both is refused.

#include <string>
#include <string_view>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

enum class CsvFormat : std::uint8_t {
  compute_only,   ///< F, B, I, W and pairs that overlap; an empty cell is an idle slot
  compute_comms,  ///< also SEND_, RECV_ (posted), UNSHARD, RESHARD and REDUCE_GRAD; no cell is empty
};

enum class Dialect : std::uint8_t { detect, current, before_october_2024 };

/// A row's device has the stages that occur in it. The highest number gives the count of microbatches. Empty
/// cells are dropped.
/// @throws Error (usage), which names row and column, both from 1. It refuses an action that is unknown,
/// occurs twice, or is not in the format; a stage in two rows or in none; a row without actions. It also
/// refuses words of both dialects, or words that fit either
Schedule parse_csv(std::string_view text, CsvFormat format, Dialect dialect = Dialect::detect);

/// Writes the current dialect. @throws Error (usage), which names device and entry, for actions that the
/// format has no word for: WAIT_, RECOMPUTE, OFFLOAD and LOAD, and in compute_only all that is not
/// computation
std::string to_csv(const Schedule& schedule, CsvFormat format);

/// Writes compute_only with bubbles: every action in the column of the slot in which it begins, or the next
/// free one. @param begins of each entry of each row (Prediction::begins) @param slot the time of one column,
/// 1 ns or more
std::string to_csv(const Schedule& schedule, const std::vector<std::vector<Nanoseconds>>& begins,
                   Nanoseconds slot);

/// The schedule without its WAIT_ entries, which PyTorch's runtime adds by itself.
Schedule without_awaits(Schedule schedule);

}  // namespace weft::pipeline
