#include "env_command.hpp"

#include <boost/json.hpp>
#include <fstream>
#include <iomanip>
#include <iostream>

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
        << (claim.rendezvous.empty() ? "-" : claim.rendezvous) << '\n';
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
          {"rendezvous", claim.rendezvous}};
}

void write_json(const std::string& path, const std::vector<LaunchClaim>& claims, const LaunchClaim& decision,
                std::ostream& out) {
  json::array all;
  for (const LaunchClaim& claim : claims) all.push_back(as_json(claim));
  const json::object document{{"claims", std::move(all)}, {"decision", as_json(decision)}};
  if (path == "-") {
    out << json::serialize(document) << '\n';
    return;
  }
  std::ofstream file(path);
  file << json::serialize(document) << '\n';
  if (!file.flush()) throw system_error(text("cannot write --json ", path));
}

}  // namespace

void print_environment(const EnvOptions& options, const Environment& environment, std::ostream& out) {
  if (options.document) {
    out << env::document();
    return;
  }
  const std::vector<LaunchClaim> claims = launch_claims({}, environment);
  const bool table = options.json != "-";
  if (table) print_table(claims, out);
  const LaunchClaim decision = decide(claims);
  if (table) out << "\nbelieved: " << name(decision.launcher) << ", " << describe(decision) << '\n';
  if (options.json) write_json(*options.json, claims, decision, out);
}

}  // namespace weft::launch
