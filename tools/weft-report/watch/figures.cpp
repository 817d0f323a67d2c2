#include "weft-report/watch/figures.hpp"

#include <numeric>

#include "weft-report/ras/counts.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

std::string head(std::string_view name, std::string_view help) {
  return text("# HELP ", name, ' ', help, "\n# TYPE ", name, " gauge\n");
}

/// A value of a label, as the format escapes it.
std::string label_value(std::string_view raw) {
  std::string all = "\"";
  for (const char c : raw) {
    if (c == '"' || c == '\\') all += '\\';
    if (c == '\n') {
      all += "\\n";
    } else {
      all += c;
    }
  }
  return all + '"';
}

std::string operations(const ras::Answer& answer) {
  std::string rows;
  for (const ras::Communicator& communicator : answer.communicators) {
    for (const auto& [rank, counts] : ras::counts_of(communicator)) {
      rows +=
          text("weft_operation_number{rank=\"", rank, "\",communicator=", label_value(communicator.name),
               ",lane=\"device\"} ", std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), '\n');
    }
  }
  return rows;
}

}  // namespace

std::string figures_of(const Watch& watch) {
  const bool asked = watch.answers() > 0 && watch.misses() == 0;
  std::string all = text(head("weft_watch_up", "Whether a process of the job answers weft-report watch."),
                         "weft_watch_up ", watch.is_up() ? 1 : 0, '\n');
  std::map<std::pair<std::string, Severity>, int> findings;
  for (const Finding& one : watch.findings()) ++findings[{one.cause, one.severity}];
  if (!findings.empty()) all += head("weft_watch_findings", "What stands now, by cause and severity.");
  for (const auto& [key, count] : findings)
    all += text("weft_watch_findings{cause=", label_value(key.first), ",severity=\"", name(key.second),
                "\"} ", count, '\n');
  // A text has counts of communicators only on which they differ: nothing could be compared.
  const std::string rows =
      asked && watch.last()->form == ras::Form::json ? operations(*watch.last()) : std::string();
  if (!rows.empty())
    all += head("weft_operation_number",
                "Number of the newest operation that this rank has issued on a lane of a communicator.") +
           rows;
  return all;
}

}  // namespace weft::report
