#include "weft-report/output/diff.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "common/page/markup.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

using Values = std::set<std::string>;

constexpr std::size_t most_listed = 6;

/// Values of a set, or their number where there are many.
std::string in_short(const Values& values, std::string_view what) {
  return values.size() > most_listed ? counted(values.size(), what) : joined(values);
}

/// What all hosts of a run say.
struct Whole {
  Values hosts{};
  Values versions{};
  Values drivers{};
  Values networks{};
  Values interfaces{};
  Values ports{};  ///< "8 IB", of each host
  std::map<std::string, Values> settings{};
  nccl::Channels channels{};
  std::size_t processes = 0;
  int inits_started = 0;
  int inits_done = 0;
};

std::string ports_of_kinds(const HostFacts& host) {
  std::map<std::string, std::size_t> kinds;
  for (const std::string& port : host.nics) ++kinds[port.substr(port.rfind('/') + 1)];
  std::string words;
  for (const auto& [kind, count] : kinds) words += text(words.empty() ? "" : " and ", count, ' ', kind);
  return words;
}

Whole whole_of(const RunFacts& run) {
  Whole all;
  for (const HostFacts& host : run.hosts) {
    all.hosts.insert(host.host.empty() ? "(not named)" : host.host);
    all.versions.insert(host.versions.begin(), host.versions.end());
    all.drivers.insert(host.drivers.begin(), host.drivers.end());
    all.networks.insert(host.networks.begin(), host.networks.end());
    all.interfaces.insert(host.interfaces.begin(), host.interfaces.end());
    if (!host.nics.empty()) all.ports.insert(ports_of_kinds(host));
    for (const auto& [name, values] : host.settings) all.settings[name].insert(values.begin(), values.end());
    all.processes += host.processes;
    all.inits_started += std::max(host.inits_started, host.inits_done);
    all.inits_done += host.inits_done;
    all.channels.p2p += host.channels.p2p;
    all.channels.shm += host.channels.shm;
    all.channels.socket += host.channels.socket;
    all.channels.rdma += host.channels.rdma;
    all.channels.rdma_direct += host.channels.rdma_direct;
  }
  return all;
}

class Changes {
 public:
  void add(std::string what, std::string before, std::string after) {
    if (before != after) all_.push_back({std::move(what), std::move(before), std::move(after)});
  }
  void add(std::string what, const Values& before, const Values& after, std::string_view plural_of) {
    if (before != after) add_always(std::move(what), in_short(before, plural_of), in_short(after, plural_of));
  }
  std::vector<Change> take() { return std::move(all_); }

 private:
  /// Two large sets of one size differ, too.
  void add_always(std::string what, std::string before, std::string after) {
    if (before == after) after += ", others";
    all_.push_back({std::move(what), std::move(before), std::move(after)});
  }

  std::vector<Change> all_;
};

std::vector<Change> changed_facts(const RunFacts& before, const RunFacts& after) {
  const Whole a = whole_of(before);
  const Whole b = whole_of(after);
  Changes changes;
  changes.add("NCCL", a.versions, b.versions, "version");
  changes.add("driver", a.drivers, b.drivers, "version");
  changes.add("network", a.networks, b.networks, "network");
  changes.add("start-up over", a.interfaces, b.interfaces, "interface");
  changes.add("network ports of a host", a.ports, b.ports, "kind");
  std::map<std::string, Values> names = a.settings;
  names.insert(b.settings.begin(), b.settings.end());
  for (const auto& [name, values] : names) {
    const auto value = [&name = name](const Whole& run) {
      const auto found = run.settings.find(name);
      return found == run.settings.end() ? Values{} : found->second;
    };
    changes.add(name, value(a), value(b), "value");
  }
  changes.add("hosts", a.hosts, b.hosts, "host");
  changes.add("processes", std::to_string(a.processes), std::to_string(b.processes));
  changes.add("communicators complete", text(a.inits_done, " of ", a.inits_started),
              text(b.inits_done, " of ", b.inits_started));
  const auto channels = by_carrier(a.channels);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    changes.add("channels by " + channels[i].first, std::to_string(channels[i].second),
                std::to_string(by_carrier(b.channels)[i].second));
  }
  return changes.take();
}

