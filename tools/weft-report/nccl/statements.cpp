#include "weft-report/nccl/statements.hpp"

#include <algorithm>
#include <utility>

#include "weft-report/nccl/communicators.hpp"
#include "weft-report/nccl/kept.hpp"
#include "weft-report/nccl/launchers.hpp"
#include "weft-report/nccl/torch/stops.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::size_t longest_evidence = 400;
constexpr std::size_t most_failures = 4;

bool is_number(std::string_view value) {
  return !value.empty() && value.find_first_not_of("-0123456789") == std::string_view::npos;
}

bool take_version(const Said& said, Process& process, Job& job) {
  if (!said.line.message.starts_with("NCCL version ")) return false;
  const std::string_view version = word_after(said.line.message, "NCCL version ");
  if (number_in(version, -1) < 0) return false;
  keep(job.versions, version, said);
  return keep(process.version, version, said);
}
bool take_driver(const Said& said, Process& process, Job&) {
  return keep(process.driver, word_after(said.text, "cudaDriverVersion "), said);
}
bool take_bootstrap(const Said& said, Process& process, Job&) {
  const std::string_view rest = after(said.line.message, ": Using");
  return said.line.message.starts_with("Bootstrap") && keep(process.bootstrap, trimmed(rest), said);
}
bool take_network(const Said& said, Process& process, Job&) {
  return said.line.message.starts_with("Using network ") &&
         keep(process.network, trimmed(after(said.line.message, "Using network ")), said);
}
bool take_sockets(const Said& said, Process& process, Job&) {
  const std::string_view rest = trimmed(after(said.line.message, ": Using"));
  return rest.starts_with("[") && keep(process.sockets, rest, said);
}
/// Before 2.4 each interface has a line of its own: "NET : Using interface eth0:10.0.0.1<0>".
bool take_interface(const Said& said, Process& process, Job&) {
  constexpr std::size_t longest = 1024;
  const std::string_view rest = trimmed(after(said.line.message, "NET : Using interface "));
  if (rest.find(':') == std::string_view::npos || process.sockets.value.size() > longest) return false;
  if (process.sockets.value.find(rest) != std::string::npos) return true;
  if (!process.sockets) process.sockets.evidence = said.evidence();
  process.sockets.value += text(process.sockets.value.empty() ? "[" : " [",
                                std::ranges::count(process.sockets.value, '['), "]", rest.substr(0, 128));
  return true;
}
bool take_nics(const Said& said, Process& process, Job&) {
  const std::string_view rest = trimmed(after(said.line.message, ": Using"));
  return rest.starts_with("[") && keep(process.nics, rest, said);
}
bool take_direct(const Said& said, Process& process, Job&) {
  const std::string_view rest = after(said.line.message, "GPU Direct RDMA ");
  if (rest.starts_with("Enabled for HCA")) {
    ++process.direct_on;
  } else if (rest.starts_with("Disabled for HCA")) {
    if (process.direct_off++ == 0) process.first_direct_off = said.evidence();
  } else if (rest.starts_with("Enabled for GPU")) {
    ++process.near_pairs;
  } else if (rest.starts_with("Disabled for GPU")) {
    if (process.far_pairs++ == 0) process.first_far_pair = said.evidence();
  } else {
    return false;
  }
  return true;
}

bool take_setting(const Said& said, Process& process, Job&) {
  const std::string_view message = said.line.message;
  const auto at = message.find(" set ");
  if (at == std::string_view::npos) return false;  // it stands before the level
  const std::string_view name = message.substr(0, at);
  if (!name.starts_with("NCCL_") || name.find(' ') != std::string_view::npos) return false;
  std::string_view value = trimmed(after(message.substr(at), "to "));
  const bool whole = value.ends_with('.');  // numbers end so: "to 16." may have been cut to "to 1"
  if (whole) value.remove_suffix(1);
  if (is_number(value) && !whole && !name.ends_with("_LEVEL")) return false;
  if (value.empty() || process.settings.size() >= 4 * most_kept) return false;
  keep(process.settings[std::string(name)], value, said);
  return true;
}

/// What a launcher or pdsh puts before a line: "[1,3]<stdout>:", "node1: ". Words of a sentence have no digit.
bool is_tag(std::string_view before) {
  const std::string_view word = trimmed(before);
  return word.ends_with(':') && word.find_first_of(" \t") == std::string_view::npos &&
         word.find_first_of("0123456789") != std::string_view::npos;
}

