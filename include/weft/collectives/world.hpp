#pragma once
// Who am I: rank, number of ranks, place on the node, and where the ranks meet.
//
// `World::from_environment()` works the same under mpirun, weft-launch, torchrun-style variables, PMIx, PMI
// (MPICH, Intel MPI), a Slurm step, a pod of an indexed Job and for a single process. It asks, in this order: options given in code or
// WEFT_*, an MPI that is already initialised, torchrun, PMIx, Open MPI, PMI, plain RANK/WORLD_SIZE, Slurm, JOB_COMPLETION_INDEX;
// where none of them answers it is a single process. A launcher that sits beneath another (Slurm under
// mpirun, mpirun under torchrun) is outranked; claims of equal standing that disagree are an Error that shows
// both. WEFT_LOG=info prints the decision, `weft-launch env` shows it without starting anything.
//
// A World is a cheap value: copies share the rendezvous and, where weft initialised MPI, the MPI that the
// last copy (and the last Communicator made from it) finalizes. An MPI that the user initialised is never
// finalized. Make one World per process, on the thread that may call MPI.
//
//   auto world = weft::World::from_environment();
//   auto comm = weft::connect(world);
//
// WRONG: two from_environment() calls in one process with a tcp:// rendezvous: the second finds its port
// taken.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/collectives/rendezvous.hpp"
#include "weft/collectives/store.hpp"
#include "weft/core/device.hpp"
#include "weft/core/env.hpp"

namespace weft {

/// Who said which rank this is, in the order in which they are asked.
enum class Launcher : std::uint8_t {
  explicit_options,
  mpi,
  torchrun,
  pmix,
  open_mpi,
  pmi,
  torch_variables,
  slurm,
  indexed_job,
  single
};

const char* name(Launcher launcher) noexcept;

/// What one launcher's variables say. `size` is -1 where only the launcher itself knows it (PMIx alone).
struct LaunchClaim {
  Launcher launcher = Launcher::single;
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
  /// tcp://..., file://..., torchrun://..., "mpi", "pmix", or empty where nothing is needed or known
  std::string rendezvous;
};

struct WorldOptions {
  std::optional<int> rank{};  ///< with `size`: outranks the environment
  std::optional<int> size{};
  std::optional<std::string> rendezvous{};
  std::optional<std::chrono::nanoseconds> connect_timeout{};  ///< default WEFT_CONNECT_TIMEOUT
  std::optional<std::chrono::nanoseconds> timeout{};          ///< default WEFT_TIMEOUT
  std::optional<Device> device{};                             ///< default WEFT_DEVICE
};

/// Every claim the variables make, best first. Pure: starts and touches nothing.
/// @param beneath_mpi MPI is initialised and knows the rank: half a RANK/WORLD_SIZE is then ignored instead
/// of refused
/// @throws Error (usage) on a value that is no number, a rank outside its size, a missing MASTER_ADDR
std::vector<LaunchClaim> launch_claims(const WorldOptions& options, const Environment& environment,
                                       bool beneath_mpi = false);

/// The claim that holds. @throws Error (usage) with a table when claims of equal standing disagree
LaunchClaim decide(const std::vector<LaunchClaim>& claims);

/// "rank 1 of 4", "rank 1 of ?" where only the launcher knows the size.
std::string describe(const LaunchClaim& claim);

/// WEFT_HOST_ID, or host name, boot id and pid namespace: processes with equal names can open each other's
/// memory.
std::string host_id(const Environment& environment);

class World {
 public:
  /// @throws Error (usage) as launch_claims and decide; (timeout) when rank 0's address does not answer
  static World from_environment(const WorldOptions& options = {},
                                const Environment& environment = Environment::of_process());
  /// A world whose ranks have met already (tests, ranks as threads).
  static World over(std::shared_ptr<Rendezvous> rendezvous,
                    std::chrono::nanoseconds timeout = std::chrono::minutes(10));
  /// The same with timeouts and device from `options` or `environment`. @throws Error (usage) when options
  /// name a rank, size or rendezvous: the one handed in has them
  static World over(std::shared_ptr<Rendezvous> rendezvous, const WorldOptions& options,
                    const Environment& environment, Launcher launcher = Launcher::explicit_options);

  int rank() const { return claim_.rank; }
  int size() const { return claim_.size; }
  /// Rank within the node and ranks on it, where the launcher said; connect() counts for itself.
  std::optional<int> local_rank() const { return claim_.local_rank; }
  std::optional<int> local_size() const { return claim_.local_size; }
  Launcher launcher() const { return claim_.launcher; }
  /// Where this rank computes. connect() checks that the ranks' devices go together.
  Device device() const { return device_; }

  /// Name of this node: ranks whose names are equal can share memory.
  const std::string& host_id() const { return host_id_; }
  std::chrono::nanoseconds connect_timeout() const { return connect_timeout_; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  const Environment& environment() const { return environment_; }
  const std::shared_ptr<Rendezvous>& rendezvous() const { return rendezvous_; }
  /// All ranks have met: lets no other process in where they did. Each rank says so; connect() does.
  void stop_listening() const;

 private:
  World() = default;
  void choose_device(const WorldOptions& options);

  LaunchClaim claim_;
  Device device_;
  std::string host_id_;
  std::chrono::nanoseconds connect_timeout_{};
  std::chrono::nanoseconds timeout_{};
  Environment environment_;
  std::shared_ptr<Store> store_;  ///< that this world opened, if it did
  std::shared_ptr<Rendezvous> rendezvous_;
};

}  // namespace weft