std::vector<SpeedChange> changed_speeds(const RunFacts& before, const RunFacts& after) {
  std::vector<SpeedChange> all;
  for (const auto& [table, sizes] : after.bandwidths) {
    const auto earlier = before.bandwidths.find(table);
    if (earlier == before.bandwidths.end()) continue;
    for (const auto& [bytes, speed] : sizes) {
      const auto found = earlier->second.find(bytes);
      if (found != earlier->second.end()) all.push_back({table, bytes, found->second, speed});
    }
  }
  return all;
}

const Finding* same_cause(const std::vector<Finding>& findings, const Finding& one) {
  const auto found = std::ranges::find(findings, one.cause, &Finding::cause);
  return found == findings.end() ? nullptr : &*found;
}

std::string are(std::size_t count) {
  return text(count, count == 1 ? " is" : " are");
}

}  // namespace

RunDiff compare(const RunFacts& before, const RunFacts& after) {
  RunDiff diff{.facts = changed_facts(before, after), .speeds = changed_speeds(before, after)};
  for (const Finding& one : after.findings) {
    const Finding* earlier = same_cause(before.findings, one);
    (earlier == nullptr || earlier->severity < one.severity ? diff.fresh : diff.same).push_back(one);
  }
  for (const Finding& one : before.findings) {
    if (same_cause(after.findings, one) == nullptr) diff.gone.push_back(one);
  }
  return diff;
}

std::string verdict(const RunDiff& diff) {
  std::string words =
      text(diff.fresh.empty() ? "no new finding" : counted(diff.fresh.size(), "new finding"), ", ",
           are(diff.gone.size()), " gone, ", are(diff.same.size()), " the same; ",
           diff.facts.empty()
               ? "no fact differs"
               : text(diff.facts.size(), diff.facts.size() == 1 ? " fact differs" : " facts differ"));
  if (diff.speeds.empty()) return words;
  const auto [least, most] = std::ranges::minmax(diff.speeds, {}, &SpeedChange::ratio);
  return words + text("; bandwidth is ", fixed(least.ratio(), 2), " to ", fixed(most.ratio(), 2),
                      " times that of the first run");
}

TextTable facts_table(const RunDiff& diff) {
  TextTable table{.caption = "What differs", .heading = {"fact", "first run", "second run"}, .words = 2};
  for (const Change& one : diff.facts) table.rows.push_back({one.what, one.before, one.after});
  return table;
}

TextTable speeds_table(const RunDiff& diff) {
  TextTable table{.caption = "Bus bandwidth",
                  .heading = {"measured", "bytes", "first run, GB/s", "second run, GB/s", "ratio"},
                  .note = "A ratio above 1: the second run is faster."};
  for (const SpeedChange& one : diff.speeds) {
    table.rows.push_back({one.table, grouped(static_cast<double>(one.bytes)), fixed(one.before, 2),
                          fixed(one.after, 2), fixed(one.ratio(), 2)});
  }
  return table;
}

TextTable findings_table(const std::string& caption, const std::vector<Finding>& findings) {
  TextTable table{.caption = caption, .heading = {"finding", "severity", "what is wrong"}, .words = 2};
  for (const Finding& one : findings)
    table.rows.push_back({one.cause, std::string(name(one.severity)), one.verdict});
  return table;
}

std::string to_json(const RunDiff& diff) {
  namespace json = boost::json;
  json::array facts;
  for (const Change& one : diff.facts)
    facts.push_back({{"what", as_json_text(one.what)},
                     {"before", as_json_text(one.before)},
                     {"after", as_json_text(one.after)}});
  json::array speeds;
  for (const SpeedChange& one : diff.speeds)
    speeds.push_back({{"table", as_json_text(one.table)},
                      {"bytes", one.bytes},
                      {"before", one.before},
                      {"after", one.after},
                      {"ratio", one.ratio()}});
  return json::serialize(json::object{{"new", as_json(diff.fresh)},
                                      {"gone", as_json(diff.gone)},
                                      {"same", as_json(diff.same)},
                                      {"facts", std::move(facts)},
                                      {"busbw", std::move(speeds)}}) +
         "\n";
}

}  // namespace weft::report
