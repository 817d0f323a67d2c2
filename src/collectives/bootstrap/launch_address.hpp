#pragma once
// Where the variables of a launcher say that its ranks can meet. Included by launch_claims.cpp alone.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/store/store_detail.hpp"
#include "core/base/host_port.hpp"
#include "core/base/number.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

inline std::string tcp_address(const std::string& host, std::int64_t port) {
  return text("tcp://", bracketed(host), ':', port);
}

/// Empty when MASTER_ADDR or MASTER_PORT is missing.
inline std::string master_address(const Environment& environment) {
  const auto host = environment.get(env::master_addr);
  const auto port = environment.integer(env::master_port, 1, highest_port);
  if (!host || !port) return {};
  std::string address = tcp_address(*host, *port);
  const std::string agent = environment.value(env::agent_store);
  const bool agent_listens = agent == "True" || agent == "true" || agent == "1";
  return agent_listens ? address.replace(0, std::string_view("tcp").size(), "torchrun") : address;
}

/// The first host of Slurm's compressed list: "node[03-07,9]" is node03, "r[1-2]n[01-04],x" is r1n01.
inline std::string first_host(const std::string& list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const std::size_t close = list.find(']', at);
    if (close == std::string::npos) {
      throw Error(ErrorKind::usage, text(env::slurm_nodelist.name, "=", list, " has a [ without ]"));
    }
    host += list.substr(at + 1, list.find_first_of("-,]", at) - at - 1);
    at = close;
  }
  return host;
}

inline std::optional<std::int64_t> number(const std::optional<std::string>& word) {
  return word ? number_of<std::int64_t>(*word) : std::nullopt;
}

/// Reads nothing but a job step: a batch script and an interactive shell of an allocation carry
/// SLURM_PROCID=0 and the job's task count although they are one process. Slurm gives them no step id, a
/// word, or one of the highest numbers.
inline std::optional<std::int64_t> slurm_step(const Environment& environment) {
  constexpr std::int64_t first_reserved = 0xfffffff0;
  const auto step = number(environment.get(env::slurm_step));
  return step && *step >= 0 && *step < first_reserved ? step : std::nullopt;
}

/// Rank 0 of a step runs on its first node; the port is the step's own. Empty when Slurm does not name the
/// nodes.
inline std::string slurm_address(const Environment& environment, std::int64_t step) {
  constexpr std::int64_t lowest = 61440;  // above the ports the kernel hands out by itself
  constexpr std::int64_t steps_apart = 61;
  const auto nodes = environment.get(env::slurm_nodelist);
  if (!nodes) return {};
  constexpr std::int64_t ports = highest_port + 1 - lowest;
  const std::int64_t job =
      std::max<std::int64_t>(number(environment.get(env::slurm_job)).value_or(0), 0) % ports;
  return tcp_address(first_host(*nodes), lowest + (job * steps_apart + step) % ports);
}

}  // namespace weft::detail
