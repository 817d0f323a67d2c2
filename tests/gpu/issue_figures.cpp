// One of two ranks on a GPU, a JSON object a line by rank 0; medians of interleaved rounds.
//   gpu_issue_figures calls     what the thread that issues pays for ncclAllReduce, for it and what weft's calls of CUDA add one after the other, and
//                               for weft's all_reduce; with the device ahead of the host, and behind a kernel that waits
//   gpu_issue_figures memory    how much of the device connect(), split() and a pair that sends take, and for how long

#include <chrono>
#include <iostream>
#include <optional>
#include <string>

#include "collectives/nccl/nccl_communicator.hpp"
#include "gpu/held_device.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using namespace weft::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int calls = measures ? 100 : 5;  // of which a stream takes several hundred behind a kernel
constexpr int rounds = measures ? 21 : 2;

struct Way {
  std::string name;
  std::function<void(int)> call;
  std::vector<double> ahead{}, behind{};
};

/// NCCL beside weft's own communicator, of the same ranks.
class Bare {
 public:
  Bare(const World& world, Communicator& comm)
      : api_(detail::nccl::Api::load(world.environment().value(env::nccl_library))) {
    detail::nccl::UniqueId id{};
    if (comm.rank() == 0) id = detail::nccl::Communicator::make_id(*api_);
    comm.broadcast(View(static_cast<void*>(id.internal), sizeof(id.internal), DataType::u8), 0, Stream())
        .wait();
    bare_.emplace(api_, id, comm.rank(), comm.size(),
                  detail::nccl::Options{.enter = [] { cudaSetDevice(0); }}, Deadline::in(60s));
  }
  void reduce(void* data, cudaStream_t stream) {
    if (api_->AllReduce(data, data, 256, detail::nccl::Type::f32, detail::nccl::Op::sum, bare_->raw(),
                        stream) != detail::nccl::Result::success)
      throw Error(ErrorKind::system, "ncclAllReduce failed");
  }

 private:
  std::shared_ptr<const detail::nccl::Api> api_;
  std::optional<detail::nccl::Communicator> bare_;
};

double microseconds_a_call(const Way& way) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) way.call(i);
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
}

void exchange_twice() {
  auto mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaThreadExchangeStreamCaptureMode(&mode);
}

void of_calls() {
  const auto world = World::from_environment();
  Communicator comm = connect(world);
  if (comm.size() < 2)
    throw Error(ErrorKind::usage, "on one rank NCCL returns before it launches anything",
                "start two: WEFT_SIZE=2");
  expect(cudaSetDevice(0), "the device");
  Bare bare(world, comm);
  Stream stream(comm.device());
  const cudaStream_t native = native_handle(stream);
  Buffer data = comm.allocate(DataType::f32, 256);
  void* const raw = data.view().data();
  std::vector<cudaEvent_t> begins, ends;
  for (int i = 0; i < calls; ++i) begins.push_back(new_event()), ends.push_back(new_event());
  const auto at = [](const std::vector<cudaEvent_t>& events, int i) {
    return events[static_cast<std::size_t>(i)];
  };
  const auto one = [&](int) { bare.reduce(raw, native); };
  const auto recorded = [&](int i) { one(i), cudaEventRecord(at(ends, i), native); };
  const auto twice = [&](int i) { cudaEventRecord(at(begins, i), native), recorded(i); };
  const auto queried = [&](int i) {
    twice(i);
    exchange_twice();
    cudaEventQuery(at(ends, 0));
  };
  const auto asked = [&](int i) {
    cudaStreamCaptureStatus status{};
    int device = 0;
    for (int k = 0; k < 2; ++k) cudaStreamIsCapturing(native, &status), cudaGetDevice(&device);
    queried(i);
  };
  std::vector<Way> ways{
      {"ncclAllReduce", one},
      {"and a record behind it", recorded},
      {"and a record before it", twice},
      {"and a query of the oldest event", queried},
      {"and two cudaStreamIsCapturing, two cudaGetDevice", asked},
      {"weft", [&](int) { comm.all_reduce(data.view(), ReduceOp::sum, stream); }},
  };
  for (const Way& way : ways) microseconds_a_call(way);
  stream.synchronize();
  { const HeldDevice loaded(native); }
  for (int round = 0; round < rounds; ++round) {
    for (Way& way : ways) {
      way.ahead.push_back(microseconds_a_call(way));
      stream.synchronize();
    }
    for (Way& way : ways) {
      std::optional<HeldDevice> held(native);
      way.behind.push_back(microseconds_a_call(way));
      held.reset();
      stream.synchronize();
    }
  }
  if (comm.rank() != 0) return;
  for (const Way& way : ways) {
    std::cout << "{\"figure\": \"issue\", \"calls\": \"" << way.name
              << "\", \"us_ahead\": " << median(way.ahead)
              << ", \"least_us_ahead\": " << *std::ranges::min_element(way.ahead)
              << ", \"us_behind\": " << median(way.behind) << "}\n";
  }
}