/// A line of "env", of a script or of a command: "NCCL_IB_DISABLE=1", "export NCCL_...", "-x NCCL_...". Advice in the middle of a sentence is
/// none.
bool take_variable(const Said& said, Process& process, Job&) {
  if (said.line.level != Level::none) return false;
  const std::string_view line = said.text;
  bool found = false;
  for (auto at = line.find("NCCL_"); at != std::string_view::npos; at = line.find("NCCL_", at + 1)) {
    const std::string_view before = line.substr(0, at);
    if (at != 0 && !is_tag(before) && !before.ends_with("export ") && !before.ends_with("-x ") &&
        !before.ends_with("-e "))
      continue;
    const std::string_view assignment = line.substr(at, line.find_first_of(" \t\r", at) - at);
    const auto equals = assignment.find('=');
    if (equals == std::string_view::npos || process.settings.size() >= 4 * most_kept) continue;
    const std::string_view value = assignment.substr(equals + 1);
    if (!value.empty()) keep(process.settings[std::string(assignment.substr(0, equals))], value, said);
    found = true;
  }
  return found;
}

bool take_gids(const Said& said, Process&, Job& job) {
  // "local GID index 3, local GID ::ffff:10.1.2.1, remote GID ::ffff:10.1.3.1"
  std::string_view line = said.text;
  const std::string_view behind_index = after(line, "local GID index ");
  if (!behind_index.empty()) line = behind_index;
  std::string_view local = word_after(line, "local GID ");
  std::string_view remote = word_after(line, "remote GID ");
  if (local.empty()) local = word_after(line, "localGid ");
  if (remote.empty()) remote = word_after(line, "remoteGids");
  if (remote.empty()) remote = word_after(line, "remoteGid ");
  if (local.empty() || remote.empty()) return false;
  if (job.gids.size() < most_kept)
    job.gids.push_back({std::string(local), std::string(remote), said.evidence()});
  return true;
}

/// "2: eth0: <BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state UP"
bool take_interface_mtu(const Said& said, Process&, Job& job) {
  std::string_view name = said.text.substr(0, said.text.find(": <"));
  name = trimmed(name.substr(name.find(": ") == std::string_view::npos ? 0 : name.find(": ") + 2));
  if (name.empty() || name == "lo" || job.tools.ports.size() >= 4096) return false;
  job.tools.ports.push_back({.hca = std::string(name.substr(0, name.find('@'))),
                             .link_layer = {"ip", said.evidence()},
                             .mtu = {std::string(word_after(said.text, "> mtu ")), said.evidence()},
                             .evidence = said.evidence()});
  return true;
}

bool take_pattern(const Said& said, Process&, Job& job) {
  std::optional<topology::Graph> graph = topology::graph_of_line(said.line.message);
  if (!graph) return false;
  const bool known =
      std::ranges::any_of(job.patterns, [&](const topology::Graph& one) { return one.alike(*graph); });
  if (known || job.patterns.size() == most_kept) return true;
  graph->evidence = said.evidence();
  job.patterns.push_back(std::move(*graph));
  return true;
}

/// "nvidia-nccl-cu12==2.20.5" of pip, once for each version.
bool take_package(const Said& said, Process&, Job& job) {
  const std::string_view line = trimmed(said.text);
  const auto equals = line.find("==");
  if (!line.starts_with("nvidia-nccl-") || equals == std::string_view::npos ||
      job.packages.size() >= most_kept)
    return false;
  return keep(job.packages[std::string(line.substr(0, equals))], line.substr(equals + 2), said);
}

/// nccl-tests: "#  Rank  0 Group  0 Pid  63246 on    gn41 device  0 [0x18] NVIDIA H100"
bool take_test_rank(const Said& said, Process&, Job& job) {
  const std::string_view rest = trimmed(after(said.text, "Rank "));
  if (!trimmed(said.text).starts_with('#')) return false;
  if (number_in(rest, -1) > 0) {
    ++job.later_ranks;
    return true;
  }
  const std::string_view pid = trimmed(after(rest, "Pid "));
  return keep(job.first_ranks, pid.substr(0, pid.find(" device")), said);
}

bool take_no_verbs(const Said& said, Process&, Job& job) {
  job.asides.try_emplace("no libibverbs", said.evidence());
  return true;
}
bool take_gib(const Said& said, Process&, Job& job) {
  job.asides.try_emplace("gIB begins", said.evidence());
  return true;
}
bool take_no_device(const Said& said, Process&, Job& job) {
  job.asides.try_emplace("no RDMA device", said.evidence());
  return true;
}

bool take_efa_variable(const Said& said, Process&, Job& job) {
  job.asides.try_emplace("EFA is wanted", said.evidence());
  return true;
}
bool take_plugin_name(const Said& said, Process&, Job& job) {
  job.asides.try_emplace("a plug-in is named", said.evidence());
  return true;
}
bool take_old_plugin(const Said& said, Process&, Job& job) {
  job.asides.try_emplace("an old plug-in", said.evidence());
  return true;
}

