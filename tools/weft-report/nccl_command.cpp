#include "nccl_command.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "bandwidth_output.hpp"
#include "common/outputs.hpp"
#include "nccl_options.hpp"
#include "print.hpp"
#include "report/nccl/nccl.hpp"
#include "report/nccl/rules/rules.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;

/// What the processes of a host say together. Different values stand side by side.
struct HostFacts {
  std::set<std::int64_t> pids{};
  std::set<std::string> versions{};
  std::set<std::string> drivers{};
  std::set<std::string> networks{};
  std::set<std::string> interfaces{};
  int inits_started = 0;
  int inits_done = 0;
  nccl::Connections connections{};
};

void add(std::set<std::string>& values, const nccl::Fact& fact) {
  if (fact) values.insert(fact.value);
}

std::map<std::string, HostFacts> hosts_of(const nccl::Job& job) {
  std::map<std::string, HostFacts> hosts;
  for (const nccl::Process& one : job.processes) {
    const bool says_nothing =
        one.host.empty() && !one.version && !one.driver && !one.network && !one.bootstrap;
    if (says_nothing) continue;  // lines without a host that only a rule needs
    HostFacts& host = hosts[one.host];
    host.pids.insert(one.pid);
    add(host.versions, one.version);
    add(host.drivers, one.driver);
    add(host.networks, one.network);
    if (one.bootstrap) host.interfaces.insert(one.bootstrap.value.substr(0, one.bootstrap.value.find(':')));
    host.inits_started += one.inits_started;
    host.inits_done += one.inits_done;
    host.connections.p2p += one.connections.p2p;
    host.connections.shm += one.connections.shm;
    host.connections.socket += one.connections.socket;
    host.connections.rdma += one.connections.rdma;
    host.connections.rdma_direct += one.connections.rdma_direct;
  }
  return hosts;
}

std::string joined(const std::set<std::string>& values) {
  std::string all;
  for (const std::string& value : values) all += (all.empty() ? "" : ", ") + value;
  return all.empty() ? "-" : all;
}

void print_hosts(const nccl::Job& job, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"host", "processes", "NCCL", "driver", "network", "start-up",
                                              "inits done", "P2P", "SHM", "TCP", "RDMA", "GPUDirect"}};
  for (const auto& [name, host] : hosts_of(job)) {
    const nccl::Connections& by = host.connections;
    rows.push_back({name.empty() ? "(not named)" : one_line(name), std::to_string(host.pids.size()),
                    one_line(joined(host.versions)), one_line(joined(host.drivers)),
                    one_line(joined(host.networks)), one_line(joined(host.interfaces)),
                    text(host.inits_done, " of ", std::max(host.inits_started, host.inits_done)),
                    std::to_string(by.p2p), std::to_string(by.shm), std::to_string(by.socket),
                    std::to_string(by.rdma), std::to_string(by.rdma_direct)});
  }
  if (rows.size() == 1) return;
  print_table(rows, out);
  out << "\nP2P, SHM, TCP, RDMA and GPUDirect count channels that the log names, by what carries them.\n";
}

json::array as_json(const std::set<std::string>& values) {
  json::array all;
  for (const std::string& value : values) all.push_back(as_json_text(value));
  return all;
}

json::array hosts_json(const nccl::Job& job) {
  json::array all;
  for (const auto& [name, host] : hosts_of(job)) {
    const nccl::Connections& by = host.connections;
    all.push_back({{"host", as_json_text(name)},
                   {"processes", host.pids.size()},
                   {"nccl", as_json(host.versions)},
                   {"driver", as_json(host.drivers)},
                   {"network", as_json(host.networks)},
                   {"interface", as_json(host.interfaces)},
                   {"inits_started", host.inits_started},
                   {"inits_done", host.inits_done},
                   {"channels",
                    {{"p2p", by.p2p},
                     {"shm", by.shm},
                     {"tcp", by.socket},
                     {"rdma", by.rdma},
                     {"gpudirect", by.rdma_direct}}}});
  }
  return all;
}

std::string to_json(const std::vector<Finding>& findings, const nccl::Job& job,
                    const std::vector<std::string>& notes) {
  json::array skipped;
  for (const std::string& note : notes) skipped.push_back(as_json_text(note));
  json::object all{
      {"findings", as_json(findings)}, {"hosts", hosts_json(job)}, {"skipped", std::move(skipped)}};
  add_bandwidth(job, all);
  return json::serialize(all) + "\n";
}

/// @throws Error (usage) if nothing in the files is NCCL's, or of a tool that a rule knows
void require_log(const nccl::Job& job, const std::vector<std::string>& notes) {
  if (job.nccl_lines + job.known_lines + job.documents.taken > 0) return;
  if (job.lines == 0)
    throw Error(ErrorKind::usage, notes.empty() ? "the logs are empty" : notes.front(),
                "name the logs of the ranks");
  throw Error(ErrorKind::usage, text("none of ", job.lines, " lines is one of NCCL"),
              "run the job with NCCL_DEBUG=INFO, and name the files that hold what its ranks print");
}

}  // namespace

int nccl_command(const std::vector<std::string>& arguments) {
  const NcclOptions options = parse_nccl_options(arguments);
  if (options.help) {
    std::cout << nccl_help();
    return 0;
  }
  if (options.rules) {
    std::cout << nccl::rules_page();
    return 0;
  }
  tool::Outputs outputs("weft-report");
  outputs.open("--json", options.json);
  nccl::JobLog log;
  const std::vector<std::string> notes = log.read(options.paths);
  const nccl::Job& job = log.job();
  require_log(job, notes);
  for (const std::string& note : notes) std::cerr << text("weft-report: ", one_line(note), "\n");
  const std::vector<Finding> findings = nccl::examine(job);
  std::ostream& out = outputs.people();
  print(findings, out);
  if (findings.empty())
    out << text(
        "nothing wrong is seen in ", job.lines, " lines, ", job.nccl_lines, " of them NCCL's",
        job.documents.taken == 0 ? "" : text(", and ", job.documents.taken, " files that were read whole"),
        "\n\n");
  print_bandwidth(job, out);
  print_hosts(job, out);
  outputs.write({{"--json", to_json(findings, job, notes)}});
  return exit_status(findings);
}

}  // namespace weft::report
