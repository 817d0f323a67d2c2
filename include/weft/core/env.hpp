#pragma once
// Every environment variable that weft reads, in one table, and the only way to read one.
//
// Code does not call getenv: it takes an `Environment`, a snapshot of the process's variables, so that a test
// can pass another. `env::variables` is the table; docs/environment.md is printed from it (`weft-launch env
// --document`), and a test compares the two. A value that does not parse is an Error with the variable, the
// value and what is allowed. A snapshot does not change after it is filled, and any thread may read it.
//
//   Environment environment = Environment::of_process();
//   double seconds = environment.number(env::timeout);          // the table's default when it is not set

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

namespace env {

struct Variable {
  std::string_view name;
  std::string_view fallback;  ///< value when it is not set; empty: none
  std::string_view meaning;   ///< one sentence for docs/environment.md
  std::string_view origin;    ///< "weft", or the launcher that sets it
};

// clang-format off
// Who am I (explicit claims outrank every launcher)
inline constexpr Variable rank{"WEFT_RANK", "", "Rank of this process; outranks every launcher. Needs WEFT_SIZE.", "weft"};
inline constexpr Variable size{"WEFT_SIZE", "", "Number of ranks. Needs WEFT_RANK.", "weft"};
inline constexpr Variable local_rank{"WEFT_LOCAL_RANK", "", "Rank within this node; default: counted after the ranks met.", "weft"};
inline constexpr Variable local_size{"WEFT_LOCAL_SIZE", "", "Ranks on this node; default: counted after the ranks met.", "weft"};
inline constexpr Variable rendezvous{"WEFT_RENDEZVOUS", "", "Where ranks meet: mpi, pmix (words of the PMIx server say where rank 0 listens), tcp://HOST:PORT (rank 0 listens there) or file://PATH (one machine; a path no earlier run has used).", "weft"};
inline constexpr Variable token{"WEFT_TOKEN", "", "The secret of a job, 16 bytes or more (openssl rand -hex 32); needed where ranks meet over TCP beyond loopback. weft-launch makes one.", "weft"};
inline constexpr Variable token_file{"WEFT_TOKEN_FILE", "", "A file with that token, which only its user may read.", "weft"};
inline constexpr Variable bind{"WEFT_BIND", "", "The address on which rank 0 listens, where the rendezvous names none of its machine's own; default: all, which is logged.", "weft"};
inline constexpr Variable host_id{"WEFT_HOST_ID", "", "Name of this node; ranks with equal names share memory. Default: host name, boot id and pid namespace.", "weft"};
// How long, how much, how
inline constexpr Variable connect_timeout{"WEFT_CONNECT_TIMEOUT", "120", "Seconds to wait for all ranks to arrive.", "weft"};
inline constexpr Variable timeout{"WEFT_TIMEOUT", "600", "Seconds an operation may wait for other ranks before it fails and names them.", "weft"};
inline constexpr Variable heap_bytes{"WEFT_HEAP_BYTES", "0", "Address space of the node heap in bytes, reserved but not used until touched; 0: the machine's memory. Communicators of a process that connect with the same value share one heap, with another value they have another.", "weft"};
inline constexpr Variable progress{"WEFT_PROGRESS", "auto", "Who carries out host communication: inline (the calling thread, when it polls or waits), thread (a thread of its own), auto (a thread where this node has more cores than ranks).", "weft"};
inline constexpr Variable transport{"WEFT_TRANSPORT", "auto", "What carries data between nodes: mpi (under mpirun), ucx, tcp (plain sockets), or auto (mpi where the ranks met through MPI, else ucx, in a build without UCX tcp).", "weft"};
inline constexpr Variable interface{"WEFT_INTERFACE", "", "The network interfaces that WEFT_TRANSPORT=tcp uses, as eth0,eth1; default: all but loopback.", "weft"};
inline constexpr Variable order{"WEFT_ORDER", "rank", "In which order sums between nodes are taken: rank (bits do not depend on sizes), or any (more algorithms).", "weft"};
inline constexpr Variable algorithms{"WEFT_ALGORITHMS", "", "A table of algorithms that goes before the built-in one, as weft-bench --tune writes it; rank 0 reads it for all.", "weft"};
inline constexpr Variable device{"WEFT_DEVICE", "host", "Where ranks compute: host, cuda (each on the CUDA device with its number on the node) or cuda:N.", "weft"};
inline constexpr Variable share_device{"WEFT_SHARE_DEVICE", "0", "1: several ranks of a node may use one CUDA device, for tests; they take turns, over NCCL_HOSTID or, from NCCL 2.30.3 on, NCCL_MULTI_RANK_GPU_ENABLE.", "weft"};
inline constexpr Variable nccl_library{"WEFT_NCCL_LIBRARY", "libnccl.so.2", "The NCCL to load, by name or path.", "weft"};
inline constexpr Variable flight_dir{"WEFT_FLIGHT_DIR", "auto", "Folder for the flight records of ranks that fail: a path, off, or auto (/tmp/weft-flight-UID/JOB on every node, JOB being rank 0's host and process, and random digits).", "weft"};
inline constexpr Variable log{"WEFT_LOG", "warn", "What is logged to standard error: off, error, warn, info or debug.", "weft"};
// What other libraries read, and weft looks at
inline constexpr Variable nccl_debug{"NCCL_DEBUG", "", "When it is set, weft-scaling leaves NCCL's log alone and names no transports.", "NCCL"};
inline constexpr Variable ucx_keepalive{"UCX_KEEPALIVE_INTERVAL", "1s", "How often UCX asks a silent peer whether it is there; UCX's own default is 20 s.", "UCX"};
inline constexpr Variable ucx_tcp_conn_nb{"UCX_TCP_CONN_NB", "y", "Whether UCX calls other hosts without waiting for them; with UCX's own default, n, a host that does not answer is waited for, for minutes.", "UCX"};
inline constexpr Variable ucx_rndv_thresh{"UCX_RNDV_THRESH", "", "From how many bytes UCX asks the receiver first; without it never, on a machine without RDMA.", "UCX"};
// What launchers say
inline constexpr Variable torch_rank{"RANK", "", "Rank.", "torchrun"};
inline constexpr Variable torch_size{"WORLD_SIZE", "", "Number of ranks.", "torchrun"};
inline constexpr Variable torch_local_rank{"LOCAL_RANK", "", "Rank within the node.", "torchrun"};
inline constexpr Variable torch_local_size{"LOCAL_WORLD_SIZE", "", "Ranks on the node.", "torchrun"};
inline constexpr Variable master_addr{"MASTER_ADDR", "", "Host of rank 0, where ranks meet without MPI.", "torchrun"};
inline constexpr Variable master_port{"MASTER_PORT", "", "Port at MASTER_ADDR.", "torchrun"};
inline constexpr Variable elastic_run{"TORCHELASTIC_RUN_ID", "", "Marks processes started by torchrun.", "torchrun"};
inline constexpr Variable agent_store{"TORCHELASTIC_USE_AGENT_STORE", "", "True: torchrun's agent hosts a store at MASTER_ADDR and MASTER_PORT, whose words say where rank 0 listens.", "torchrun"};
inline constexpr Variable ompi_rank{"OMPI_COMM_WORLD_RANK", "", "Rank.", "Open MPI"};
inline constexpr Variable ompi_size{"OMPI_COMM_WORLD_SIZE", "", "Number of ranks.", "Open MPI"};
inline constexpr Variable ompi_local_rank{"OMPI_COMM_WORLD_LOCAL_RANK", "", "Rank within the node.", "Open MPI"};
inline constexpr Variable ompi_local_size{"OMPI_COMM_WORLD_LOCAL_SIZE", "", "Ranks on the node.", "Open MPI"};
inline constexpr Variable pmix_namespace{"PMIX_NAMESPACE", "", "Marks processes started by a PMIx launcher.", "PMIx"};
inline constexpr Variable pmix_rank{"PMIX_RANK", "", "Rank.", "PMIx"};
inline constexpr Variable pmi_rank{"PMI_RANK", "", "Rank.", "PMI (MPICH, Intel MPI)"};
inline constexpr Variable pmi_size{"PMI_SIZE", "", "Number of ranks.", "PMI (MPICH, Intel MPI)"};
inline constexpr Variable pmi_local_rank{"MPI_LOCALRANKID", "", "Rank within the node.", "PMI (MPICH, Intel MPI)"};
inline constexpr Variable pmi_local_size{"MPI_LOCALNRANKS", "", "Ranks on the node.", "PMI (MPICH, Intel MPI)"};
inline constexpr Variable slurm_step{"SLURM_STEP_ID", "", "Marks a job step; a batch script has none and is not a rank.", "Slurm"};
inline constexpr Variable slurm_job{"SLURM_JOB_ID", "", "Job number; the rendezvous port is derived from it.", "Slurm"};
inline constexpr Variable slurm_rank{"SLURM_PROCID", "", "Rank.", "Slurm"};
inline constexpr Variable slurm_step_size{"SLURM_STEP_NUM_TASKS", "", "Number of ranks of the step.", "Slurm"};
inline constexpr Variable slurm_size{"SLURM_NTASKS", "", "Number of ranks when the step does not say.", "Slurm"};
inline constexpr Variable slurm_local_rank{"SLURM_LOCALID", "", "Rank within the node.", "Slurm"};
inline constexpr Variable slurm_nodelist{"SLURM_STEP_NODELIST", "", "Nodes of the step; ranks meet on the first.", "Slurm"};
inline constexpr Variable job_index{"JOB_COMPLETION_INDEX", "", "Rank of a pod that is one rank of an indexed Job or a JobSet, where WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set and RANK is not.", "Kubernetes"};
// clang-format on

/// All of them, in the order of docs/environment.md.
std::span<const Variable* const> variables();

/// docs/environment.md, as text.
std::string document();

}  // namespace env

/// A snapshot of environment variables.
class Environment {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  Environment() = default;
  explicit Environment(Values values) : values_(std::move(values)) {}
  static Environment of_process();
  /// The same with one value set.
  Environment with(const env::Variable& variable, std::string value) const;

  /// The value, if it is set and not empty.
  std::optional<std::string> get(const env::Variable& variable) const;
  bool has(const env::Variable& variable) const { return get(variable).has_value(); }
  /// The value or the table's default.
  std::string value(const env::Variable& variable) const;
  /// @throws Error (usage) when the value is not an integer in [low, high]
  std::optional<std::int64_t> integer(const env::Variable& variable, std::int64_t low,
                                      std::int64_t high) const;
  /// A finite number >= 0, from the environment or the table's default. @throws Error (usage)
  double number(const env::Variable& variable) const;
  std::chrono::nanoseconds seconds(const env::Variable& variable) const;

 private:
  Values values_;
};

}  // namespace weft
