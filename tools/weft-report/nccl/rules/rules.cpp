#include "weft-report/nccl/rules/rules.hpp"

#include <algorithm>

#include "weft-report/env/nccl_version.hpp"
#include "weft/core/error.hpp"

namespace weft::report::nccl {
namespace {

using enum Severity;

constexpr Cause cause_table[] = {
#include "weft-report/nccl/rules/causes.inc"
};

}  // namespace

std::span<const Cause> causes() {
  return cause_table;
}

std::array<std::span<const JobRule>, 9> all_job_rules() {
  return {network_rules(), topology_rules(), file_rules(), host_rules(),     stated_rules(),
          call_rules(),    stop_rules(),     job_rules(),  bandwidth_rules()};
}

const Cause& cause_named(std::string_view name) {
  const auto found = std::ranges::find(cause_table, name, &Cause::name);
  if (found == std::end(cause_table))
    throw Error(ErrorKind::internal, text("no cause is named '", name, "'"));
  return *found;
}

bool has_version_for(const Job& job, const Cause& cause) {
  return cause.versions.empty() || job.versions.empty() ||
         std::ranges::any_of(job.versions, [&](const Fact& one) {
           const auto version = parse_nccl_version(one.value, 0);
           return !version || is_among(*version, cause.versions);
         });
}

Finding finding_of(std::string_view name, double confidence, std::vector<Evidence> evidence) {
  const Cause& cause = cause_named(name);
  return {.cause = std::string(cause.name),
          .severity = cause.severity,
          .confidence = confidence,
          .verdict = std::string(cause.verdict),
          .evidence = std::move(evidence),
          .fix = std::string(cause.fix),
          .effect = std::string(cause.effect),
          .not_when = std::string(cause.not_when),
          .versions = std::string(cause.versions)};
}

}  // namespace weft::report::nccl
