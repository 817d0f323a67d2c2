#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>
#include <sstream>

#include "collectives/kernels/reduce_kernel.hpp"
#include "collectives/kernels/slices.hpp"
#include "contestant.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::bench {
namespace {

/// One rank's memory in this process.
struct Peer {
  SharedMapping heap;
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  std::atomic<std::uint64_t>* arrived = nullptr;
};

class Bound final : public Contestant {
 public:
  Bound(Memory memory, Buffer counter, std::vector<Peer> peers, int rank)
      : Contestant(std::move(memory)), counter_(std::move(counter)), peers_(std::move(peers)), rank_(rank) {}

  std::string name() const override { return "bound"; }
  void run(const Case& which, int times) override {
    for (int i = 0; i < times; ++i) {
      move(which);
      barrier();
    }
  }

 private:
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  /// An address in a peer's memory. In-place parts are at the peer's offset.
  std::byte* input(Case which, int rank) {
    which.rank = rank;
    return peer(rank).first + which.in_offset();
  }
  std::byte* output(Case which, int rank) {
    which.rank = rank;
    return (which.in_place ? peer(rank).first : peer(rank).second) + which.out_offset();
  }

  void move(const Case& which) {
    const std::size_t part = static_cast<std::size_t>(which.count) * size_of(which.dtype);
    const auto place = [part](int rank) { return part * static_cast<std::size_t>(rank); };
    std::byte* const out = output(which, rank_);
    switch (which.op) {
      case Op::all_reduce:
      case Op::reduce:
        return reduce_slice(which);
      case Op::reduce_scatter:
        return reduce_part(which, place(rank_));
      case Op::all_gather:
        for (int rank = 0; rank < which.ranks; ++rank) copy(out + place(rank), input(which, rank), part);
        return;
      case Op::broadcast:
        return copy(out, output(which, which.root), part);
      case Op::all_to_all:
        for (int rank = 0; rank < which.ranks; ++rank)
          copy(out + place(rank), input(which, rank) + place(rank_), part);
        return;
      case Op::send_receive:
        return copy(out, input(which, (rank_ + which.ranks - 1) % which.ranks), part);
    }
  }

  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to != from) std::memcpy(to, from, bytes);
  }

  void reduce_slice(const Case& which) {
    const auto mine = detail::slice_of(which.count, rank_, which.ranks, which.dtype);
    if (mine.count == 0) return;
    const std::size_t begin = static_cast<std::size_t>(mine.begin) * size_of(which.dtype);
    sources_.clear();
    cached_.clear();
    streamed_.clear();
    for (int rank = 0; rank < which.ranks; ++rank) {
      sources_.push_back(input(which, rank) + begin);
      if (which.op == Op::reduce && rank != which.root) continue;
      const bool streams = rank != rank_ && detail::streams_to_peers(which.bytes());
      (streams ? streamed_ : cached_).push_back(output(which, rank) + begin);
    }
    detail::reduce(sources_, {cached_, streamed_}, mine.count, which.dtype, which.redop);
  }

  void reduce_part(const Case& which, std::size_t begin) {
    sources_.clear();
    cached_.assign(1, output(which, rank_));
    for (int rank = 0; rank < which.ranks; ++rank) sources_.push_back(input(which, rank) + begin);
    detail::reduce(sources_, {cached_}, which.count, which.dtype, which.redop);
  }

  void barrier() {
    peer(rank_).arrived->store(++turn_, std::memory_order_release);
    for (Peer& other : peers_) {
      for (Backoff backoff; other.arrived->load(std::memory_order_acquire) < turn_;) backoff.pause();
    }
  }

  Buffer counter_;
  std::vector<Peer> peers_;
  int rank_;
  std::uint64_t turn_ = 0;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> cached_;
  std::vector<std::byte*> streamed_;
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
  peer.first = peer.heap.at(first);
  peer.second = peer.heap.at(second);
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
  Peer& own = peers[static_cast<std::size_t>(world.rank())];
  own.first = memory.first.view().bytes();
  own.second = memory.second.view().bytes();
  return std::make_unique<Bound>(std::move(memory), std::move(counter), std::move(peers), world.rank());
}

}  // namespace weft::bench
