// Causes that no single line shows: hosts and settings compared, and lines that mean something only together.

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "weft-report/nccl/log_line.hpp"
#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using Findings = std::vector<Finding>;

/// Numbers are whole. Of words one may have lost its end with the end of its line.
bool is_same_or_cut(std::string_view a, std::string_view b) {
  constexpr std::string_view digits = "-0123456789";
  const bool number = a.find_first_not_of(digits) == std::string_view::npos ||
                      b.find_first_not_of(digits) == std::string_view::npos;
  return a == b || (!number && (a.starts_with(b) || b.starts_with(a)));
}

/// Settings that name things of a host, or where to write: they may differ.
bool may_differ(std::string_view name) {
  constexpr std::string_view own[] = {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA",  "NCCL_HOSTID",
                                      "NCCL_CONF_FILE",     "NCCL_COMM_ID", "NCCL_RAS_ADDR",
                                      "NCCL_OOB_NET_IFNAME"};
  return name.starts_with("NCCL_DEBUG") || name.find("_FILE") != std::string_view::npos ||
         std::ranges::find(own, name) != std::end(own);
}

void find_env_mismatch(const Job& job, Findings& findings) {
  std::map<std::string, std::pair<const Process*, const Fact*>> first;
  for (const Process& one : job.processes) {
    if (one.host.empty()) continue;  // several hosts may have printed these lines
    for (const auto& [name, fact] : one.settings) {
      if (may_differ(name)) continue;
      const auto [known, fresh] = first.try_emplace(name, &one, &fact);
      if (fresh || is_same_or_cut(known->second.second->value, fact.value)) continue;
      const auto& [other, value] = known->second;
      const bool breaks = job.matched("mismatched-collective");
      Finding finding = finding_of("env-mismatch", breaks ? 0.95 : 0.8, {value->evidence, fact.evidence});
      if (breaks) finding.severity = Severity::critical;
      finding.verdict =
          text(name, " is ", value->value, " on ", other->host, " and ", fact.value, " on ", one.host);
      return findings.push_back(std::move(finding));
    }
  }
}

void find_versions(const Job& job, Findings& findings) {
  for (const auto& [package, versions] : job.packages) {
    if (versions.size() < 2) continue;
    Finding finding = finding_of("version-mismatch", 0.95, {versions[0].evidence, versions[1].evidence});
    finding.verdict =
        text(package, " is ", versions[0].value, " on one host and ", versions[1].value, " on another");
    findings.push_back(std::move(finding));
  }
  const auto number = [](const Fact& version) { return version.value.substr(0, version.value.find('+')); };
  for (const Fact& other : job.versions) {  // builds for several CUDAs of one version work together
    const Fact& first = job.versions.front();
    if (number(other) == number(first)) continue;
    Finding finding = finding_of("version-mismatch", 0.85, {first.evidence, other.evidence});
    finding.verdict = text("ranks run NCCL ", first.value, " and ", other.value);
    return findings.push_back(std::move(finding));
  }
}

/// The CUDA of "2.27.5+cuda12.9" is newer than the driver's, "11080", by its first number: within it, drivers are compatible.
void find_old_driver(const Job& job, Findings& findings) {
  if (job.versions.empty()) return;
  const std::string& version = job.versions.front().value;
  const auto at = version.find("+cuda");
  if (at == std::string::npos) return;
  const std::int64_t built_for = number_in(std::string_view(version).substr(at + 5), 0);
  for (const Process& one : job.processes) {
    const std::int64_t driver = number_in(one.driver.value, 0) / 1000;
    if (driver == 0 || driver >= built_for) continue;
    Finding finding = finding_of("driver-too-old", 0.7, {one.driver.evidence, job.versions.front().evidence});
    finding.verdict =
        text("the driver on ", one.host, " supports CUDA ", driver, ", NCCL is built for CUDA ", built_for);
    return findings.push_back(std::move(finding));
  }
}

