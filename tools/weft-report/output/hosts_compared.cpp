// Hosts beside each other: those that say the same are one row.

#include <algorithm>
#include <iterator>

#include "common/page/markup.hpp"
#include "weft-report/output/run_sections.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

using Cells = std::vector<std::string>;

constexpr std::size_t most_groups = 100;
constexpr std::size_t most_hosts_named = 3;

std::string shown(const std::string& host) {
  return host.empty() ? "(not named)" : clean(host);
}

std::string direct(const HostFacts& host) {
  const nccl::Channels& by = host.channels;
  if (by.rdma_direct > 0) return by.rdma > 0 ? "partly" : "on";
  if (by.rdma > 0) return "off";
  if (host.direct_on + host.direct_off == 0) return "-";
  return host.direct_on > 0 ? host.direct_off > 0 ? "partly" : "enabled" : "disabled";
}

std::string carrier_names(const HostFacts& host) {
  std::string names;
  for (const auto& [name, count] : by_carrier(host.channels)) {
    if (count > 0) names += text(names.empty() ? "" : ", ", name);
  }
  return names.empty() ? "-" : names;
}

/// The settings of all hosts that not all of them have alike.
std::set<std::string> uneven_settings(const RunFacts& run) {
  std::set<std::string> names;
  for (const HostFacts& host : run.hosts) {
    for (const auto& [name, values] : host.settings) names.insert(name);
  }
  std::erase_if(names, [&](const std::string& name) {
    const auto first = run.hosts.front().settings.find(name);
    return first != run.hosts.front().settings.end() &&
           std::ranges::all_of(run.hosts, [&](const HostFacts& host) {
             const auto found = host.settings.find(name);
             return found != host.settings.end() && found->second == first->second;
           });
  });
  return names;
}

std::string settings_of(const HostFacts& host, const std::set<std::string>& names) {
  std::string all;
  for (const std::string& name : names) {
    const auto found = host.settings.find(name);
    if (found != host.settings.end()) all += text(all.empty() ? "" : ", ", name, '=', joined(found->second));
  }
  return all.empty() ? "-" : all;
}

/// "8 IB", and after it the ports that this host alone lacks or has.
std::string ports_of(const HostFacts& host, const std::set<std::string>& usual) {
  std::map<std::string, std::size_t> kinds;
  for (const std::string& port : host.nics) ++kinds[port.substr(port.rfind('/') + 1)];
  std::string words;
  for (const auto& [kind, count] : kinds) words += text(words.empty() ? "" : ", ", count, ' ', kind);
  std::set<std::string> missing;
  std::set<std::string> extra;
  std::ranges::set_difference(usual, host.nics, std::inserter(missing, missing.end()));
  std::ranges::set_difference(host.nics, usual, std::inserter(extra, extra.end()));
  if (words.empty()) return "-";
  if (!missing.empty()) words += text("; without ", joined(missing));
  if (!extra.empty()) words += text("; with ", joined(extra));
  return words;
}

std::string inits_of(const HostFacts& host) {
  if (host.inits_started + host.inits_done == 0) return "-";
  if (host.inits_done >= host.inits_started) return "complete";
  return text(host.inits_done, " of ", host.inits_started);
}

const Cells& heading() {
  static const Cells words{"NCCL",  "driver",    "network",  "start-up over",       "start-up",
                           "ports", "GPUDirect", "channels", "settings that differ"};
  return words;
}

/// What hosts are compared with.
struct Usual {
  std::set<std::string> uneven{};  ///< settings
  std::set<std::string> ports{};
};

Cells compared_cells(const HostFacts& host, const Usual& usual) {
  return {joined(host.versions),
          joined(host.drivers),
          joined(host.networks),
          joined(host.interfaces),
          inits_of(host),
          ports_of(host, usual.ports),
          direct(host),
          carrier_names(host),
          settings_of(host, usual.uneven)};
}

std::set<std::string> usual_ports(const RunFacts& run) {
  std::map<std::set<std::string>, std::size_t> count;
  for (const HostFacts& host : run.hosts) ++count[host.nics];
  return std::ranges::max_element(count, {}, [](const auto& one) { return one.second; })->first;
}

/// For each column what more than half of the hosts say that say something; empty where no value has so many.
Cells usual_cells(const std::vector<Cells>& hosts) {
  Cells most(heading().size());
  for (std::size_t column = 0; column < most.size(); ++column) {
    std::map<std::string, std::size_t> count;
    std::size_t said = 0;
    for (const Cells& host : hosts) {
      if (host[column] == "-") continue;
      ++count[host[column]];
      ++said;
    }
    if (said == 0) most[column] = "-";
    for (const auto& [value, times] : count) {
      if (2 * times > said) most[column] = value;
    }
  }
  return most;
}
/// A host that says nothing does not differ.
bool is_odd(const std::string& cell, const std::string& usual) {
  return cell != "-" && cell != usual;
}

