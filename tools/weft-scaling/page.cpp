#include "page.hpp"

#include <algorithm>
#include <ctime>
#include <map>

#include "contestant.hpp"
#include "strategy.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char words[64];
  const std::size_t length = std::strftime(words, sizeof(words), "%Y-%m-%d %H:%M UTC", &parts);
  return {words, length};
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string result;
  for (const std::string& word : words) result += text(result.empty() ? "" : between, word);
  return result;
}

/// The number of connections of each kind; a list of all pairs would fill the page.
std::string summary(const std::vector<Connection>& connections) {
  std::map<std::string, int> kinds;
  for (const Connection& one : connections)
    ++kinds[text(one.via, one.gdr ? " with GPUDirect RDMA" : "", one.nvlink ? " (NVLink)" : "")];
  std::string result;
  for (const auto& [kind, count] : kinds)
    result +=
        text(result.empty() ? "" : ", ", kind, " (", count, count == 1 ? " connection)" : " connections)");
  return result;
}

report::ScalingPage::Strategy strategy_of(const Run& run) {
  std::vector<report::ScalingPage::LossPoint> curve;
  for (const auto& [step, held_out] : run.curve) curve.push_back({step, held_out});
  return {.name = run.strategy,
          .step_seconds = run.median_seconds,
          .p99_seconds = run.p99_seconds,
          .tokens_per_second = run.tokens_per_second,
          .efficiency_vs_nocomm = run.efficiency_vs_nocomm,
          .efficiency_vs_single = run.efficiency_vs_single,
          .compute_seconds = std::max(0.0, run.median_seconds - run.exposed_seconds - run.parts.overlap),
          .overlapped_seconds = run.parts.overlap,
          .exposed_seconds = run.exposed_seconds,
          .link_busy_seconds = run.parts.link_busy,
          .slowest_seconds = run.parts.slowest,
          .slowest_rank = run.parts.slowest_rank,
          .wire_bytes = run.wire_bytes_per_step,
          .peak_bytes = static_cast<double>(run.peak_bytes_per_rank),
          .first_loss = run.first_loss,
          .last_loss = run.last_loss,
          .samples = run.samples,
          .compressed = is_coded(run.strategy) || is_local(run.strategy),
          .curve = std::move(curve)};
}

}  // namespace

report::ScalingPage page_of(const Options& options, const std::vector<std::string>& command,
                            const Communicator& comm, const Results& results,
                            std::optional<report::Comparison> comparison) {
  report::ScalingPage page;
  const std::string ranks = text(comm.size(), comm.size() == 1 ? " rank" : " ranks");
  page.title = text(options.model, ", ", ranks, ", ", comm.backend());
  page.facts = {
      {"model", options.model},
      {"ranks",
       text(comm.size(), " on ", comm.topology().nodes(), comm.topology().nodes() == 1 ? " node" : " nodes")},
      {"backend", comm.backend()},
      {"text", options.text},
      {"steps", text(options.steps, ", of which the first ", first_counted(options), " do not count")},
      {"seed", text(options.seed)},
      {"date", date()},
      {"command", text("weft-scaling ", joined(command, " "))}};
  if (results.is_partial()) {
    page.title += ", partial";
    page.facts.insert(page.facts.begin(), {"partial", text("ended by a signal after ", results.how_far)});
  }
  if (!results.connections.empty()) page.facts.push_back({"transport", summary(results.connections)});
  if (comparison) page.facts.push_back({"compared with", comparison->earlier});
  for (const Run& run : results.runs) {
    page.strategies.push_back(strategy_of(run));
    if (!page.timeline.empty()) continue;  // the timeline of the first strategy that communicates
    if (!run.parts.timeline.empty()) page.timeline_of = run.strategy;
    for (const StepSpan& span : run.parts.timeline)
      page.timeline.push_back({span.rank, span.track, span.name, span.begin, span.end});
  }
  for (const SweepRun& one : results.swept) {
    page.scaling.push_back({one.strong ? "strong" : "weak", one.run.ranks, one.efficiency,
                            one.run.median_seconds, one.run.tokens_per_second});
  }
  page.comparison = std::move(comparison);
  return page;
}

}  // namespace weft::scaling
