#include "collectives/shm/host_backend.hpp"

#include <unistd.h>

#include <random>

#include "collectives/processes/peer_memory.hpp"
#include "collectives/shm/cores.hpp"
#include "collectives/shm/shm_backend.hpp"
#include "weft/core/error.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::detail {
namespace {

/// What a rank tells the others about itself.
struct Introduction {
  int segment_fd = -1;    ///< of the first rank only
  std::uint64_t job = 0;  ///< likewise
  Cores cores = Cores::of_this_thread();
  int pid = getpid();
  int heap_fd = 0;
  std::size_t heap_bytes = 0;
  std::string socket{};  ///< name of its IdentitySocket; empty where all know it

  std::string note() const {
    return text(segment_fd, " ", job, " ", cores.note(), " ", pid, " ", heap_fd, " ", heap_bytes, " ",
                socket);
  }
  static Introduction from(const std::string& note) {
    Introduction result;
    std::istringstream in(note);
    std::string cores;
    if (!(in >> result.segment_fd >> result.job >> cores >> result.pid >> result.heap_fd >>
          result.heap_bytes)) {
      throw Error(ErrorKind::internal, text("a peer introduced itself as '", note, "'"));
    }
    in >> result.socket;
    result.cores = Cores::from(cores);
    return result;
  }
};

/// A rank as this process sees it, the same in all communicators.
struct NodeRank {
  std::shared_ptr<PeerMemory> process;
  std::shared_ptr<SharedMapping> mapping;  ///< of its heap; null where that is this rank's heap
  std::byte* heap;
  std::size_t heap_bytes;
};

/// Ranks of one process that share a heap use its one mapping: another would be translated, and cached in the TLB, twice.
NodeRank node_rank(const Introduction& its, const NodeHeap& own) {
  auto process = PeerMemory::of(its.pid, its.socket);
  if (its.pid == getpid() && its.heap_fd == own.fd())
    return {std::move(process), nullptr, own.at(0), own.capacity()};
  auto mapping = process->map(its.heap_fd, its.heap_bytes);
  std::byte* const heap = mapping->base();
  return {std::move(process), std::move(mapping), heap, its.heap_bytes};
}

std::shared_ptr<Backend> meet(const std::shared_ptr<Rendezvous>& rendezvous, std::shared_ptr<NodeHeap> heap,
                              Deadline deadline, std::chrono::nanoseconds timeout, std::vector<int> names,
                              std::vector<NodeRank> ranks);

class HostSegment final : public ShmSegment {
 public:
  HostSegment(int rank, int size, std::shared_ptr<SharedMapping> memory, std::chrono::nanoseconds timeout,
              int cores, std::shared_ptr<NodeHeap> heap, std::vector<NodeRank> ranks)
      : ShmSegment(rank, size, std::move(memory), timeout, cores),
        heap_(std::move(heap)),
        ranks_(std::move(ranks)) {}

  Address publish(const void* memory, std::size_t bytes) const override {
    if (bytes == 0) return {true, 0};
    const auto offset = heap_->offset_of(memory, bytes);
    return {offset.has_value(), offset.value_or(0)};
  }
  std::byte* resolve(int rank, Address address, std::size_t bytes) const override {
    const NodeRank& its = ranks_[static_cast<std::size_t>(rank)];
    if (bytes > its.heap_bytes || address.token > its.heap_bytes - bytes) throw_beyond(rank, address, bytes);
    return its.heap + address.token;
  }
  Buffer allocate(DataType dtype, std::int64_t count, Contents contents) override {
    return heap_->allocate(dtype, count, contents);
  }
  const std::shared_ptr<NodeHeap>& heap() const { return heap_; }
  const NodeRank& node_rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

