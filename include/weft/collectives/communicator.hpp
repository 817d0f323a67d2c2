#pragma once
// A group of ranks that move data together.
//
// `Communicator` checks the arguments, gives the operation a number, records it and hands it to a backend.
// The backends are `self` (one rank), `threads` (ranks as threads of one process) and `host` (shared memory
// within a node, MPI, UCX or TCP between nodes). For the memory of a CUDA device there is `nccl` beside one
// of these. A `Communicator` is a handle: copies are the same communicator, and its resources live until the
// last copy and the last operation are gone.
//
// Every operation takes a stream and runs in its order; the call returns at once with a `Work`. Views must
// stay alive and untouched until then. Collectives are collective: all ranks issue the same operations, in
// the same order, with the same count, dtype, op and root; what differs is an Error on every rank that names
// ranks and values. One thread at a time issues. Operations on one stream run one after the other; on
// different streams they may overlap (within a node up to 32 do), so join the streams with an event where one
// needs what another made. Waiting for one progresses all that have begun: ranks may wait in any order. On a
// CUDA device one thread issues for all communicators of that device, in the same order on every rank. NCCL's
// kernels wait on the device, and two different orders would wait for each other. The device gets the
// operations in that order, across streams. So if one stream waits for an event of the host, what was issued
// later on other streams waits, too.
//
// After a timeout, mismatch or lost peer the communicator is broken: every later operation fails with the
// first error. Make a new one, or end.
//
//   auto comm = connect(World::from_environment());
//   Stream stream;
//   Buffer gradient = comm.allocate(DataType::f32, n);          // reachable by the node's ranks: no copies
//   comm.all_reduce(gradient.view(), ReduceOp::avg, stream);
//   stream.synchronize();
//
// In a child after fork() every operation is an Error (usage) that names the parent and its rank, and copies end without a word to the
// peers; the child connects anew. A communicator of one rank is the child's, too.
//
// WRONG: if (comm.rank() == 0) comm.barrier(stream);
//        // The others never come: an Error after the timeout.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/collectives/algorithm.hpp"
#include "weft/collectives/flight_recorder.hpp"
#include "weft/collectives/meter.hpp"
#include "weft/collectives/nccl_options.hpp"
#include "weft/collectives/reduce_op.hpp"
#include "weft/collectives/topology.hpp"
#include "weft/collectives/work.hpp"
#include "weft/collectives/world.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/error.hpp"
#include "weft/core/stream.hpp"
#include "weft/core/trace.hpp"

namespace weft {

class Communicator;
namespace detail {
class CommunicatorState;
/// Not for users. What meter() reads.
Counters& counters(const Communicator& comm);
std::shared_ptr<Counters> shared_counters(const Communicator& comm);
/// Not for users. Leaves a number for the other ranks to look at, such as its place in a plan; costs a
/// store.
void show(Communicator& comm, std::uint64_t number);
/// Not for users. What a rank has shown last, 0 before; none for a rank on another node.
std::optional<std::uint64_t> shown(const Communicator& comm, int rank);
}  // namespace detail
class Group;

struct ConnectOptions {
  std::shared_ptr<Trace> trace{};  ///< records a span for every operation, with its share of the wire ledger
  /// The order of sums between nodes. Where it is not given WEFT_ORDER decides, else it is rank.
  std::optional<ReductionOrder> order{};
  /// Before the built-in one, between nodes; where it is not given the one in WEFT_ALGORITHMS, if any.
  std::optional<AlgorithmTable> algorithms{};
  NcclOptions nccl{};  ///< on devices
};

class Communicator {
 public:
  int rank() const;
  int size() const;
  const Topology& topology() const;
  /// "self", "threads", "host (shared memory)", "host (UCX)", "host (shared memory + MPI)";
  /// with a device "nccl 2.28.9 + " before it.
  std::string backend() const;
  /// Whose memory allocate() gives. Operations take host memory on host streams in any case.
  Device device() const;
  /// How long an operation that is issued now may wait for other ranks, once its turn on its stream has come. One that waits longer is an
  /// Error (timeout) that names the ranks that are missing, and breaks the communicator.
  std::chrono::nanoseconds timeout() const;
  /// Holds for operations that this rank issues after the call, on any backend, and for split(). An operation keeps the value of its issue.
  /// Ranks may differ. By the thread that issues. @throws Error (usage) unless it is positive
  void timeout(std::chrono::nanoseconds duration);
  /// A stream for this communicator's operations, beside the compute streams. On a device it has high
  /// priority, so that its kernels begin before those that wait for room on other streams. On the host it has
  /// a thread of its own if this process has a core for it; otherwise it is inline. WEFT_PROGRESS decides
  /// otherwise.
  /// @throws Error (usage) when a thread is asked for and MPI was initialised for one thread only
  Stream progress_stream(const Environment& environment = Environment::of_process()) const;
  /// Whether a thread may issue operations that is not the one that made the communicator. False where MPI carries them and was initialised
  /// for one thread only.
  bool any_thread() const;

