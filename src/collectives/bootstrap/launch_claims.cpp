#include <array>

#include "collectives/bootstrap/launch_address.hpp"
#include "weft/collectives/world.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

using namespace detail;

constexpr bool has_mpi = WEFT_HAS_MPI != 0;

struct Names {
  Launcher launcher;
  const env::Variable& rank;
  const env::Variable& size;
  const env::Variable& local_rank;
  const env::Variable& local_size;
};

std::optional<int> local(const Environment& environment, const env::Variable& variable, std::int64_t low) {
  const auto value = environment.integer(variable, low, most_ranks);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

void check_local(const LaunchClaim& claim, const Names& names) {
  if (claim.local_rank && claim.local_size && *claim.local_rank >= *claim.local_size) {
    throw Error(ErrorKind::usage, text(names.local_rank.name, "=", *claim.local_rank, " is not below ",
                                       names.local_size.name, "=", *claim.local_size));
  }
}

LaunchClaim claim_of(const Names& names, const Environment& environment) {
  LaunchClaim claim;
  claim.launcher = names.launcher;
  claim.rank = static_cast<int>(environment.integer(names.rank, 0, most_ranks).value_or(0));
  claim.size = static_cast<int>(environment.integer(names.size, 1, most_ranks).value_or(-1));
  if (claim.size != -1 && claim.rank >= claim.size) {
    throw Error(ErrorKind::usage,
                text(names.rank.name, "=", claim.rank, " is not below ", names.size.name, "=", claim.size),
                "ranks count from 0");
  }
  claim.local_rank = local(environment, names.local_rank, 0);
  claim.local_size = local(environment, names.local_size, 1);
  check_local(claim, names);
  return claim;
}

constexpr Names explicit_names{Launcher::explicit_options, env::rank, env::size, env::local_rank,
                               env::local_size};
constexpr Names ompi_names{Launcher::open_mpi, env::ompi_rank, env::ompi_size, env::ompi_local_rank,
                           env::ompi_local_size};
constexpr Names pmi_names{Launcher::pmi, env::pmi_rank, env::pmi_size, env::pmi_local_rank,
                          env::pmi_local_size};
constexpr Names torchrun_names{Launcher::torchrun, env::torch_rank, env::torch_size, env::torch_local_rank,
                               env::torch_local_size};
constexpr Names torch_names{Launcher::torch_variables, env::torch_rank, env::torch_size,
                            env::torch_local_rank, env::torch_local_size};

/// Where ranks that a process manager started meet.
std::string manager_address(const Environment& environment) {
  return has_mpi ? "mpi" : master_address(environment);
}

const env::Variable& slurm_size_variable(const Environment& environment) {
  return environment.has(env::slurm_step_size) ? env::slurm_step_size : env::slurm_size;
}

using Claim = std::optional<LaunchClaim>;

Claim explicit_claim(const WorldOptions& options, const Environment& environment, bool has_address) {
  if (options.rank.has_value() != options.size.has_value()) {
    throw Error(ErrorKind::usage,
                text("WorldOptions has a ", options.rank ? "rank but no size" : "size but no rank"),
                "give both or neither");
  }
  if (options.rank) {
    if (*options.size < 1 || *options.rank < 0 || *options.rank >= *options.size) {
      throw Error(ErrorKind::usage, text("WorldOptions says rank ", *options.rank, " of ", *options.size),
                  "ranks count from 0 to size - 1");
    }
    LaunchClaim claim;
    claim.launcher = Launcher::explicit_options;
    claim.rank = *options.rank;
    claim.size = *options.size;
    if (!has_address) claim.rendezvous = master_address(environment);
    return claim;
  }
  if (environment.has(env::rank) != environment.has(env::size)) {
    const bool has_rank = environment.has(env::rank);
    throw Error(ErrorKind::usage,
                text(has_rank ? env::rank.name : env::size.name, " is set but ",
                     has_rank ? env::size.name : env::rank.name, " is not"),
                "set both or neither");
  }
  if (!environment.has(env::rank)) return std::nullopt;
  LaunchClaim claim = claim_of(explicit_names, environment);
  if (!has_address) claim.rendezvous = master_address(environment);
  return claim;
}

bool complete_torch(const Environment& environment) {
  return environment.has(env::torch_rank) && environment.has(env::torch_size) &&
         environment.has(env::master_addr) && environment.has(env::master_port);
}

Claim torch_claim(const Names& names, const Environment& environment) {
  const bool elastic = environment.has(env::elastic_run);
  if (!complete_torch(environment) || elastic != (names.launcher == Launcher::torchrun)) return std::nullopt;
  LaunchClaim claim = claim_of(names, environment);
  claim.rendezvous = master_address(environment);
  return claim;
}

Claim pmix_claim(const Environment& environment) {
  const auto space = environment.get(env::pmix_namespace);
  if (!space || !environment.has(env::pmix_rank)) return std::nullopt;
  // Slurm's counts are those of this step only where Slurm itself is the PMIx server; beneath a prterun that
  // srun started they count its daemons.
  const bool by_slurm = space->starts_with("slurm.") && slurm_step(environment);
  const Names names{Launcher::pmix, env::pmix_rank,
                    by_slurm ? slurm_size_variable(environment) : env::ompi_size,
                    by_slurm ? env::slurm_local_rank : env::ompi_local_rank, env::ompi_local_size};
  LaunchClaim claim = claim_of(names, environment);
  claim.rendezvous = manager_address(environment);
  if (claim.rendezvous.empty() && WEFT_HAS_PMIX != 0) claim.rendezvous = "pmix";
  return claim;
}

Claim manager_claim(const Names& names, const Environment& environment) {
  if (!environment.has(names.rank) || !environment.has(names.size)) return std::nullopt;
  LaunchClaim claim = claim_of(names, environment);
  claim.rendezvous = manager_address(environment);
  return claim;
}

Claim slurm_claim(const Environment& environment) {
  const auto step = slurm_step(environment);
  const env::Variable& size = slurm_size_variable(environment);
  if (!step || !environment.has(env::slurm_rank) || !environment.has(size)) return std::nullopt;
  LaunchClaim claim =
      claim_of({Launcher::slurm, env::slurm_rank, size, env::slurm_local_rank, env::local_size}, environment);
  claim.rendezvous = slurm_address(environment, *step);
  return claim;
}

/// A pod of an indexed Job knows its index; how many there are, and where they meet, the manifest says in torch's variables.
Claim indexed_job_claim(const Environment& environment) {
  if (!environment.has(env::job_index) || environment.has(env::torch_rank) ||
      !environment.has(env::torch_size))
    return std::nullopt;
  if (!environment.has(env::master_addr) || !environment.has(env::master_port)) return std::nullopt;
  LaunchClaim claim =
      claim_of({Launcher::indexed_job, env::job_index, env::torch_size, env::local_rank, env::local_size},
               environment);
  claim.rendezvous = master_address(environment);
  return claim;
}

/// RANK and WORLD_SIZE where no launcher claims this process and something of the four is missing.
Claim lone_torch_claim(const Environment& environment, bool has_address) {
  if (!environment.has(env::torch_rank) && !environment.has(env::torch_size)) return std::nullopt;
  const bool one = environment.value(env::torch_size) == "1";
  std::string missing;
  for (const env::Variable* variable :
       {&env::torch_rank, &env::torch_size, &env::master_addr, &env::master_port}) {
    const bool needed =
        variable == &env::torch_size || (variable == &env::torch_rank ? !one : !one && !has_address);
    if (needed && !environment.has(*variable))
      missing += (missing.empty() ? "" : " and ") + std::string(variable->name);
  }
  if (missing.empty()) return claim_of(torch_names, environment);
  const env::Variable& seen = environment.has(env::torch_size) ? env::torch_size : env::torch_rank;
  throw Error(ErrorKind::usage,
              text(seen.name, "=", environment.value(seen), " says that this is one of several ranks, but ",
                   missing, missing.find(" and ") == std::string::npos ? " is" : " are", " not set"),
              "set what is missing, or unset RANK and WORLD_SIZE for a single process");
}

bool is_manager(Launcher launcher) {
  return launcher == Launcher::pmix || launcher == Launcher::open_mpi || launcher == Launcher::pmi;
}

/// Whether `other` must say the same as the best claim; if not it is outranked and not asked.
bool equal_standing(Launcher best, Launcher other) {
  if (is_manager(best)) return is_manager(other) || other == Launcher::torch_variables;
  return best == Launcher::torch_variables && other == Launcher::slurm;
}

}  // namespace