 private:
  // Apart, or every look would make room on the stack for these words: 3 ns each, and an operation looks four times.
  [[noreturn, gnu::noinline, gnu::cold]] void throw_beyond(int rank, Address address,
                                                           std::size_t bytes) const {
    throw Error(ErrorKind::mismatch,
                text("rank ", name_of(rank), " says that ", bytes, " bytes are at ", address.token,
                     " of its heap, which has ", ranks_[static_cast<std::size_t>(rank)].heap_bytes),
                "its memory is overwritten, or it is no rank of this job");
  }
  std::optional<std::string> died(int rank) const override {
    const PeerProcess& peer = ranks_[static_cast<std::size_t>(rank)].process->process();
    if (!peer.ended()) return std::nullopt;
    return text("rank ", name_of(rank), " (process ", peer.pid(), ") has died");
  }
  std::string stopped(int rank) const override {
    const PeerProcess& peer = ranks_[static_cast<std::size_t>(rank)].process->process();
    return peer.stopped() ? text("process ", peer.pid(), " is stopped") : "";
  }

  std::shared_ptr<NodeHeap> heap_;
  std::vector<NodeRank> ranks_;
};

class HostBackend final : public ShmBackend {
 public:
  explicit HostBackend(std::shared_ptr<HostSegment> segment)
      : ShmBackend(segment), segment_(std::move(segment)) {}

  std::string name() const override { return "host (shared memory)"; }
  std::shared_ptr<Backend> split(const std::vector<int>& members,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    std::vector<NodeRank> ranks;
    for (const int member : members) ranks.push_back(segment_->node_rank(member));
    return meet(rendezvous, segment_->heap(), Deadline::in(segment_->timeout()), segment_->timeout(), {},
                std::move(ranks));
  }

 private:
  std::shared_ptr<HostSegment> segment_;
};

/// @param ranks who they are, where this process knows that
std::shared_ptr<Backend> meet(const std::shared_ptr<Rendezvous>& rendezvous, std::shared_ptr<NodeHeap> heap,
                              Deadline deadline, std::chrono::nanoseconds timeout, std::vector<int> names,
                              std::vector<NodeRank> ranks) {
  const std::size_t bytes = ShmSegment::bytes_for(rendezvous->size());
  const bool are_known = !ranks.empty();
  Introduction mine{.heap_fd = heap->fd(), .heap_bytes = heap->capacity()};
  std::optional<IdentitySocket> identity;
  if (!are_known) mine.socket = identity.emplace().name();
  std::optional<MemoryFile> file;
  if (rendezvous->rank() == 0) {
    file.emplace("weft-segment", bytes);
    std::random_device random;
    mine.segment_fd = file->fd();
    mine.job = std::uint64_t{random()} << 32 | random();
    ShmSegment::mark(file->map(), rendezvous->size(), mine.job);
  }
  std::vector<Introduction> introductions;
  for (const std::string& note : rendezvous->all_gather(mine.note(), "connect within the node", deadline)) {
    introductions.push_back(Introduction::from(note));
  }
  Cores cores = mine.cores;
  for (const Introduction& one : introductions) {
    cores.add(one.cores);
    if (!are_known) ranks.push_back(node_rank(one, *heap));
  }
  auto memory = ranks[0].process->map(introductions[0].segment_fd, bytes);
  ShmSegment::expect(*memory, rendezvous->size(), introductions[0].job);
  auto segment = std::make_shared<HostSegment>(rendezvous->rank(), rendezvous->size(), std::move(memory),
                                               timeout, cores.count(), std::move(heap), std::move(ranks));
  if (!names.empty()) segment->call_ranks(std::move(names));
  // No rank closes a descriptor, or the socket, that others still have to open.
  segment->await_ranks(deadline);
  return std::make_shared<HostBackend>(std::move(segment));
}

}  // namespace

std::size_t shared_bytes_of_a_rank() {
  return ShmSegment::bytes_for(1);
}

std::shared_ptr<Backend> make_host_backend(const std::shared_ptr<Rendezvous>& rendezvous,
                                           std::shared_ptr<NodeHeap> heap,
                                           std::chrono::nanoseconds connect_timeout,
                                           std::chrono::nanoseconds timeout, std::vector<int> names) {
  return meet(rendezvous, std::move(heap), Deadline::in(connect_timeout), timeout, std::move(names), {});
}

}  // namespace weft::detail
