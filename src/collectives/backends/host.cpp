#include "collectives/backends/host.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collectives/backends/shared_backend.hpp"
#include "collectives/cores.hpp"
#include "weft/core/error.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::detail {
namespace {

/// A peer's process: readable once it has ended, even while nobody has reaped it. A pid alone could be
/// somebody else's by then.
class ProcessWatch {
 public:
  explicit ProcessWatch(int pid) : fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
    if (fd_ < 0) throw system_error(text("cannot watch process ", pid));
  }
  ProcessWatch(ProcessWatch&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ProcessWatch& operator=(ProcessWatch&&) = delete;
  ~ProcessWatch() {
    if (fd_ >= 0) close(fd_);
  }

  bool ended() const {
    pollfd query{fd_, POLLIN, 0};
    return poll(&query, 1, 0) > 0;
  }

 private:
  int fd_;
};

/// What a rank tells the others about itself.
struct Introduction {
  int pid = 0;
  int heap_fd = 0;
  std::size_t heap_bytes = 0;
  int ground_fd = -1;  ///< of the first rank only
  Cores cores = Cores::of_this_thread();

  std::string note() const {
    return text(pid, " ", heap_fd, " ", heap_bytes, " ", ground_fd, " ", cores.note());
  }
  static Introduction from(const std::string& note) {
    Introduction result;
    std::istringstream in(note);
    std::string cores;
    if (!(in >> result.pid >> result.heap_fd >> result.heap_bytes >> result.ground_fd >> cores)) {
      throw Error(ErrorKind::internal, text("a peer introduced itself as '", note, "'"));
    }
    result.cores = Cores::from(cores);
    return result;
  }
};

/// Another rank as this one sees it.
struct Peer {
  Peer(int process, SharedMapping mapping) : pid(process), watch(process), heap(std::move(mapping)) {}

  int pid;
  ProcessWatch watch;
  SharedMapping heap;
};

class HostGround final : public SharedGround {
 public:
  HostGround(int rank, int size, std::shared_ptr<SharedMapping> memory, std::chrono::nanoseconds timeout,
             int cores, std::shared_ptr<NodeHeap> heap, std::vector<Peer> peers)
      : SharedGround(rank, size, std::move(memory), timeout, cores),
        heap_(std::move(heap)),
        peers_(std::move(peers)) {}

  Address publish(const void* memory, std::size_t bytes) const override {
    if (bytes == 0) return {true, 0};
    const auto offset = heap_->offset_of(memory, bytes);
    return {offset.has_value(), offset.value_or(0)};
  }
  std::byte* resolve(int rank, Address address) const override {
    // Own memory by its own address: a second one would be translated, and cached in the TLB, twice.
    if (rank == this->rank()) return heap_->at(address.token);
    return peers_[static_cast<std::size_t>(rank)].heap.at(address.token);
  }
  Buffer allocate(DataType dtype, std::int64_t count) override { return heap_->allocate(dtype, count); }
  const std::shared_ptr<NodeHeap>& heap() const { return heap_; }

 private:
  std::optional<std::string> died(int rank) const override {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!peer.watch.ended()) return std::nullopt;
    return text("rank ", name_of(rank), " (process ", peer.pid, ") has died");
  }

  std::shared_ptr<NodeHeap> heap_;
  std::vector<Peer> peers_;
};

class HostBackend final : public SharedBackend {
 public:
  explicit HostBackend(std::shared_ptr<HostGround> ground) : SharedBackend(ground), heap_(ground->heap()) {}

  std::string name() const override { return "host (shared memory)"; }
  std::shared_ptr<Backend> split(const std::vector<int>&,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    return make_host_backend(rendezvous, heap_, ground()->timeout(), ground()->timeout());
  }

 private:
  std::shared_ptr<NodeHeap> heap_;
};

}  // namespace

std::shared_ptr<Backend> make_host_backend(const std::shared_ptr<Rendezvous>& rendezvous,
                                           std::shared_ptr<NodeHeap> heap,
                                           std::chrono::nanoseconds connect_timeout,
                                           std::chrono::nanoseconds timeout, std::vector<int> names) {
  const Deadline deadline = Deadline::in(connect_timeout);
  const std::size_t bytes = SharedGround::bytes_for(rendezvous->size());
  std::optional<MemoryFile> file;
  if (rendezvous->rank() == 0) file.emplace("weft-ground", bytes);

  const Introduction mine{getpid(), heap->fd(), heap->capacity(), file ? file->fd() : -1};
  std::vector<Introduction> everybody;
  for (const std::string& note : rendezvous->all_gather(mine.note(), "connect within the node", deadline)) {
    everybody.push_back(Introduction::from(note));
  }
  std::vector<Peer> peers;
  Cores cores = mine.cores;
  for (const Introduction& one : everybody) {
    cores.add(one.cores);
    peers.emplace_back(one.pid, MemoryFile::of_process(one.pid, one.heap_fd, one.heap_bytes).map());
  }
  auto memory = std::make_shared<SharedMapping>(
      MemoryFile::of_process(everybody[0].pid, everybody[0].ground_fd, bytes).map());
  auto ground = std::make_shared<HostGround>(rendezvous->rank(), rendezvous->size(), std::move(memory),
                                             timeout, cores.count(), std::move(heap), std::move(peers));
  if (!names.empty()) ground->call_ranks(std::move(names));
  // Nobody closes a descriptor that others still have to open.
  rendezvous->all_gather("", "connect within the node: memory is mapped", deadline);
  return std::make_shared<HostBackend>(std::move(ground));
}

}  // namespace weft::detail