const char* name(Launcher launcher) noexcept {
  static constexpr std::array words{
      "options or WEFT_RANK", "MPI",   "torchrun",    "PMIx",          "Open MPI", "PMI",
      "RANK/WORLD_SIZE",      "Slurm", "indexed Job", "single process"};
  const auto index = static_cast<std::size_t>(launcher);
  return index < words.size() ? words[index] : "unknown";
}

std::string describe(const LaunchClaim& claim) {
  return claim.size == -1 ? text("rank ", claim.rank, " of ?")
                          : text("rank ", claim.rank, " of ", claim.size);
}

std::vector<LaunchClaim> launch_claims(const WorldOptions& options, const Environment& environment,
                                       bool beneath_mpi) {
  std::vector<LaunchClaim> claims;
  const auto address = options.rendezvous ? options.rendezvous : environment.get(env::rendezvous);
  const auto ask = [&](Launcher launcher, auto read_claim) {
    try {
      if (Claim claim = read_claim()) claims.push_back(*std::move(claim));
    } catch (const Error&) {
      // What is outranked may be nonsense: WEFT_RANK is the way around a broken environment.
      if (claims.empty() || equal_standing(claims.front().launcher, launcher)) throw;
    }
  };
  ask(Launcher::explicit_options, [&] { return explicit_claim(options, environment, address.has_value()); });
  ask(Launcher::torchrun, [&] { return torch_claim(torchrun_names, environment); });
  ask(Launcher::pmix, [&] { return pmix_claim(environment); });
  ask(Launcher::open_mpi, [&] { return manager_claim(ompi_names, environment); });
  ask(Launcher::pmi, [&] { return manager_claim(pmi_names, environment); });
  ask(Launcher::torch_variables, [&] { return torch_claim(torch_names, environment); });
  ask(Launcher::slurm, [&] { return slurm_claim(environment); });
  ask(Launcher::indexed_job, [&] { return indexed_job_claim(environment); });
  if (claims.empty() && !beneath_mpi) {
    ask(Launcher::torch_variables, [&] { return lone_torch_claim(environment, address.has_value()); });
  }
  if (claims.empty()) claims.emplace_back();
  for (LaunchClaim& claim : claims) {
    if (address) claim.rendezvous = *address;
    if (const auto rank = local(environment, env::local_rank, 0)) claim.local_rank = rank;
    if (const auto size = local(environment, env::local_size, 1)) claim.local_size = size;
    if (environment.has(env::local_rank)) check_local(claim, explicit_names);
  }
  return claims;
}

LaunchClaim decide(const std::vector<LaunchClaim>& claims) {
  if (claims.empty()) return {};
  LaunchClaim best = claims.front();
  bool agree = true;
  std::string table = text(name(best.launcher), ": ", describe(best));
  for (const LaunchClaim& other : claims) {
    if (!equal_standing(claims.front().launcher, other.launcher) || other.launcher == claims.front().launcher)
      continue;
    table += text(" | ", name(other.launcher), ": ", describe(other));
    agree =
        agree && other.rank == best.rank && (other.size == best.size || other.size == -1 || best.size == -1);
    if (best.size == -1) best.size = other.size;
    if (!best.local_rank) best.local_rank = other.local_rank;
    if (!best.local_size) best.local_size = other.local_size;
    if (best.rendezvous.empty()) best.rendezvous = other.rendezvous;
  }
  if (!agree) {
    throw Error(ErrorKind::usage, text("two launchers claim this process and disagree: ", table),
                "unset the variables that are left over, or set WEFT_RANK and WEFT_SIZE");
  }
  return best;
}

}  // namespace weft
