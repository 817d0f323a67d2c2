#include "collectives/shm/host_backend.hpp"

#include <unistd.h>

#include <random>

#include "collectives/shm/cores.hpp"
#include "collectives/shm/peer_process.hpp"
#include "collectives/shm/shm_backend.hpp"
#include "weft/core/error.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::detail {
namespace {

/// What a rank tells the others about itself.
struct Introduction {
  int pid = 0;
  std::string socket;  ///< name of its IdentitySocket
  int heap_fd = 0;
  std::size_t heap_bytes = 0;
  int segment_fd = -1;    ///< of the first rank only
  std::uint64_t job = 0;  ///< likewise
  Cores cores = Cores::of_this_thread();

  std::string note() const {
    return text(pid, " ", socket, " ", heap_fd, " ", heap_bytes, " ", segment_fd, " ", job, " ",
                cores.note());
  }
  static Introduction from(const std::string& note) {
    Introduction result;
    std::istringstream in(note);
    std::string cores;
    if (!(in >> result.pid >> result.socket >> result.heap_fd >> result.heap_bytes >> result.segment_fd >>
          result.job >> cores)) {
      throw Error(ErrorKind::internal, text("a peer introduced itself as '", note, "'"));
    }
    result.cores = Cores::from(cores);
    return result;
  }
};

/// Another rank as this one sees it.
struct Peer {
  explicit Peer(const Introduction& its)
      : process(its.pid, its.socket), heap(process.memory(its.heap_fd, its.heap_bytes).map()) {}

  PeerProcess process;
  SharedMapping heap;
};

class HostSegment final : public ShmSegment {
 public:
  HostSegment(int rank, int size, std::shared_ptr<SharedMapping> memory, std::chrono::nanoseconds timeout,
              int cores, std::shared_ptr<NodeHeap> heap, std::vector<Peer> peers)
      : ShmSegment(rank, size, std::move(memory), timeout, cores),
        heap_(std::move(heap)),
        peers_(std::move(peers)) {}

  Address publish(const void* memory, std::size_t bytes) const override {
    if (bytes == 0) return {true, 0};
    const auto offset = heap_->offset_of(memory, bytes);
    return {offset.has_value(), offset.value_or(0)};
  }
  std::byte* resolve(int rank, Address address, std::size_t bytes) const override {
    // Own memory by its own address: a second one would be translated, and cached in the TLB, twice.
    if (rank == this->rank()) return heap_->at(address.token);
    const SharedMapping& heap = peers_[static_cast<std::size_t>(rank)].heap;
    if (bytes > heap.size() || address.token > heap.size() - bytes) throw_beyond(rank, address, bytes);
    return heap.at(address.token);
  }
  Buffer allocate(DataType dtype, std::int64_t count) override { return heap_->allocate(dtype, count); }
  const std::shared_ptr<NodeHeap>& heap() const { return heap_; }

 private:
  // Apart, or every look would make room on the stack for these words: 3 ns each, and an operation looks four times.
  [[noreturn, gnu::noinline, gnu::cold]] void throw_beyond(int rank, Address address,
                                                           std::size_t bytes) const {
    throw Error(ErrorKind::mismatch,
                text("rank ", name_of(rank), " says that ", bytes, " bytes are at ", address.token,
                     " of its heap, which has ", peers_[static_cast<std::size_t>(rank)].heap.size()),
                "its memory is overwritten, or it is no rank of this job");
  }
  std::optional<std::string> died(int rank) const override {
    const PeerProcess& peer = peers_[static_cast<std::size_t>(rank)].process;
    if (!peer.ended()) return std::nullopt;
    return text("rank ", name_of(rank), " (process ", peer.pid(), ") has died");
  }
  std::string stopped(int rank) const override {
    const PeerProcess& peer = peers_[static_cast<std::size_t>(rank)].process;
    return peer.stopped() ? text("process ", peer.pid(), " is stopped") : "";
  }

  std::shared_ptr<NodeHeap> heap_;
  std::vector<Peer> peers_;
};

class HostBackend final : public ShmBackend {
 public:
  explicit HostBackend(std::shared_ptr<HostSegment> segment) : ShmBackend(segment), heap_(segment->heap()) {}

  std::string name() const override { return "host (shared memory)"; }
  std::shared_ptr<Backend> split(const std::vector<int>&,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    return make_host_backend(rendezvous, heap_, segment()->timeout(), segment()->timeout());
  }

 private:
  std::shared_ptr<NodeHeap> heap_;
};

}  // namespace

std::size_t shared_bytes_of_a_rank() {
  return ShmSegment::bytes_for(1);
}

std::shared_ptr<Backend> make_host_backend(const std::shared_ptr<Rendezvous>& rendezvous,
                                           std::shared_ptr<NodeHeap> heap,
                                           std::chrono::nanoseconds connect_timeout,
                                           std::chrono::nanoseconds timeout, std::vector<int> names) {
  const Deadline deadline = Deadline::in(connect_timeout);
  const std::size_t bytes = ShmSegment::bytes_for(rendezvous->size());
  std::optional<MemoryFile> file;
  const IdentitySocket identity;
  Introduction mine{getpid(), identity.name(), heap->fd(), heap->capacity()};
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
  std::vector<Peer> peers;
  Cores cores = mine.cores;
  for (const Introduction& one : introductions) {
    cores.add(one.cores);
    peers.emplace_back(one);
  }
  auto memory =
      std::make_shared<SharedMapping>(peers[0].process.memory(introductions[0].segment_fd, bytes).map());
  ShmSegment::expect(*memory, rendezvous->size(), introductions[0].job);
  auto segment = std::make_shared<HostSegment>(rendezvous->rank(), rendezvous->size(), std::move(memory),
                                               timeout, cores.count(), std::move(heap), std::move(peers));
  if (!names.empty()) segment->call_ranks(std::move(names));
  // No rank closes a descriptor, or the socket, that others still have to open.
  rendezvous->all_gather("", "connect within the node: memory is mapped", deadline);
  return std::make_shared<HostBackend>(std::move(segment));
}

}  // namespace weft::detail