double free_mib() {
  std::size_t free = 0;
  std::size_t total = 0;
  expect(cudaMemGetInfo(&free, &total), "memory");
  return static_cast<double>(free) / (1 << 20);
}

/// All ranks share the device: what they take is divided among them.
class Ledger {
 public:
  explicit Ledger(const World& world) : ranks_(world.size()), before_(free_mib()) {}
  void note(Communicator& comm, const char* what, Clock::time_point begin) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    comm.barrier(Stream()).wait();
    const double now = free_mib();
    comm.barrier(Stream()).wait();
    if (comm.rank() == 0) {
      std::cout << "{\"figure\": \"memory\", \"of\": \"" << what
                << "\", \"MiB_a_rank\": " << (before_ - now) / ranks_ << ", \"seconds\": " << seconds << "}"
                << std::endl;  // NOLINT
    }
    before_ = now;
  }

 private:
  int ranks_;
  double before_;
};

void of_memory() {
  const auto world = World::from_environment();
  expect(cudaFree(nullptr), "the device");
  std::this_thread::sleep_for(measures ? 2500ms : 50ms);  // until the other has its context, too
  Ledger ledger(world);
  auto begin = Clock::now();
  Communicator comm = connect(world);
  ledger.note(comm, "connect", begin);
  Stream stream(comm.device());
  begin = Clock::now();
  Buffer data = comm.allocate(DataType::f32, 16 << 20);
  ledger.note(comm, "allocate of 64 MiB", begin);
  for (const std::int64_t count : {256, 1 << 18, 16 << 20}) {
    begin = Clock::now();
    comm.all_reduce(data.view().slice(0, count), ReduceOp::sum, stream).wait();
    ledger.note(comm,
                count == 256       ? "first all_reduce of 1 KiB"
                : count == 1 << 18 ? "of 1 MiB"
                                   : "of 64 MiB",
                begin);
  }
  begin = Clock::now();
  comm.all_gather(data.view().slice(comm.rank() << 18, 1 << 18), data.view().slice(0, comm.size() << 18),
                  stream)
      .wait();
  ledger.note(comm, "first all_gather", begin);
  begin = Clock::now();
  auto half = comm.split(0, comm.rank());
  ledger.note(comm, "split", begin);
  begin = Clock::now();
  auto lane = comm.split(0, comm.rank());
  ledger.note(comm, "another split", begin);
  begin = Clock::now();
  Group group(*lane);
  if (comm.rank() == 0) group.send(data.view().slice(0, 1 << 18), 1);
  if (comm.rank() == 1) group.receive(data.view().slice(0, 1 << 18), 0);
  group.start(stream).wait();
  ledger.note(comm, "first message over it", begin);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  if (what != "calls" && what != "memory") {
    std::cerr << "usage: gpu_issue_figures calls | memory\n";
    return 42;
  }
  try {
    what == "calls" ? of_calls() : of_memory();
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return exit_code(error.kind());
  }
}
