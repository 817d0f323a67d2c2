#include "contestant.hpp"

namespace weft::bench {
namespace {

class Weft final : public Contestant {
 public:
  Weft(const Communicator& comm, Memory memory) : Contestant(std::move(memory)), comm_(comm) {}

  std::string name() const override { return "weft"; }
  void run(const Case& which, int times) override {
    for (int i = 0; i < times; ++i) start(which).wait();
  }

 private:
  Work start(const Case& which) {
    const ConstView in(memory().input(which), which.in_count(), which.dtype);
    const View out(memory().output(which), which.out_count(), which.dtype);
    switch (which.op) {
      case Op::all_reduce:
        return comm_.all_reduce(in, out, which.redop, stream_);
      case Op::reduce_scatter:
        return comm_.reduce_scatter(in, out, which.redop, stream_);
      case Op::all_gather:
        return comm_.all_gather(in, out, stream_);
      case Op::broadcast:
        return comm_.broadcast(out, which.root, stream_);
      case Op::reduce:
        return comm_.reduce(in, out, which.redop, which.root, stream_);
      case Op::all_to_all:
        return comm_.all_to_all(in, out, stream_);
      case Op::send_receive:
        break;
    }
    Group group(comm_);
    group.send(in, (which.rank + 1) % which.ranks).receive(out, (which.rank + which.ranks - 1) % which.ranks);
    return group.start(stream_);
  }

  Communicator comm_;
  Stream stream_;
};

}  // namespace

std::unique_ptr<Contestant> make_weft(const Communicator& comm, std::size_t bytes, bool out_of_place,
                                      bool arena) {
  Communicator handle = comm;
  const auto allocate = [&](bool wanted) {
    const auto count = wanted ? static_cast<std::int64_t>(bytes) : 0;
    return arena ? handle.allocate(DataType::u8, count) : Buffer::on_host(DataType::u8, count);
  };
  Memory memory{allocate(true), allocate(out_of_place)};
  return std::make_unique<Weft>(comm, std::move(memory));
}

}  // namespace weft::bench
