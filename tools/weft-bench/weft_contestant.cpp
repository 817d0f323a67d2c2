#include "contestant.hpp"
#include "tune.hpp"

namespace weft::bench {
namespace {

class Weft : public Contestant {
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
    return row_of(which.op).weft({comm_, which, in, out, stream_});
  }

  Communicator comm_;
  Stream stream_;
};

class WithAlgorithm final : public Weft {
 public:
  WithAlgorithm(const Communicator& comm, Algorithm algorithm, Memory memory)
      : Weft(comm, std::move(memory)), algorithm_(algorithm) {}

  std::string name() const override { return std::string(weft::name(algorithm_)); }
  bool carries(const Case& which) const override {
    const auto kind = collective_of(which.op);
    return kind && carries_out(algorithm_, *kind);
  }

 private:
  Algorithm algorithm_;
};

Memory memory_of(Communicator handle, std::size_t bytes, bool out_of_place, bool arena) {
  const auto allocate = [&](bool wanted) {
    const auto count = wanted ? static_cast<std::int64_t>(bytes) : 0;
    return arena ? handle.allocate(DataType::u8, count) : Buffer::on_host(DataType::u8, count);
  };
  return {allocate(true), allocate(out_of_place)};
}

}  // namespace

std::unique_ptr<Contestant> make_weft(const Communicator& comm, std::size_t bytes, bool out_of_place,
                                      bool arena) {
  return std::make_unique<Weft>(comm, memory_of(comm, bytes, out_of_place, arena));
}

std::unique_ptr<Contestant> make_algorithm(const Communicator& comm, Algorithm algorithm, std::size_t bytes,
                                           bool out_of_place, bool arena) {
  return std::make_unique<WithAlgorithm>(comm, algorithm, memory_of(comm, bytes, out_of_place, arena));
}

}  // namespace weft::bench
