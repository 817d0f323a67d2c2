#include "weft/collectives/world.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <map>
#include <utility>

#include "collectives/bootstrap/device_choice.hpp"
#include "core/memory/per_process.hpp"
#if WEFT_HAS_BOOST
#include "collectives/sockets/job_token.hpp"
#include "collectives/store/launcher_kvs.hpp"
#include "collectives/store/store_detail.hpp"
#endif
#include "weft/collectives/topology.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

#if WEFT_HAS_MPI
#include "collectives/bootstrap/gathering.hpp"
#include "collectives/network/mpi/mpi_rendezvous.hpp"
#include "collectives/network/mpi/mpi_runtime.hpp"
#endif

namespace weft {
namespace {

const std::string mpi = "mpi";
const std::string pmix = "pmix";

bool mpi_initialised() {
#if WEFT_HAS_MPI
  return detail::MpiRuntime::initialised();
#else
  return false;
#endif
}

/// The library's own rank and size, which a claim of the environment must not contradict.
[[maybe_unused]] LaunchClaim confirmed(LaunchClaim claim, int rank, int size, const std::string& library,
                                       const std::string& advice) {
  const bool same = claim.rank == rank && (claim.size == -1 || claim.size == size);
  if (claim.launcher != Launcher::single && !same) {
    throw Error(ErrorKind::usage,
                text(library, " says rank ", rank, " of ", size, ", but ", name(claim.launcher), " says ",
                     describe(claim)),
                advice);
  }
  claim.rank = rank;
  claim.size = size;
  return claim;
}

std::shared_ptr<Rendezvous> meet_by_mpi(LaunchClaim& claim, Deadline deadline,
                                        std::chrono::nanoseconds timeout) {
#if WEFT_HAS_MPI
  const detail::RankIdentity mine = detail::RankIdentity::of_this_process(claim.rank, claim.size);
  auto runtime = detail::MpiRuntime::acquire({mine.name(), deadline.left()});
  int rank = 0;
  int size = 1;
  {
    const auto lock = runtime->enter();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  claim =
      confirmed(std::move(claim), rank, size, detail::MpiRuntime::library(),
                "start the ranks with this MPI's own mpirun, or set WEFT_RENDEZVOUS (and do not initialise "
                "MPI) to do without it");
  if (claim.rendezvous != mpi) return nullptr;
  return std::make_shared<detail::MpiRendezvous>(std::move(runtime), MPI_COMM_WORLD, deadline, timeout);
#else
  static_cast<void>(deadline);
  static_cast<void>(timeout);
  throw Error(ErrorKind::usage,
              text(describe(claim), " is to meet the others through MPI, but this build of weft has none"),
              "set WEFT_RENDEZVOUS to tcp://HOST:PORT or file://PATH");
#endif
}

#if WEFT_HAS_BOOST
/// Numbers the Worlds of this process: ranks make them in the same order.
int next_world() {
  static std::atomic<int> worlds = 0;
  return ++worlds;
}

std::shared_ptr<Store> meet_by_pmix(LaunchClaim& claim, Deadline deadline, const StoreOptions& options,
                                    const Environment& environment) {
  const detail::PmixProcess mine = detail::join_pmix(deadline);
  claim = confirmed(std::move(claim), mine.rank, mine.size, "PMIx",
                    "unset the variables of another launcher, or set WEFT_RENDEZVOUS to tcp://HOST:PORT");
  if (claim.size == 1) return make_memory_store();
  return detail::open_store_through(*mine.kvs, text("weft.", next_world()), claim.rank, deadline, options,
                                    environment.value(env::interface));
}

/// The agent keeps its store while it starts ranks again, and agents may count restarts differently: the key is the same in every attempt, and
/// rank 0 replaces what stands there.
std::shared_ptr<Store> meet_by_torchrun(const std::pair<std::string, int>& place, int rank, Deadline deadline,
                                        const StoreOptions& options, const Environment& environment) {
  const auto agent = detail::call_torch_agent(place.first, place.second, rank, deadline);
  const std::string key = text("weft/", environment.value(env::elastic_run), "/", next_world());
  return detail::open_store_through(*agent, key, rank, deadline, options, environment.value(env::interface));
}
#endif

std::shared_ptr<Store> open_store_of(LaunchClaim& claim, Deadline deadline, const Environment& environment) {
  if (claim.size == 1) return make_memory_store();
  StoreOptions options{.bind = environment.value(env::bind)};
#if WEFT_HAS_BOOST
  if (!claim.rendezvous.starts_with("file:")) options.token = detail::job_token(environment);
  if (claim.rendezvous == pmix) return meet_by_pmix(claim, deadline, options, environment);
#endif
  if (claim.size == -1) {
    throw Error(ErrorKind::usage,
                text(name(claim.launcher), " names ", describe(claim), " and MPI is not asked"),
                "set WEFT_RANK and WEFT_SIZE, or unset WEFT_RENDEZVOUS in a build with MPI");
  }
  if (claim.rendezvous.empty()) {
    throw Error(
        ErrorKind::usage,
        text(describe(claim), " (by ", name(claim.launcher), ") does not know where the ranks meet"),
        "set WEFT_RENDEZVOUS to tcp://HOST:PORT, where rank 0 listens, or on one machine to file://PATH");
  }
#if WEFT_HAS_BOOST
  if (const auto agent = detail::host_and_port(claim.rendezvous, "torchrun://"))
    return meet_by_torchrun(*agent, claim.rank, deadline, options, environment);
#else
  if (claim.rendezvous.starts_with("torchrun:"))
    throw Error(ErrorKind::usage,
                "this build of weft has no Boost and cannot meet through the store of torchrun's agent",
                "ranks of one machine can meet at file://PATH (WEFT_RENDEZVOUS)");
#endif
  return open_store(claim.rendezvous, claim.rank, deadline, options);
}

/// The stores that this process has open. A second World of one address meets the others in the store of the first, under a
/// name of its own: ranks make their Worlds in the same order.
struct OpenStore {
  std::weak_ptr<Store> store;
  int worlds = 0;
};
constinit detail::PerProcess<std::map<std::string, OpenStore>> open_stores;

std::pair<std::shared_ptr<Store>, std::string> store_and_name_of(LaunchClaim& claim, Deadline deadline,
                                                                 const Environment& environment) {
  const std::string key = text(claim.rendezvous, ' ', claim.rank, ' ', claim.size);
  const bool is_own = claim.size == 1 || claim.rendezvous.empty();
  auto known = is_own ? OpenStore() : open_stores.use([&](auto& all) { return all[key]; });
  std::shared_ptr<Store> store = known.store.lock();
  if (store == nullptr) {
    known.worlds = 0;
    store = open_store_of(claim, deadline, environment);
  }
  ++known.worlds;
  known.store = store;
  if (!is_own) open_stores.use([&](auto& all) { all[key] = known; });
  return {std::move(store), known.worlds == 1 ? "world" : text("world again ", known.worlds)};
}

std::string decision(const LaunchClaim& claim) {
  std::string line = text(describe(claim), " by ", name(claim.launcher));
  if (claim.local_rank) line += text(", local rank ", *claim.local_rank);
  return claim.rendezvous.empty() ? line : line + text(", rendezvous at ", claim.rendezvous);
}

}  // namespace

// Each part tells apart what the others take for one: the host name two network namespaces of one kernel, the
// boot id two machines with one name, the pid namespace two containers that cannot open each other's memory.
std::string host_id(const Environment& environment) {
  if (const auto given = environment.get(env::host_id)) return *given;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0)
    throw system_error("gethostname failed", "set WEFT_HOST_ID");
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat pid_namespace {};
  if (boot.empty() || stat("/proc/self/ns/pid", &pid_namespace) != 0) {
    throw Error(ErrorKind::system, "cannot name this node: /proc does not show boot id and pid namespace",
                "set WEFT_HOST_ID to a name that is equal only for ranks that share memory");
  }
  return text(host.data(), "/", boot, "/", pid_namespace.st_ino);
}

World World::from_environment(const WorldOptions& options, const Environment& environment) {
  const bool initialised = mpi_initialised();
  World world;
  world.claim_ = decide(launch_claims(options, environment, initialised));
  world.environment_ = environment;
  world.host_id_ = weft::host_id(environment);
  world.connect_timeout_ = options.connect_timeout.value_or(environment.seconds(env::connect_timeout));
  world.timeout_ = options.timeout.value_or(environment.seconds(env::timeout));

  LaunchClaim& claim = world.claim_;
  const bool is_explicit = claim.launcher == Launcher::explicit_options;
  const bool address_given = options.rendezvous || environment.has(env::rendezvous);
  if (initialised && !address_given && (!is_explicit || claim.rendezvous.empty())) claim.rendezvous = mpi;
  log::info(text(decision(claim), " on ", world.host_id_));

  const Deadline deadline = Deadline::in(world.connect_timeout_);
  const bool ask_mpi =
      initialised ? !is_explicit || claim.rendezvous == mpi : claim.rendezvous == mpi && claim.size != 1;
  if (ask_mpi) world.rendezvous_ = meet_by_mpi(claim, deadline, world.timeout_);
  if (ask_mpi && initialised && !is_explicit) claim.launcher = Launcher::mpi;
  if (world.rendezvous_ == nullptr) {
    auto [store, name] = store_and_name_of(claim, deadline, environment);
    world.store_ = std::move(store);
    world.rendezvous_ = make_store_rendezvous(world.store_, std::move(name), claim.rank, claim.size);
  }
  world.choose_device(options);
  return world;
}

void World::stop_listening() const {
  if (store_ != nullptr) store_->stop_listening();
}

void World::choose_device(const WorldOptions& options) {
  const auto local_rank = [&] {
    if (claim_.local_rank) return *claim_.local_rank;
    const auto deadline = Deadline::in(connect_timeout_);
    return Topology(rendezvous_->all_gather(host_id_, "count the ranks of each node", deadline))
        .local_rank(rank());
  };
  device_ = options.device ? *options.device : detail::choose_device(environment_, local_rank);
}

World World::over(std::shared_ptr<Rendezvous> rendezvous, std::chrono::nanoseconds timeout) {
  const Environment environment = Environment::of_process();
  WorldOptions options;
  options.timeout = timeout;
  options.connect_timeout = std::min(timeout, environment.seconds(env::connect_timeout));
  return over(std::move(rendezvous), options, environment);
}

World World::over(std::shared_ptr<Rendezvous> rendezvous, const WorldOptions& options,
                  const Environment& environment, Launcher launcher) {
  if (rendezvous == nullptr || options.rank || options.size || options.rendezvous) {
    throw Error(ErrorKind::usage,
                rendezvous == nullptr ? "World::over without a rendezvous"
                                      : "options name a rank, size or rendezvous although the "
                                        "ranks have met",
                "give options the two timeouts and the device only");
  }
  World world;
  world.claim_.launcher = launcher;
  world.claim_.rank = rendezvous->rank();
  world.claim_.size = rendezvous->size();
  world.environment_ = environment;
  world.host_id_ = weft::host_id(environment);
  world.connect_timeout_ = options.connect_timeout.value_or(environment.seconds(env::connect_timeout));
  world.timeout_ = options.timeout.value_or(environment.seconds(env::timeout));
  world.rendezvous_ = std::move(rendezvous);
  world.choose_device(options);
  return world;
}

}  // namespace weft
