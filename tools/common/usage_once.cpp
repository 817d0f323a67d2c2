#include "common/usage_once.hpp"

#include <chrono>
#include <optional>
#include <thread>

#include "weft/collectives/world.hpp"

namespace weft::tool {
namespace {

constexpr std::chrono::seconds until_launchers_end_a_job{5};

/// None where the variables of launchers make no sense: no rank that does not know itself may be silent.
std::optional<LaunchClaim> own_claim() {
  try {
    return decide(launch_claims({}, Environment::of_process()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<int> launched_ranks() {
  const auto claim = own_claim();
  return claim && claim->size > 0 ? std::optional(claim->size) : std::nullopt;
}

bool is_first_rank() {
  const auto claim = own_claim();
  return !claim || claim->rank == 0;
}

std::string connecting_ranks() {
  const std::optional<int> ranks = launched_ranks();
  return ranks ? text("connecting ", *ranks, *ranks == 1 ? " rank" : " ranks") : "connecting the ranks";
}

Body on_ranks(Body run) {
  return [run = std::move(run)](const std::vector<std::string>& arguments) {
    const auto claim = own_claim();
    const bool is_first = !claim || claim->rank == 0;
    try {
      return run(arguments);
    } catch (const AlikeError& error) {
      if (is_first) throw;
      // mpirun ends a job when its first process ends, perhaps before the rank that speaks; weft-launch does not.
      if (claim->launcher != Launcher::explicit_options)
        std::this_thread::sleep_for(until_launchers_end_a_job);
      return exit_code(error.kind());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::usage && !is_first)
        std::this_thread::sleep_for(until_launchers_end_a_job);
      throw;
    }
  };
}

}  // namespace weft::tool
