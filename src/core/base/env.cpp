#include "weft/core/env.hpp"

#include <unistd.h>

#include <array>
#include <cmath>
#include <sstream>

#include "core/base/number.hpp"
#include "weft/core/error.hpp"

namespace weft {

namespace env {

std::span<const Variable* const> variables() {
  static constexpr std::array all{&rank,
                                  &size,
                                  &local_rank,
                                  &local_size,
                                  &rendezvous,
                                  &token,
                                  &token_file,
                                  &bind,
                                  &host_id,
                                  &connect_timeout,
                                  &timeout,
                                  &heap_bytes,
                                  &progress,
                                  &transport,
                                  &interface,
                                  &order,
                                  &algorithms,
                                  &device,
                                  &share_device,
                                  &nccl_library,
                                  &flight_dir,
                                  &log,
                                  &nccl_debug,
                                  &ucx_keepalive,
                                  &ucx_rndv_thresh,
                                  &ucx_tcp_conn_nb,
                                  &torch_rank,
                                  &torch_size,
                                  &torch_local_rank,
                                  &torch_local_size,
                                  &master_addr,
                                  &master_port,
                                  &elastic_run,
                                  &agent_store,
                                  &ompi_rank,
                                  &ompi_size,
                                  &ompi_local_rank,
                                  &ompi_local_size,
                                  &pmix_namespace,
                                  &pmix_rank,
                                  &pmi_rank,
                                  &pmi_size,
                                  &pmi_local_rank,
                                  &pmi_local_size,
                                  &slurm_step,
                                  &slurm_job,
                                  &slurm_rank,
                                  &slurm_step_size,
                                  &slurm_size,
                                  &slurm_local_rank,
                                  &slurm_nodelist,
                                  &job_index};
  return all;
}

std::string document() {
  std::ostringstream out;
  out << "# Environment variables\n\n"
         "Printed by `weft-launch env --document` from the table in include/weft/core/env.hpp; a test "
         "compares the\n"
         "two. Options given in code outrank the environment.\n";
  std::string_view origin;
  for (const Variable* variable : variables()) {
    if (variable->origin != origin) {
      origin = variable->origin;
      out << "\n## "
          << (origin == "weft"   ? "Read and owned by weft"
              : origin == "NCCL" ? "Owned by NCCL, looked at by weft"
                                 : text("Set by ", origin))
          << "\n\n"
          << "| variable | default | meaning |\n|---|---|---|\n";
    }
    out << "| `" << variable->name << "` | " << variable->fallback << " | " << variable->meaning << " |\n";
  }
  return std::move(out).str();
}

}  // namespace env

Environment Environment::of_process() {
  Values values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const auto equals = line.find('=');
    if (equals != std::string_view::npos) values.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return Environment(std::move(values));
}

Environment Environment::with(const env::Variable& variable, std::string value) const {
  Environment result = *this;
  result.values_.insert_or_assign(std::string(variable.name), std::move(value));
  return result;
}

std::optional<std::string> Environment::get(const env::Variable& variable) const {
  const auto found = values_.find(variable.name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::string Environment::value(const env::Variable& variable) const {
  return get(variable).value_or(std::string(variable.fallback));
}

std::optional<std::int64_t> Environment::integer(const env::Variable& variable, std::int64_t low,
                                                 std::int64_t high) const {
  const std::string raw = value(variable);
  if (raw.empty()) return std::nullopt;
  const auto parsed = detail::number_of<std::int64_t>(raw);
  if (!parsed || *parsed < low || *parsed > high) {
    throw Error(ErrorKind::usage,
                text(variable.name, "=", raw, " is not an integer from ", low, " to ", high));
  }
  return parsed;
}

double Environment::number(const env::Variable& variable) const {
  const std::string raw = value(variable);
  const auto parsed = detail::number_of<double>(raw);
  if (!parsed || !std::isfinite(*parsed) || *parsed < 0) {
    throw Error(ErrorKind::usage, text(variable.name, "=", raw, " is not a number of 0 or more"));
  }
  return *parsed;
}

std::chrono::nanoseconds Environment::seconds(const env::Variable& variable) const {
  // A century is "for ever" and still fits in nanoseconds.
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(number(variable), 3.1e9) * 1e9));
}

}  // namespace weft
