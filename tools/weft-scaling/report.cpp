#include "report.hpp"

#include <boost/json.hpp>
#include <iomanip>
#include <ostream>

#include "codecs.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

std::string share(const std::optional<double>& value) {
  if (!value) return "-";
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << *value;
  return std::move(out).str();
}

boost::json::value or_null(const std::optional<double>& value) {
  return value ? boost::json::value(*value) : boost::json::value(nullptr);
}

}  // namespace

void print_table(std::ostream& out, const std::vector<Run>& runs) {
  std::ostringstream table;
  std::size_t longest = std::string_view("strategy").size();
  for (const Run& run : runs) longest = std::max(longest, run.strategy.size());
  const auto width = static_cast<int>(longest);
  table << std::left << std::setw(width) << "strategy"
        << "   ranks  step ms   p99 ms  tokens/s  vs nocomm  vs 1 rank  exposed ms  sent MB/step  "
           "held MB  held-out loss\n";
  for (const Run& run : runs) {
    table << std::left << std::setw(width) << run.strategy << std::right << std::fixed << std::setw(8)
          << run.ranks << std::setprecision(1) << std::setw(9) << run.median_seconds * 1e3 << std::setw(9)
          << run.p99_seconds * 1e3 << std::setprecision(0) << std::setw(10) << run.tokens_per_second
          << std::setw(11) << share(run.efficiency_vs_nocomm) << std::setw(11)
          << share(run.efficiency_vs_single) << std::setprecision(1) << std::setw(12)
          << run.exposed_seconds * 1e3 << std::setw(14) << run.wire_bytes_per_step * 1e-6 << std::setw(9)
          << static_cast<double>(run.peak_bytes_per_rank) * 1e-6 << std::setprecision(3) << std::setw(8)
          << run.first_loss << " ->" << std::setw(6) << run.last_loss << '\n';
  }
  out << std::move(table).str() << std::flush;
}

std::string parts_text(const Run& run) {
  if (run.parts.link_busy == 0) return {};
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << run.strategy << ": the wire is busy "
      << run.parts.link_busy * 1e3 << " ms of a step, " << run.parts.overlap * 1e3
      << " ms of that while ranks compute; exposed " << run.exposed_seconds * 1e3 << " ms, of which "
      << run.parts.slowest * 1e3 << " ms for buckets that another rank had not brought";
  if (run.parts.slowest_rank && run.parts.slowest > 5e-6)
    out << " (most for rank " << *run.parts.slowest_rank << ')';
  out << '\n';
  if (run.bound_seconds) {
    out << run.strategy << ": no step can be shorter than " << *run.bound_seconds * 1e3
        << " ms (nocomm's, or buckets that leave when they are ready, at the rate given); the median step is "
        << std::setprecision(3) << run.median_seconds / *run.bound_seconds << " of that\n";
  }
  return std::move(out).str();
}

std::string choice_text(const Run& run) {
  if (!run.explanation.empty()) return text(run.strategy, ' ', run.explanation, '\n');
  return run.choice ? text('\n', run.strategy, " predicted\n", to_text(*run.choice)) : "";
}

namespace {

boost::json::object choice_object(const CodecChoice& choice) {
  boost::json::object codecs;
  for (const auto& [name, codec] : choice.tensors) codecs[name] = codec;
  boost::json::object exposed;
  for (const auto& candidate : choice.candidates) exposed[candidate.name] = candidate.exposed_seconds;
  return {{"codecs", std::move(codecs)}, {"predicted_exposed_seconds", std::move(exposed)}};
}

boost::json::object step_seconds(const Run& run) {
  boost::json::object result{{"median", run.median_seconds}, {"p99", run.p99_seconds}};
  if (!run.samples.empty()) result["samples"] = boost::json::array(run.samples.begin(), run.samples.end());
  return result;
}

/// [[step, held-out loss]]
boost::json::array curve(const Run& run) {
  boost::json::array points;
  for (const auto& [step, held_out] : run.curve) points.push_back(boost::json::array{step, held_out});
  return points;
}

boost::json::object row(const Run& run) {
  boost::json::object result{
      {"strategy", run.strategy},
      {"ranks", run.ranks},
      {"step_seconds", step_seconds(run)},
      {"tokens_per_second", run.tokens_per_second},
      {"efficiency_vs_nocomm", or_null(run.efficiency_vs_nocomm)},
      {"efficiency_vs_single", or_null(run.efficiency_vs_single)},
      {"exposed_seconds", run.exposed_seconds},
      {"overlap_seconds", run.parts.overlap},
      {"link_busy_seconds", run.parts.link_busy},
      {"slowest_seconds", run.parts.slowest},
      {"slowest_rank", run.parts.slowest_rank ? boost::json::value(*run.parts.slowest_rank) : nullptr},
      {"bound_seconds", or_null(run.bound_seconds)},
      {"wire_bytes_per_step", run.wire_bytes_per_step},
      {"peak_bytes_per_rank", run.peak_bytes_per_rank},
      {"loss", {{"first", run.first_loss}, {"last", run.last_loss}, {"curve", curve(run)}}}};
  if (run.choice) result["choice"] = choice_object(*run.choice);
  if (!run.explanation.empty()) result["schedule"] = run.explanation;
  return result;
}

boost::json::array transports(const std::vector<Connection>& connections) {
  boost::json::array all;
  for (const Connection& one : connections) {
    all.push_back({{"from", one.from},
                   {"to", one.to},
                   {"via", one.via},
                   {"gdr", one.gdr},
                   {"nvlink", one.nvlink},
                   {"channels", one.channels}});
  }
  return all;
}

}  // namespace

std::string to_json(const Results& results) {
  boost::json::array rows;
  for (const Run& run : results.runs) rows.push_back(row(run));
  for (const SweepRun& one : results.swept) {
    boost::json::object entry{{"scaling", one.strong ? "strong" : "weak"}, {"efficiency", one.efficiency}};
    for (auto& [key, value] : row(one.run)) entry.emplace(key, value);
    rows.push_back(std::move(entry));
  }
  boost::json::object all{{"model", results.setting.model},
                          {"backend", results.setting.backend},
                          {results.swept.empty() ? "runs" : "sweep", std::move(rows)},
                          {"transports", transports(results.connections)}};
  if (results.is_partial()) all["partial"] = true;
  return boost::json::serialize(all) + "\n";
}

std::string sweep_heading() {
  return "scaling  ranks  step ms   p99 ms  tokens/s  efficiency  exposed ms  sent MB/step  held-out loss\n";
}

std::string sweep_row(const SweepRun& one) {
  std::ostringstream out;
  out << std::left << std::setw(7) << (one.strong ? "strong" : "weak") << std::right << std::fixed
      << std::setw(7) << one.run.ranks << std::setprecision(1) << std::setw(9) << one.run.median_seconds * 1e3
      << std::setw(9) << one.run.p99_seconds * 1e3 << std::setprecision(0) << std::setw(10)
      << one.run.tokens_per_second << std::setprecision(3) << std::setw(12) << one.efficiency
      << std::setprecision(1) << std::setw(12) << one.run.exposed_seconds * 1e3 << std::setw(14)
      << one.run.wire_bytes_per_step * 1e-6 << std::setprecision(3) << std::setw(8) << one.run.first_loss
      << " ->" << std::setw(6) << one.run.last_loss << '\n';
  return std::move(out).str();
}

}  // namespace weft::scaling
