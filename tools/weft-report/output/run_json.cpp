#include "weft-report/output/run_json.hpp"

#include "core/files/json_node.hpp"
#include "weft-report/nccl/log_line.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using weft::detail::JsonNode;

namespace json = boost::json;

json::array as_json(const std::set<std::string>& values) {
  json::array all;
  for (const std::string& value : values) all.push_back(as_json_text(value));
  return all;
}

json::object as_json(const nccl::Channels& by) {
  return {
      {"p2p", by.p2p}, {"shm", by.shm}, {"tcp", by.socket}, {"rdma", by.rdma}, {"gpudirect", by.rdma_direct}};
}

json::object as_json(const HostFacts& host) {
  json::object settings;
  for (const auto& [name, values] : host.settings) settings[as_json_text(name).as_string()] = as_json(values);
  return {{"host", as_json_text(host.host)},
          {"processes", host.processes},
          {"ranks", json::array(host.ranks.begin(), host.ranks.end())},
          {"nccl", as_json(host.versions)},
          {"driver", as_json(host.drivers)},
          {"network", as_json(host.networks)},
          {"interface", as_json(host.interfaces)},
          {"nics", as_json(host.nics)},
          {"settings", std::move(settings)},
          {"inits_started", host.inits_started},
          {"inits_done", host.inits_done},
          {"channels", as_json(host.channels)}};
}

/// The name of a host whose log is not there is empty.
json::array links_json(const RunFacts& run) {
  const auto host = [&](std::size_t index) {
    return index < run.hosts.size() ? run.hosts[index].host : std::string();
  };
  json::array all;
  for (const Link& link : run.host_links)
    all.push_back({{"from", as_json_text(host(link.from))},
                   {"to", as_json_text(host(link.to))},
                   {"channels", as_json(link.channels)}});
  return all;
}

std::set<std::string> strings_in(const JsonNode& list) {
  std::set<std::string> values;
  list.each([&](const JsonNode& one) { values.insert(one.string()); });
  return values;
}
int count_in(const JsonNode& node) {
  return static_cast<int>(node.integer(0, std::numeric_limits<int>::max()));
}

nccl::Channels channels_in(const JsonNode& node) {
  return {.p2p = count_in(node.member("p2p")),
          .shm = count_in(node.member("shm")),
          .socket = count_in(node.member("tcp")),
          .rdma = count_in(node.member("rdma")),
          .rdma_direct = count_in(node.member("gpudirect"))};
}

HostFacts host_in(const JsonNode& node) {
  HostFacts host{.host = node.member("host").string(),
                 .processes = static_cast<std::size_t>(node.member("processes").integer(0)),
                 .versions = strings_in(node.member("nccl")),
                 .drivers = strings_in(node.member("driver")),
                 .networks = strings_in(node.member("network")),
                 .interfaces = strings_in(node.member("interface")),
                 .inits_started = count_in(node.member("inits_started")),
                 .inits_done = count_in(node.member("inits_done")),
                 .channels = channels_in(node.member("channels"))};
  if (node.contains("ranks"))
    node.member("ranks").each([&](const JsonNode& rank) { host.ranks.insert(rank.integer(0)); });
  if (node.contains("nics")) host.nics = strings_in(node.member("nics"));
  if (node.contains("settings"))
    node.member("settings").each_member([&](const std::string& name, const JsonNode& values) {
      host.settings[name] = strings_in(values);
    });
  return host;
}

Finding finding_in(const JsonNode& node) {
  Finding one{.cause = node.member("cause").string(),
              .severity = node.member("severity").named<Severity>(3),
              .confidence = node.member("confidence").not_negative(),
              .fix = node.member("fix").string()};
  const auto word = [&](const char* name) {
    return node.contains(name) ? node.member(name).string() : std::string();
  };
  one.verdict = word("verdict");
  one.effect = word("expected_effect");
  one.not_when = word("not_when");
  one.versions = word("versions");
  node.member("evidence").each([&](const JsonNode& line) {
    one.evidence.push_back(
        {line.member("file").string(), count_in(line.member("line")), line.member("text").string()});
  });
  return one;
}

}  // namespace

std::string to_json(const RunFacts& run, json::object more) {
  json::array hosts;
  for (const HostFacts& host : run.hosts) hosts.push_back(as_json(host));
  json::array skipped;
  for (const std::string& note : run.skipped) skipped.push_back(as_json_text(note));
  json::object bandwidths;
  for (const auto& [table, sizes] : run.bandwidths) {
    json::object busbw;
    for (const auto& [bytes, speed] : sizes) busbw[std::to_string(bytes)] = speed;
    bandwidths[as_json_text(table).as_string()] = std::move(busbw);
  }
  json::object all{
      {"findings", as_json(run.findings)}, {"hosts", std::move(hosts)}, {"links", links_json(run)},
      {"busbw", std::move(bandwidths)},    {"lines", run.lines},        {"skipped", std::move(skipped)}};
  for (auto& [name, value] : more) all.emplace(name, std::move(value));
  return json::serialize(all) + "\n";
}

bool opens_run(std::string_view start) {
  return start.starts_with("{\"findings\":");
}

RunFacts read_run(std::string_view content, const std::string& file) {
  json::error_code error;
  const json::value value = json::parse(json::string_view(content.data(), content.size()), error);
  if (error)
    throw Error(ErrorKind::usage, text(file, ": is no JSON: ", error.message()),
                "give what weft-report nccl --json wrote, or the logs themselves");
  const JsonNode root(file, value);
  RunFacts run;
  root.member("findings").each([&](const JsonNode& one) { run.findings.push_back(finding_in(one)); });
  root.member("hosts").each([&](const JsonNode& one) {
    run.hosts.push_back(host_in(one));
    run.processes += run.hosts.back().processes;
  });
  if (root.contains("lines")) run.lines = root.member("lines").integer(0);
  if (root.contains("busbw"))
    root.member("busbw").each_member([&](const std::string& table, const JsonNode& sizes) {
      sizes.each_member([&](const std::string& bytes, const JsonNode& speed) {
        run.bandwidths[table][nccl::number_in(bytes, 0)] = speed.not_negative();
      });
    });
  return run;
}

}  // namespace weft::report