bool take_little_memory(const Said& said, Process&, Job& job) {
  job.asides.try_emplace("too little shared memory", said.evidence());
  return true;
}
/// What prints lines that are not NCCL's. By the words that only it prints.
bool take_other_library(const Said& said, Process&, Job& job) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {{"RCCL version", "RCCL"},
                                                                     {"librccl", "RCCL"},
                                                                     {"Librccl", "RCCL"},
                                                                     {"UCX  ", "UCX"},
                                                                     {"uct_ib_", "UCX"},
                                                                     {"ib_mlx5_log.c", "UCX"},
                                                                     {"CCL_", "oneCCL"},
                                                                     {"oneCCL: ", "oneCCL"},
                                                                     {"ccl::v1::exception", "oneCCL"},
                                                                     {"gloo/transport", "gloo"},
                                                                     {"gloo/rendezvous", "gloo"},
                                                                     {"gloo::", "gloo"},
                                                                     {"[Gloo] Rank ", "gloo"},
                                                                     {"Gloo connectFullMesh", "gloo"}};
  for (const auto& [words, name] : names) {
    if (said.text.find(words) == std::string_view::npos) continue;
    job.others.try_emplace(std::string(name), said.evidence());
    return true;
  }
  return false;
}
bool take_multicast(const Said& said, Process&, Job& job) {
  job.asides.try_emplace("NVLink SHARP binds", said.evidence());
  return true;
}
/// A line that no job prints that is well.
bool take_failure(const Said& said, Process&, Job& job) {
  if (said.line.level != Level::none) return false;
  const auto& known = job.failures.evidence;
  if (!known.empty() && known.back().line == said.number && known.back().file == said.file)
    return true;  // another phrase of the same line
  ++job.failures.count;
  if (job.failures.evidence.size() < most_failures) job.failures.evidence.push_back(said.evidence());
  return true;
}

/// Links of the topology and of the network: the lines of the GRAPH subsystem, and others.
bool take_link(const Said& said, Process&, Job& job) {
  return said.line.level == Level::info &&
         bandwidth::take_link(
             said.line.message, said.line.host, [&said] { return said.evidence(); }, job.links);
}
/// Paths, of which a log has many, name CPUs, too.
bool take_cpu(const Said& said, Process& process, Job& job) {
  return said.line.message.starts_with("CPU/") && take_link(said, process, job);
}
bool take_tuning(const Said& said, Process&, Job& job) {
  return said.line.level == Level::info &&
         bandwidth::take_tuning(said.line.message, said.line.pid, said.evidence(), job.tuning);
}