void find_second_init(const Job& job, Findings& findings) {
  if (job.reused_ids.empty()) return;
  const Fact& again = job.reused_ids.front();
  Finding finding = finding_of("process-group-init-twice", 0.93, {again.evidence});
  finding.verdict = text("a process begins communicator ", again.value, " again, which it has destroyed");
  for (const Process& one : job.processes) {
    const auto other = std::ranges::find_if(
        one.comms, [&](const CommUse& comm) { return comm.id != again.value && !one.ended_ids.empty(); });
    if (other == one.comms.end()) continue;
    finding.evidence.push_back(other->start);
    break;
  }
  findings.push_back(std::move(finding));
}

void find_network_differs(const Job& job, Findings& findings) {
  const Process* first = nullptr;
  for (const Process& one : job.processes) {
    if (!one.network || one.network.value == "Socket") continue;
    if (first == nullptr) first = &one;
    if (one.network.value == first->network.value || one.host == first->host) continue;
    Finding finding = finding_of("plugin-mismatch", 0.85, {first->network.evidence, one.network.evidence});
    finding.verdict = text(first->host, " uses network ", first->network.value, " and ", one.host, " uses ",
                           one.network.value);
    return findings.push_back(std::move(finding));
  }
}

void find_one_visible_gpu(const Job& job, Findings& findings) {
  std::map<std::string, const Process*> hosts;
  for (const Process& one : job.processes) {
    if (one.cuda_device != 0 || !one.bus || one.connections.p2p > 0 || one.connections.shm == 0) continue;
    const auto [other, fresh] = hosts.try_emplace(one.host, &one);
    if (fresh || other->second->bus.value == one.bus.value) continue;
    return findings.push_back(
        finding_of("p2p-visible-devices", 0.7,
                   {one.bus.evidence, other->second->bus.evidence, one.connections.first_shm}));
  }
}

void find_tests_without_mpi(const Job& job, Findings& findings) {
  if (job.first_ranks.size() < 2 || job.later_ranks > 0) return;
  findings.push_back(finding_of("tests-built-without-mpi", 0.85,
                                {job.first_ranks[0].evidence, job.first_ranks[1].evidence}));
}

/// One finding for all of them. A choice of algorithm may be meant: where no other setting is left over, that is a notice.
void find_left_over(const Job& job, Findings& findings) {
  constexpr std::pair<const char*, std::string_view> slow[] = {
      {"NCCL_P2P_DISABLE", "1"}, {"NCCL_SHM_DISABLE", "1"}, {"NCCL_DEBUG", "TRACE"},    {"NCCL_ALGO", ""},
      {"NCCL_PROTO", ""},        {"NCCL_LAUNCH_MODE", ""},  {"NCCL_MAX_NCHANNELS", "1"}};
  std::vector<Evidence> evidence;
  std::string names;
  bool slows = false;
  for (const auto& [name, value] : slow) {  // an empty value: any
    const Fact* fact = job.setting(name);
    if (fact == nullptr || (!value.empty() && fact->value != value)) continue;
    evidence.push_back(fact->evidence);
    slows = slows || !value.empty();
    names += text(names.empty() ? "" : ", ", name, '=', fact->value);
  }
  if (evidence.empty()) return;
  Finding finding = finding_of("setting-left-over", 0.6, std::move(evidence));
  if (!slows) finding.severity = Severity::notice;
  finding.verdict = text("settings for debugging are left over, and can make the job slower: ", names);
  findings.push_back(std::move(finding));
}

void find_other_library(const Job& job, Findings& findings) {
  if (job.others.empty()) return;
  std::vector<Evidence> evidence;
  std::string names;
  for (const auto& [name, line] : job.others) {
    names += text(names.empty() ? "" : ", ", name);
    evidence.push_back(line);
  }
  Finding finding = finding_of("other-library", 0.9, std::move(evidence));
  finding.verdict = text("lines of ", names, ": what is said of NCCL may not apply to ",
                         job.others.size() == 1 ? "it" : "them");
  findings.push_back(std::move(finding));
}

