#include "weft-report/nccl/job.hpp"

#include <algorithm>

#include "weft-report/nccl/rules/rules.hpp"

namespace weft::report::nccl {

Job::Job() = default;
Job::Job(const Job&) = default;
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(const Job&) = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

std::set<std::string> Job::hosts() const {
  std::set<std::string> names;
  for (const Process& one : processes) {
    if (!one.host.empty()) names.insert(one.host);
  }
  return names;
}

bool Job::several_nodes() const {
  return hosts().size() > 1 ||
         std::ranges::any_of(processes, [](const Process& one) { return one.nodes > 1; });
}

bool Job::on_one_node() const {
  if (several_nodes()) return false;
  int inside = 0;
  int outside = 0;
  for (const Process& one : processes) {
    if (one.nodes == 1) return true;
    inside += one.connections.p2p + one.connections.shm;
    outside += one.connections.socket + one.connections.rdma + one.connections.rdma_direct;
  }
  return inside > 0 && outside == 0;
}

const Stated* Job::stated(std::string_view format) const {
  for (const Process& one : processes) {
    const auto found = one.stated.find(format);
    if (found != one.stated.end()) return &found->second;
  }
  return nullptr;
}

const Fact* Job::setting(const std::string& name) const {
  for (const Process& one : processes) {
    const auto found = one.settings.find(name);
    if (found != one.settings.end()) return &found->second;
  }
  return nullptr;
}

bool Job::matched(std::string_view cause) const {
  const auto rules = line_rules();
  for (std::size_t i = 0; i < std::min(rules.size(), matches.size()); ++i) {
    if (rules[i].cause == cause && matches[i].count > 0) return true;
  }
  return false;
}

bool Job::says_settings() const {
  return std::ranges::any_of(processes, [](const Process& one) {
    return one.driver || one.bootstrap || one.network || !one.settings.empty() || !one.stated.empty();
  });
}

const Evidence* Job::roce() const {
  for (const topology::Port& port : tools.ports) {
    if (port.link_layer.value == "Ethernet") return &port.link_layer.evidence;
  }
  for (const Process& one : processes) {
    if (one.nics.value.find("/RoCE") != std::string::npos) return &one.nics.evidence;
  }
  return nullptr;
}

const Evidence* Job::infiniband() const {
  for (const topology::Port& port : tools.ports) {
    if (port.link_layer.value == "InfiniBand") return &port.link_layer.evidence;
  }
  for (const Process& one : processes) {
    if (one.nics.value.find("/IB") != std::string::npos) return &one.nics.evidence;
  }
  return nullptr;
}

}  // namespace weft::report::nccl