  /// out[i] = op over ranks of in[i]. In place when in and out are the same memory.
  Work all_reduce(ConstView in, View out, ReduceOp op, const Stream& stream);
  Work all_reduce(View data, ReduceOp op, const Stream& stream) { return all_reduce(data, data, op, stream); }
  /// Rank r gets elements [r*n, (r+1)*n) of the reduction; in has size()*n elements, out n. `out` may be that
  /// part of `in`.
  Work reduce_scatter(ConstView in, View out, ReduceOp op, const Stream& stream);
  /// out[r*n + i] = rank r's in[i]; in has n elements, out size()*n. `in` may be this rank's part of `out`.
  Work all_gather(ConstView in, View out, const Stream& stream);
  /// Every rank gets root's data.
  Work broadcast(View data, int root, const Stream& stream);
  /// Like all_reduce, but only root's `out` is written (others may pass an empty view).
  Work reduce(ConstView in, View out, ReduceOp op, int root, const Stream& stream);
  /// out[r*n + i] = rank r's in[rank()*n + i]; both have size()*n elements and must not overlap.
  Work all_to_all(ConstView in, View out, const Stream& stream);
  /// Done when every rank has reached it.
  Work barrier(const Stream& stream);

  /// The ranks that name the same color, ordered by key and then rank; none for no color. Collective over
  /// all ranks, blocks the host. @throws Error (timeout) naming the ranks that do not take part
  std::optional<Communicator> split(std::optional<int> color, int key = 0);

  /// Call it when this rank cannot go on. Its later operations fail with `error`. So do those of the other
  /// ranks, as soon as they wait for this rank, instead of at their deadline. @param error what ended it; the
  /// others read it
  void give_up(const Error& error) noexcept;
  /// Runs `body`, as in comm.run([&] { train(); }). If an exception leaves it, the other ranks get its message in
  /// an Error (system), and it is thrown on. An Error of weft reaches them without run(), too.
  template <class Body>
  void run(Body&& body) {
    try {
      body();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      give_up(Error(ErrorKind::system, message_of(error)));
      throw;
    }
  }
  /// From then on, waiting so long for another rank is logged, once an operation, with who it is for: a rank
  /// that is slow is no error before the timeout. 1 s unless it is set; a GradientReducer sets twice the
  /// median step, and at least 0.25 s. For operations on host memory.
  void slow_after(std::chrono::nanoseconds duration);
  /// Null for ranks that are threads.
  std::shared_ptr<FlightRecorder> flight_recorder() const;

  /// Memory that this communicator's operations reach without a copy, on the host those of every communicator
  /// of this process, too. On a CUDA device it is registered with NCCL, which makes it collective: all ranks ask
  /// for the same, in the same order. On the host any thread may call. @param contents `any` is for buffers that
  /// come and go: on the host their memory is kept for the next one (NodeHeap), and on a device it is zeroed all
  /// the same
  Buffer allocate(DataType dtype, std::int64_t count, Contents contents = Contents::zeroed);
  /// Makes device memory of others known to NCCL, such as a tensor's of LibTorch, or what another communicator allocated: operations
  /// may then reach it without a copy, which the network needs and memory of allocate() has anyway. Not collective; all ranks should.
  /// @returns its registration, which ends with the last copy of the pointer and must end before the memory; null before NCCL 2.19,
  /// which copies. @throws Error (usage) for memory elsewhere
  [[nodiscard]] std::shared_ptr<const void> register_memory(View memory);