/// Whether the end is no other's doing, nor asked for. A rank of weft that has lost others ends with 75; a scheduler asks by signals.
bool is_own_end(const RankEnd& end) {
  constexpr int asked = 75;
  constexpr int by_signal = 128;  // as shells say it
  const int signal = end.signal != 0 || end.status < by_signal ? end.signal : end.status - by_signal;
  if (signal == SIGHUP || signal == SIGINT || signal == SIGTERM) return false;
  return !end.lost.empty() || signal != 0 || (end.status != 0 && end.status != asked);
}

/// The first rank that ended: others may have followed. A rank that gives up (SIGABRT, a status) says why itself, if its lines are here.
void find_ended_rank(const Job& job, Findings& findings) {
  const auto first = std::ranges::find_if(job.ends, is_own_end);
  if (first == job.ends.end()) return;
  const bool gave_up = first->lost.empty() && (first->signal == 0 || first->signal == SIGABRT);
  if (gave_up && job.failures.count > 0) return;
  std::vector<Evidence> evidence;
  for (auto one = first; one != job.ends.end() && evidence.size() < 3; ++one)
    evidence.push_back(one->evidence);
  Finding finding = finding_of("rank-ended", gave_up ? 0.4 : 0.6, std::move(evidence));
  if (gave_up) finding.severity = Severity::warning;
  const char* const name = sigabbrev_np(first->signal);
  const std::string how = !first->lost.empty() ? text("lost: ", first->lost)
                          : first->signal == 0 ? text("ended with status ", first->status)
                          : name == nullptr    ? text("killed by signal ", first->signal)
                                               : text("killed by signal ", first->signal, " (SIG", name, ')');
  const bool are_several = first->who.starts_with("ranks ") || first->who.starts_with("tasks ");
  const bool is_end = first->lost.empty() && first->signal == 0;
  finding.verdict = text(first->who,
                         is_end        ? " "
                         : are_several ? " were "
                                       : " was ",
                         how, ", as ", first->launcher, " says");
  findings.push_back(std::move(finding));
}

void find_unexplained(const Job& job, Findings& findings) {
  std::vector<Evidence> evidence;
  for (const Fact& one : job.unexplained) evidence.push_back(one.evidence);
  if (!evidence.empty()) findings.push_back(finding_of("unexplained-warning", 0.2, std::move(evidence)));
}

constexpr JobRule job_table[] = {
    {"env-mismatch", "a setting with two values", find_env_mismatch},
    {"version-mismatch", "two versions of NCCL in the logs, or of its package in pip's lists", find_versions},
    {"driver-too-old", "cudaDriverVersion below the CUDA that NCCL was built for", find_old_driver},
    {"process-group-init-twice", "Init START with a commId that the process has destroyed", find_second_init},
    {"plugin-mismatch", "two hosts with different networks", find_network_differs},
    {"p2p-visible-devices",
     "processes of one host, all with cudaDev 0 on different GPUs, that exchange data by SHM",
     find_one_visible_gpu},
    {"tests-built-without-mpi", "several processes of nccl-tests that call themselves rank 0, and no rank 1",
     find_tests_without_mpi},
    {"setting-left-over", "NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_ALGO, NCCL_PROTO and others",
     find_left_over},
    {"other-library", "lines that RCCL, UCX, oneCCL or gloo print", find_other_library},
    {"rank-ended",
     "lines of weft-launch, torchrun, mpirun, mpiexec and srun that name a rank: the first that was killed, "
     "crashed, or ended with a status "
     "while no other line says why",
     find_ended_rank},
    {"unexplained-warning", "a line with NCCL WARN that no rule knows", find_unexplained},
};

}  // namespace

std::span<const JobRule> job_rules() {
  return job_table;
}

}  // namespace weft::report::nccl
