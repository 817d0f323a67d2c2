#include "env_command.hpp"

#include <boost/json.hpp>
#include <iomanip>
#include <iostream>

#include "common/outputs.hpp"
#include "core/base/strings.hpp"
#include "weft/collectives/world.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

namespace json = boost::json;

std::string number(const std::optional<int>& value) {
  return value ? std::to_string(*value) : "?";
}
std::string size_of_claim(const LaunchClaim& claim) {
  return claim.size == -1 ? "?" : std::to_string(claim.size);
}

void print_table(const std::vector<LaunchClaim>& claims, std::ostream& out) {
  out << std::left << std::setw(22) << "launcher" << std::setw(8) << "rank" << std::setw(8) << "size"
      << std::setw(8) << "local"
      << "rendezvous\n";
  for (const LaunchClaim& claim : claims) {
    const std::string local =
        claim.local_rank ? number(claim.local_rank) + "/" + number(claim.local_size) : "-";
    out << std::setw(22) << name(claim.launcher) << std::setw(8) << claim.rank << std::setw(8)
        << size_of_claim(claim) << std::setw(8) << local
        << (claim.rendezvous.empty() ? "-" : detail::printable(claim.rendezvous)) << '\n';
  }
}

json::value optional(const std::optional<int>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::object as_json(const LaunchClaim& claim) {
  return {{"launcher", name(claim.launcher)},
          {"rank", claim.rank},
          {"size", claim.size == -1 ? json::value(nullptr) : json::value(claim.size)},
          {"local_rank", optional(claim.local_rank)},
          {"local_size", optional(claim.local_size)},
          {"rendezvous", json::parse(detail::json_string(claim.rendezvous))}};
}

std::string to_json(const std::vector<LaunchClaim>& claims, const LaunchClaim& decision) {
  json::array all;
  for (const LaunchClaim& claim : claims) all.push_back(as_json(claim));
  return json::serialize(json::object{{"claims", std::move(all)}, {"decision", as_json(decision)}}) + "\n";
}

}  // namespace

void print_environment(const EnvOptions& options, const Environment& environment) {
  if (options.document) {
    std::cout << env::document();
    return;
  }
  tool::Outputs outputs("weft-launch");
  outputs.open("--json", options.json);
  const std::vector<LaunchClaim> claims = launch_claims({}, environment);
  const bool table = options.json != "-";
  if (table) print_table(claims, std::cout);
  const LaunchClaim decision = decide(claims);
  if (table)
    std::cout << "\nbelieved: " << name(decision.launcher) << ", " << detail::printable(describe(decision))
              << '\n';
  outputs.write({{"--json", to_json(claims, decision)}});
}

}  // namespace weft::launch
