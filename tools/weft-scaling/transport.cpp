#include "transport.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "collectives/diagnosis/texts.hpp"
#include "common/temporary_folder.hpp"
#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

std::string without(std::string text, const std::string& part) {
  const auto at = text.find(part);
  return at == std::string::npos ? text : text.erase(at, part.size());
}

std::string described(const Connection& one) {
  return text(one.via, one.gdr ? " with GPUDirect RDMA" : "", one.nvlink ? " (NVLink)" : "");
}

bool is_network(const Connection& one) {
  return one.via.starts_with("NET/");
}
bool is_shared_memory(const Connection& one) {
  return one.via.starts_with("SHM/") || one.via == "shared memory";
}

bool satisfies(Requirement requirement, const Connection& one) {
  switch (requirement) {
    case Requirement::none:
      return true;
    case Requirement::shm:
      return is_shared_memory(one);
    case Requirement::nvlink:
      return one.nvlink;
    case Requirement::ib:
      return one.via.starts_with("NET/IB");
    case Requirement::gdr:
      return is_network(one) && one.gdr;
  }
  return false;
}

/// NVLink connects devices of a node, networks connect nodes: each requirement concerns only its own
/// connections.
bool concerns(Requirement requirement, const Connection& one) {
  if (requirement == Requirement::ib || requirement == Requirement::gdr)
    return !one.via.starts_with("P2P/") && !one.via.starts_with("SHM/");
  if (requirement == Requirement::nvlink) return !is_network(one);
  return true;
}

std::string serialized(const std::vector<Connection>& connections) {
  std::ostringstream out;
  for (const Connection& one : connections)
    out << one.from << ' ' << one.to << ' ' << one.gdr << ' ' << one.nvlink << ' ' << one.channels << ' '
        << one.via << '\n';
  return std::move(out).str();
}

std::vector<Connection> deserialized(const std::string& lines) {
  std::vector<Connection> result;
  std::istringstream in(lines);
  for (Connection one; in >> one.from >> one.to >> one.gdr >> one.nvlink >> one.channels && in.ignore() &&
                       std::getline(in, one.via);)
    result.push_back(one);
  return result;
}

/// What the backend's name ends with: "UCX" of "host (UCX)" and of "host (shared memory + UCX)".
std::string between_nodes(const std::string& backend) {
  const auto end = backend.rfind(')');
  const auto before = backend.find_last_of("(+", end);
  if (end == std::string::npos || before == std::string::npos) return backend;
  const auto begin = backend.find_first_not_of("(+ ", before);
  return backend.substr(begin, end - begin);
}

std::vector<Connection> of_host(const Communicator& comm) {
  std::vector<Connection> result;
  const std::string via = comm.topology().nodes() == 1 ? "shared memory" : between_nodes(comm.backend());
  for (int other = 0; other < comm.size(); ++other) {
    if (other != comm.rank()) result.push_back({.from = comm.rank(), .to = other, .via = via});
  }
  return result;
}

/// "Pattern 4, crossNic 0, nChannels 2, bw 40.0/40.0, type NVL/PIX, sameChannels 1": how the devices of a
/// node are joined in rings.
std::optional<std::string> kind_of_ring(const std::string& line) {
  const auto pattern = line.find("Pattern 4,");
  const auto type = pattern == std::string::npos ? pattern : line.find("type ", pattern);
  if (type == std::string::npos) return std::nullopt;
  const auto begin = type + std::string_view("type ").size();
  return line.substr(begin, line.find('/', begin) - begin);
}