/// "node1, node2 and 6 more"
std::string names_of(const std::vector<const HostFacts*>& hosts) {
  std::string names;
  for (std::size_t i = 0; i < std::min(hosts.size(), most_hosts_named); ++i)
    names += text(i == 0 ? "" : ", ", shown(hosts[i]->host));
  if (hosts.size() > most_hosts_named) names += text(" and ", hosts.size() - most_hosts_named, " more");
  return names;
}

struct Group {
  Cells cells;
  std::vector<const HostFacts*> hosts;
  std::size_t odd = 0;  ///< cells that differ from the usual ones
};

std::vector<Group> host_groups(const RunFacts& run, Cells& most) {
  const Usual compare{uneven_settings(run), usual_ports(run)};
  std::vector<Cells> rows;
  for (const HostFacts& host : run.hosts) rows.push_back(compared_cells(host, compare));
  most = usual_cells(rows);
  std::map<Cells, std::size_t> index;
  std::vector<Group> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [at, fresh] = index.try_emplace(rows[i], groups.size());
    if (fresh) groups.push_back({.cells = rows[i], .hosts = {}});
    groups[at->second].hosts.push_back(&run.hosts[i]);
  }
  for (Group& group : groups) {
    for (std::size_t i = 0; i < most.size(); ++i) group.odd += is_odd(group.cells[i], most[i]) ? 1 : 0;
  }
  std::ranges::stable_sort(groups, std::greater<>(), &Group::odd);
  return groups;
}

/// Those that say something; the ones in which hosts differ first.
std::vector<std::size_t> columns_of(const std::vector<Group>& groups, const Cells& most) {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> alike;
  for (std::size_t i = 0; i < most.size(); ++i) {
    if (std::ranges::any_of(groups, [&](const Group& group) { return is_odd(group.cells[i], most[i]); })) {
      columns.push_back(i);
    } else if (most[i] != "-") {
      alike.push_back(i);
    }
  }
  columns.insert(columns.end(), alike.begin(), alike.end());
  return columns;
}

std::string matrix_row(const Group& group, const Cells& most, const std::vector<std::size_t>& columns) {
  std::size_t processes = 0;
  for (const HostFacts* host : group.hosts) processes += host->processes;
  std::string row =
      text("<tr><th scope=\"row\" class=\"words wraps\">", escaped(names_of(group.hosts)), "</th><td>",
           group.hosts.size(), "</td><td>", grouped(static_cast<double>(processes)), "</td>");
  for (const std::size_t i : columns) {
    const bool odd = is_odd(group.cells[i], most[i]);
    const bool may_wrap = i + 1 == most.size() || group.cells[i].size() > 40;
    row += text("<td class=\"words", may_wrap ? " wraps" : "", odd ? " odd" : "", "\">", odd ? "≠ " : "",
                escaped(clean(group.cells[i])), "</td>");
  }
  return row + "</tr>\n";
}

}  // namespace

PageSection hosts_compared(const RunFacts& run) {
  PageSection section{.heading = "Hosts compared"};
  if (run.hosts.empty()) return section;
  Cells most;
  const std::vector<Group> groups = host_groups(run, most);
  const std::vector<std::size_t> columns = columns_of(groups, most);
  section.note = run.hosts.size() == 1 ? "What the only host says."
                 : groups.size() == 1
                     ? "All hosts say the same."
                     : "Hosts that say the same are one row. ≠ marks what differs from most hosts.";
  section.html =
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Hosts "
      "compared\"><table>\n<thead><tr>"
      "<th scope=\"col\" class=\"words\">hosts</th><th scope=\"col\">number</th><th "
      "scope=\"col\">processes</th>";
  for (const std::size_t i : columns)
    section.html += text("<th scope=\"col\" class=\"words\">", heading()[i], "</th>");
  section.html += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < std::min(groups.size(), most_groups); ++i)
    section.html += matrix_row(groups[i], most, columns);
  section.html += "</tbody></table></div>\n";
  if (groups.size() > most_groups)
    section.html += text("<p class=\"note\">", groups.size() - most_groups, " more rows are left out.</p>\n");
  return section;
}

std::set<std::string> odd_hosts(const RunFacts& run) {
  std::set<std::string> odd;
  Cells most;
  if (run.hosts.empty()) return odd;
  for (const Group& group : host_groups(run, most)) {
    for (const HostFacts* host : group.hosts) {
      if (group.odd > 0) odd.insert(host->host);
    }
  }
  return odd;
}

}  // namespace weft::report
