#include <algorithm>
#include <string_view>

#include "weft-report/env/nccl_version.hpp"
#include "weft-report/nccl/catalogue/catalogue.hpp"

namespace weft::report::nccl {
namespace {

using Findings = std::vector<Finding>;

bool has(const Findings& found, std::string_view cause) {
  return std::ranges::find(found, cause, &Finding::cause) != found.end();
}
bool is_on(const Job& job, const char* name) {
  const Fact* fact = job.setting(name);
  return fact != nullptr && fact->value == "1";
}
/// Unlike a cause's versions: a log that names none decides nothing.
bool one_is_among(const Job& job, std::string_view versions) {
  return std::ranges::any_of(job.versions, [&](const Fact& one) {
    const auto version = parse_nccl_version(one.value, 0);
    return version && is_among(*version, versions);
  });
}

}  // namespace

bool names_interface(const Job& job, const Findings&) {
  return job.setting("NCCL_SOCKET_IFNAME") != nullptr;
}
bool names_no_interface(const Job& job, const Findings&) {
  return job.setting("NCCL_SOCKET_IFNAME") == nullptr && job.says_settings();
}
bool names_topology_file(const Job& job, const Findings&) {
  return job.setting("NCCL_TOPO_FILE") != nullptr;
}
bool names_graph_file(const Job& job, const Findings&) {
  return job.setting("NCCL_GRAPH_FILE") != nullptr;
}
bool is_roce(const Job& job, const Findings&) {
  return job.roce() != nullptr && job.gids.empty();
}
bool has_several_versions(const Job&, const Findings& found) {
  return has(found, "version-mismatch");
}
bool settings_differ(const Job&, const Findings& found) {
  return has(found, "env-mismatch");
}
bool gpu_is_newer(const Job& job, const Findings&) {
  return job.asides.contains("too little shared memory");
}
bool kernels_failed(const Job& job, const Findings&) {
  return std::ranges::any_of(job.warnings, [](const auto& one) {
    return one.first != no_row && topic_of(one.first).name == "cuda-kernel-arguments";
  });
}
bool is_fusing_version(const Job& job, const Findings&) {
  return one_is_among(job, "2.26 to 2.26");
}
bool is_before_2_12(const Job& job, const Findings&) {
  return one_is_among(job, "before 2.12");
}
bool is_since_2_19(const Job& job, const Findings&) {
  return one_is_among(job, "2.19 and newer");
}
bool transports_are_off(const Job& job, const Findings&) {
  return is_on(job, "NCCL_P2P_DISABLE") || is_on(job, "NCCL_SHM_DISABLE");
}

}  // namespace weft::report::nccl