constexpr Statement statement_table[] = {
    {"NCCL version ", take_version},
    {"cudaDriverVersion ", take_driver},
    {"Bootstrap : Using", take_bootstrap},
    {"Bootstrap: Using", take_bootstrap},
    {"Using network ", take_network},
    {"NET/Socket : Using", take_sockets},
    {"NET : Using interface", take_interface},
    {"NET/Socket: Using", take_sockets},
    {"NET/IB : Using", take_nics},
    {"NET/gIB : Using", take_nics},
    {"NET/gIB : Initializing", take_gib},
    {"GPU Direct RDMA ", take_direct},
    {" set by environment to ", take_setting},
    {"NCCL_IB_HCA set to ", take_setting},
    {" nNodes ", take_shape},
    {"Pattern ", take_pattern},
    {"Init START", take_init_start},
    {"Init COMPLETE", take_init_done},
    {"Destroy COMPLETE", take_destroyed},
    {"Abort COMPLETE", take_destroyed},
    {"local GID index ", take_gids},
    {"localGid ", take_gids},
    {"nvidia-nccl-", take_package},
    {"Rank ", take_test_rank},
    {"Failed to open libibverbs", take_no_verbs},
    {"NET/IB : No device found", take_no_device},
    {"FI_PROVIDER=efa", take_efa_variable},
    {"FI_EFA_USE_DEVICE_RDMA=1", take_efa_variable},
    {"Plugin name set by env to ", take_plugin_name},
    {"NCCL_NET_PLUGIN set by environment to ", take_plugin_name},
    {"ncclNetPlugin symbols v4 and lower are not supported", take_old_plugin},
    {"NCCL_", take_variable},
    {"> mtu ", take_interface_mtu},
    {"Pattern ", take_link},
    {"=== System : ", take_link},
    {" - NET/", take_link},
    {"NET/IB: [", take_link},
    {"Made virtual device [", take_link},
    {" collnet channels, ", take_link},
    {"CPU/0", take_cpu},
    {"NVLS Bind mem", take_multicast},
    {"RCCL version", take_other_library},
    {"librccl", take_other_library},
    {"Librccl", take_other_library},
    {"UCX  FATAL", take_other_library},
    {"UCX  ERROR", take_other_library},
    {"UCX  WARN", take_other_library},
    {"UCX  DIAG", take_other_library},
    {"UCX  INFO", take_other_library},
    {"UCX  DEBUG", take_other_library},
    {"uct_ib_", take_other_library},
    {"ib_mlx5_log.c", take_other_library},
    {"|CCL_ERROR|", take_other_library},
    {"|CCL_WARN|", take_other_library},
    {"|CCL_INFO|", take_other_library},
    {"|CCL_DEBUG|", take_other_library},
    {"|CCL_TRACE|", take_other_library},
    {"oneCCL: ", take_other_library},
    {"ccl::v1::exception", take_other_library},
    {"gloo/transport/", take_other_library},
    {"gloo/rendezvous/", take_other_library},
    {"gloo::", take_other_library},
    {"[Gloo] Rank ", take_other_library},
    {"Gloo connectFullMesh", take_other_library},
    {"exceeds device/fn maxSharedMem", take_little_memory},
    {"Watchdog caught collective operation timeout", take_timeout},
    {"ast enqueued NCCL work: ", take_progress},
    {"Heartbeat monitor timed out", take_heartbeat},
    {"watchdog got stuck for", take_heartbeat},
    {"is setting up NCCL communicator and retr", take_lost_id},
    {"Traceback (most recent call last)", take_failure},
    {"undefined symbol: ", take_failure},
    {"CUDA error: ", take_failure},
    {"RuntimeError: ", take_failure},
    {"DistBackendError: ", take_failure},
    {"DistNetworkError: ", take_failure},
    {"ImportError: ", take_failure},
    {"NCCL error in: ", take_failure},
    {"Test NCCL failure ", take_failure},
    {"NCCL Error ", take_failure},
    {"NCCL failure ", take_failure},
    {"unhandled system error", take_failure},
    {"unhandled cuda error", take_failure},
    {"ncclInternalError", take_failure},
    {"ncclInvalidUsage", take_failure},
    {"ncclInvalidArgument", take_failure},
    {"ncclSystemError", take_failure},
    {"ncclRemoteError", take_failure},
    {"remote process exited or there was a network error", take_failure},
    {"symbol lookup error", take_failure},
    {"core dumped", take_failure},
    {"Watchdog caught collective operation timeout", take_failure},
    {"NCCL work: ", take_failure},
    {"eartbeat monitor", take_failure},
    {"Test CUDA failure ", take_failure},
    {"terminate called after throwing", take_failure},
    {"Segmentation fault", take_failure},
    {"Signal: ", take_failure},
    {"Fatal Python error", take_failure},
    {"ChildFailedError", take_failure},
    {"failed (exitcode: ", take_failure},
    {"Some NCCL operations have failed or timed out", take_failure},
    {" was killed by signal ", take_end_by_weft_launch},
    {" ended with status ", take_end_by_weft_launch},
    {" is lost: ", take_lost_host},
    {"failed (exitcode: ", take_end_by_torchrun},
    {" noticed that process rank ", take_end_by_open_mpi},
    {"  Process name: [", take_name_by_open_mpi},
    {"  Exit code: ", take_code_by_open_mpi},
    {"srun: error: ", take_end_by_srun},
    {" RUNNING AT ", take_place_by_hydra},
    {"KILLED BY SIGNAL: ", take_end_by_hydra},
    {"EXIT CODE: ", take_end_by_hydra},
    {"TERMINATED WITH THE EXIT STRING: ", take_end_by_hydra},
    {"  Algorithm   |", take_tuning},
    {"  Protocol    |", take_tuning},
    {"Latency/AlgBw |", take_tuning},
    {" Max NThreads |", take_tuning},
    {" Broadcast |", take_tuning},
    {" Reduce |", take_tuning},
    {" AllGather |", take_tuning},
    {"ReduceScatter |", take_tuning},
    {" AllReduce |", take_tuning},
    {" Bytes -> Algo ", take_tuning},
};

}  // namespace

void Said::copy_to(Evidence& evidence) const {
  std::string_view words = text;
  while (!words.empty() && (words.back() == '\r' || words.back() == ' ')) words.remove_suffix(1);
  evidence.text.assign(words.substr(0, longest_evidence));
  if (words.size() > longest_evidence) evidence.text += " ...";
  evidence.file.assign(file);
  evidence.line = number;
}

Evidence Said::evidence() const {
  Evidence one;
  copy_to(one);
  return one;
}

std::span<const Statement> statements() {
  return statement_table;
}

}  // namespace weft::report::nccl
