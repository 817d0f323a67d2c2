#pragma once
// The rules, as tables. A cause has a row in causes(), which says what it means and what to do. A row of line_rules() says which line
// shows a cause; a row of a table of all_job_rules() names a function that concludes it from the facts of the whole job.
//
// A line that also stands in logs of jobs that are well ("Failed to open libibverbs", "Could not find: libnccl-net.so", "Failed to
// find ncclTunerPlugin symbol") is no row of line_rules(): a job rule may add it to other evidence.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/nccl/job.hpp"

namespace weft::report::nccl {

struct Cause {
  std::string_view name;
  Severity severity;
  std::string_view verdict;
  std::string_view fix;
  std::string_view not_when;  ///< when the finding does not apply
  std::string_view effect{};  ///< what the fix brings, in figures where they are known
  std::string_view
      versions{};  ///< of NCCL that it applies to: "2.12 and newer", "before 2.19", "2.27 to 2.29"; empty: all
};

struct LineRule {
  std::string_view cause;
  double confidence;
  /// All stand in the line, in this order; the first is the rarest. Empty ones are left out.
  std::array<std::string_view, 3> phrases;
  /// The line is none if this stands in it.
  std::string_view unless{};
  /// Null: always.
  bool (*when)(const Job&) = nullptr;
};

struct JobRule {
  std::string_view cause;
  std::string_view looks_for;
  void (*find)(const Job&, std::vector<Finding>&);
};

std::span<const Cause> causes();
std::span<const LineRule> line_rules();
std::span<const JobRule> job_rules();
std::span<const JobRule> network_rules();
/// Symptoms that measured bandwidths show, and wrong results.
std::span<const JobRule> bandwidth_rules();
std::span<const JobRule> call_rules();
std::span<const JobRule> stated_rules();
std::span<const JobRule> topology_rules();
std::span<const JobRule> file_rules();
std::span<const JobRule> host_rules();
/// What PyTorch's watchdog prints (torch/stop_rules.cpp).
std::span<const JobRule> stop_rules();
/// All tables of rules of whole jobs.
std::array<std::span<const JobRule>, 9> all_job_rules();

/// Adds what the rules of weft-report env find in the settings that the logs state, where no finding shows the same lines. Their causes are
/// not in causes().
void add_settings(const Job& job, std::vector<Finding>& findings);

/// All of them as a page of Markdown: docs/findings.md.
std::string rules_page();
/// @throws Error (internal) for a name that is not in causes()
const Cause& cause_named(std::string_view name);
/// Whether one of the versions that the logs name has the cause. Logs that name none may be of any.
bool has_version_for(const Job& job, const Cause& cause);
/// A finding with what the cause's row says.
Finding finding_of(std::string_view cause, double confidence, std::vector<Evidence> evidence);

}  // namespace weft::report::nccl