  /// How such an operation on host memory would be carried out, and why so: "pairwise (65536 bytes over 4
  /// ranks, ...)". @param count as all_reduce takes it; of a rank's part, where each rank has one
  std::string explain(Collective kind, DataType dtype, std::int64_t count, ReduceOp op = ReduceOp::sum) const;
  /// Payload bytes this rank has sent to others so far, by the operations' own count (docs/algorithms.md).
  std::uint64_t wire_bytes() const;
  /// The wire ledger: payload bytes this rank has handed to the network between nodes so far. Of operations
  /// on host memory; NCCL and MPI's own collectives keep no such account.
  std::uint64_t network_bytes() const;
  /// What this rank has counted so far, over this communicator and all that it was split from or into.
  Meter meter() const;

  explicit Communicator(std::shared_ptr<detail::CommunicatorState> state) : state_(std::move(state)) {}

 private:
  friend class Group;
  friend detail::Counters& detail::counters(const Communicator& comm);
  friend std::shared_ptr<detail::Counters> detail::shared_counters(const Communicator& comm);
  friend void detail::show(Communicator& comm, std::uint64_t number);
  friend std::optional<std::uint64_t> detail::shown(const Communicator& comm, int rank);
  std::shared_ptr<detail::CommunicatorState> state_;
};

/// Sends and receives that are paired with others' and progress together, so that no order of them can
/// deadlock.
///
///   Group group(comm);
///   group.send(right_edge, (rank + 1) % size).receive(left_halo, (rank + size - 1) % size);
///   group.start(stream).wait();
///
/// A message goes to the receive that names its source and its tag; those of one source and tag match in the order of their calls.
/// Counts and dtypes must agree. Only the ranks that take part call it. A receive of one tag does not wait for messages of another, even if
/// they were sent before: those are put aside, at the price of memory of their size and a copy. receive_any() takes the next message
/// with its tag, from whichever rank; Work::source() says from whom.
///
///   const Work work = Group(comm).receive_any(request, 7).start(stream);
///   work.wait();
///   Group(comm).send(answer, work.source(), 8).start(stream);
///
/// Within a node, groups on different streams wait for each other only where they share a peer, a direction and a tag; a receive from any rank
/// shares with every receive of its tag. Between nodes groups follow each other on one rank, whatever their streams, so what is
/// to progress together belongs in one group; tags go up to 4095 there, and a receive must name its source. Memory of a device goes
/// through NCCL, which has neither: tag 0, and named sources. What cannot be done is refused at the call.
///
/// WRONG: a receive_any() and a receive() from rank 1 with the same tag, which can take each other's message: use another tag.
class Group {
 public:
  explicit Group(Communicator communicator) : communicator_(std::move(communicator)) {}

  /// @throws Error (usage), here and below, for a rank that is not there, or what the backend cannot do
  Group& send(ConstView data, int peer, std::uint32_t tag = 0);
  Group& receive(View data, int peer, std::uint32_t tag = 0);
  Group& receive_any(View data, std::uint32_t tag = 0);
  Work start(const Stream& stream);

 private:
  struct Transfer {
    ConstView out;
    View in;
    int peer;
    bool sends;
    std::uint32_t tag;
  };
  void check(int peer) const;
  void check(Device memory, std::uint32_t tag, bool from_any) const;

  Communicator communicator_;
  std::vector<Transfer> transfers_;
};

/// The communicator of all ranks of the world: `self` for one rank, else `host`. For a world with a CUDA
/// device it has NCCL beside it. Collective; blocks until all ranks are there.
/// @throws Error (timeout) naming the missing ranks
/// @throws Error (usage) when ranks are on several nodes and WEFT_TRANSPORT or this build has nothing to
/// carry data between them, when two use one device, or when a table of algorithms cannot be read
/// @throws Error (mismatch) when some compute on the host and some on a device, or orders or tables differ
/// @throws Error (system) without NCCL 2.18 or newer
Communicator connect(const World& world, const ConnectOptions& options = {});

/// A communicator of this rank alone.
Communicator self();

struct ThreadRanks {
  std::chrono::nanoseconds timeout = std::chrono::minutes(1);
  /// False: as if no rank could reach another's buffers, so that all data is staged.
  bool shared_memory = true;
  std::shared_ptr<Trace> trace{};
};

/// Runs `body` as `ranks` ranks, each a thread of this process. Rethrows the first failure by rank, after all
/// have ended.
void run_as_threads(int ranks, const std::function<void(Communicator)>& body,
                    const ThreadRanks& options = {});

}  // namespace weft