/// "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA": the sender's line; the receiver's says the same
/// again.
std::optional<Connection> connection_in(const std::string& line) {
  const auto channel = line.find("Channel ");
  const auto ranks = channel == std::string::npos ? channel : line.find(" : ", channel);
  const auto via = ranks == std::string::npos ? ranks : line.find(" via ", ranks);
  if (via == std::string::npos || line.find("[receive]", ranks) < via) return std::nullopt;
  Connection one;
  // NOLINTNEXTLINE(cert-err34-c): a rank that is no int is no line of NCCL
  if (std::sscanf(line.c_str() + ranks, " : %d[%*[0-9a-f]] -> %d[%*[0-9a-f]]", &one.from, &one.to) != 2)
    return std::nullopt;
  const auto begin = via + std::string_view(" via ").size();
  one.via = line.substr(begin, line.find_first_of(" \r", begin) - begin);
  one.gdr = one.via.find("/GDRDMA") != std::string::npos;
  for (const char* mark : {"/GDRDMA(PCI)", "/GDRDMA", "/Shared", "/read", "/CE"})
    one.via = without(one.via, mark);
  return one;
}

}  // namespace

std::vector<Connection> read_nccl_log(std::istream& log) {
  std::map<std::pair<int, int>, Connection> found;
  bool nvlink = false;
  for (std::string line; std::getline(log, line);) {
    if (const auto kind = kind_of_ring(line)) nvlink = *kind == "NVL" || *kind == "NVB";
    const auto one = connection_in(line);
    if (!one) continue;
    const auto [place, is_new] = found.try_emplace({one->from, one->to}, *one);
    if (!is_new) ++place->second.channels;
  }
  std::vector<Connection> result;
  for (auto& [ranks, one] : found) {
    one.nvlink = nvlink && one.via.starts_with("P2P/");
    result.push_back(one);
  }
  return result;
}

Requirement requirement_named(const std::string& word) {
  static const std::map<std::string, Requirement> words{{"shm", Requirement::shm},
                                                        {"nvlink", Requirement::nvlink},
                                                        {"ib", Requirement::ib},
                                                        {"gdr", Requirement::gdr}};
  const auto found = words.find(word);
  if (found != words.end()) return found->second;
  throw Error(ErrorKind::usage, text("--require ", word, " is none of gdr, ib, nvlink, shm"));
}

std::string shortfall(Requirement requirement, const std::vector<Connection>& connections) {
  if (requirement == Requirement::none) return {};
  bool any = false;
  for (const Connection& one : connections) {
    if (!concerns(requirement, one)) continue;
    any = true;
    if (!satisfies(requirement, one))
      return text("rank ", one.from, " sends to rank ", one.to, " over ", described(one));
  }
  return any ? std::string() : "no connection is of that kind";
}

NcclLog::NcclLog(const World& world, const Environment& environment, Requirement requirement) {
  if (world.device().is_host()) return;
  if (environment.has(env::nccl_debug)) {
    if (requirement == Requirement::none) return;
    throw Error(ErrorKind::usage, "--require, but NCCL_DEBUG is set, so that NCCL's log goes elsewhere",
                "unset NCCL_DEBUG");
  }
  std::string path = tool::temporary_folder() + "/weft-scaling-nccl-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) throw system_error(text("cannot make a file for NCCL's log, ", path));
  close(file);
  path_ = path;
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,SHM,GRAPH", 1);
  setenv("NCCL_DEBUG_FILE", path_.c_str(), 1);
}

NcclLog::~NcclLog() {
  if (!path_.empty()) unlink(path_.c_str());
}

std::vector<Connection> NcclLog::read() const {
  std::ifstream log(path_);
  return read_nccl_log(log);
}

std::vector<Connection> connections(Communicator comm, const NcclLog& log) {
  std::string all;
  for (const std::string& one :
       detail::exchange_texts(comm, serialized(comm.device().is_host() ? of_host(comm) : log.read())))
    all += one;
  return deserialized(all);
}

std::string to_text(const std::vector<Connection>& connections) {
  std::map<std::string, std::string> by_kind;
  for (const Connection& one : connections) {
    std::string& pairs = by_kind[described(one)];
    pairs += text(pairs.empty() ? "" : ", ", one.from, " -> ", one.to);
  }
  std::string result;
  for (const auto& [kind, pairs] : by_kind)
    result += text("  ", pairs, ": ", weft::detail::printable(kind), "\n");
  return result;
}

}  // namespace weft::scaling
