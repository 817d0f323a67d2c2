#include <unistd.h>

#include <atomic>
#include <new>
#include <sstream>

#include "contestant.hpp"
#include "shared_moves.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::bench {
namespace {

/// One rank's memory in this process.
struct Peer {
  SharedMapping heap;
  SharedMoves::Buffers buffers;
  std::atomic<std::uint64_t>* arrived = nullptr;
};

std::vector<SharedMoves::Buffers> buffers_of(const std::vector<Peer>& peers) {
  std::vector<SharedMoves::Buffers> result;
  for (const Peer& one : peers) result.push_back(one.buffers);
  return result;
}

class Bound final : public Contestant {
 public:
  Bound(Memory memory, Buffer counter, std::vector<Peer> peers, int rank)
      : Contestant(std::move(memory)),
        counter_(std::move(counter)),
        peers_(std::move(peers)),
        moves_(buffers_of(peers_), rank),
        own_(peers_[static_cast<std::size_t>(rank)]) {}

  std::string name() const override { return "bound"; }
  void run(const Case& which, int times) override {
    const auto move = row_of(which.op).bound;
    for (int i = 0; i < times; ++i) {
      move(moves_, which);
      barrier();
    }
  }

 private:
  void barrier() {
    own_.arrived->store(++turn_, std::memory_order_release);
    for (Peer& other : peers_) {
      for (Backoff backoff; other.arrived->load(std::memory_order_acquire) < turn_;) backoff.pause();
    }
  }

  Buffer counter_;
  std::vector<Peer> peers_;
  SharedMoves moves_;
  Peer& own_;
  std::uint64_t turn_ = 0;
};

Peer peer_from(const std::string& note) {
  std::istringstream in(note);
  int pid = 0;
  int fd = 0;
  std::size_t capacity = 0;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t counter = 0;
  in >> pid >> fd >> capacity >> first >> second >> counter;
  Peer peer;
  peer.heap = MemoryFile::of_process(pid, fd, capacity).map();
  peer.buffers = {peer.heap.at(first), peer.heap.at(second)};
  peer.arrived = reinterpret_cast<std::atomic<std::uint64_t>*>(peer.heap.at(counter));
  return peer;
}

}  // namespace

std::unique_ptr<Contestant> make_bound(const Communicator& comm, const World& world, std::size_t bytes,
                                       bool out_of_place) {
  if (comm.topology().nodes() > 1) {
    throw Error(ErrorKind::usage, text("--against bound on ", comm.topology().nodes(), " nodes"),
                "the bound is of shared memory; keep the ranks on one node");
  }
  constexpr std::size_t slack = std::size_t{8} << 20;
  const auto heap = NodeHeap::create(2 * bytes + slack);
  const auto count = static_cast<std::int64_t>(bytes);
  Memory memory{heap->allocate(DataType::u8, count), heap->allocate(DataType::u8, out_of_place ? count : 1)};
  Buffer counter = heap->allocate(DataType::i64, 1);
  const auto offset = [&](const Buffer& buffer) { return *heap->offset_of(buffer.view().data(), 1); };
  const std::string note = text(getpid(), " ", heap->fd(), " ", heap->capacity(), " ", offset(memory.first),
                                " ", offset(memory.second), " ", offset(counter));
  const auto deadline = Deadline::in(world.connect_timeout());
  std::vector<Peer> peers;
  for (const std::string& one : world.rendezvous()->all_gather(note, "measure the bound", deadline))
    peers.push_back(peer_from(one));
  world.rendezvous()->all_gather("", "measure the bound: memory is mapped", deadline);
  // Own memory is used by its own address: a second mapping would need a second translation.
  peers[static_cast<std::size_t>(world.rank())].buffers = {memory.first.view().bytes(),
                                                           memory.second.view().bytes()};
  return std::make_unique<Bound>(std::move(memory), std::move(counter), std::move(peers), world.rank());
}

}  // namespace weft::bench
