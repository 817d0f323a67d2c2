// One of two ranks on a GPU: what ends an operation for which the other rank never comes. A JSON object a line, by rank 0.
//   gpu_deadlines one FILE      weft's deadline of 2 s beside one operation
//   gpu_deadlines load FILE     and a thread that launches a kernel for the first time, which waits for the device
//   gpu_deadlines full FILE     and more operations than a stream takes
//   gpu_deadlines abort FILE    NCCL's own abort, in a thread that has used no device
//   gpu_deadlines abort-load FILE    beside such a launch
// FILE: rank 0 makes it when it is done, and rank 1 leaves. It ends with 1 where nothing ends the operation within 12 s.

#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "collectives/nccl/nccl_communicator.hpp"
#include "gpu/held_device.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto deadline = 2s;
constexpr auto longest = 12s;

std::string how;
std::string done_file;
Clock::time_point began;

double seconds() {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

/// What rank 0 says last; the other rank leaves.
[[noreturn]] void end(int status, const std::string& what, const std::string& more) {
  std::string words = what;
  for (char& c : words) c = c == '"' || c == '\n' || c == '\\' ? ' ' : c;
  std::ostringstream line;  // one write: a thread may be printing
  line << "{\"figure\": \"deadline\", \"how\": \"" << how << "\", \"seconds\": " << seconds()
       << ", \"ended\": " << (status == 0 ? "true" : "false") << more << ", \"said\": \"" << words << "\"}\n";
  std::cout << line.str() << std::flush;
  std::ofstream(done_file) << "done\n";
  _exit(status);
}

void end_after_longest() {
  std::thread([] {
    std::this_thread::sleep_for(longest);
    end(1, "nothing ended it", "");
  }).detach();
}

void wait_for_rank_0() {
  for (const auto until = Clock::now() + 40s; Clock::now() < until && !std::ifstream(done_file);)
    std::this_thread::sleep_for(20ms);
  _exit(0);
}

/// A kernel's first launch, behind whatever the device does.
struct Load {
  cudaStream_t stream = test::new_stream();
  test::TimedCall call{[this] { return test::launch_fresh(1, stream); }};

  std::string words() const {
    if (!call.done()) return ", \"launch\": \"waits\"";
    return text(", \"launch_ms\": ", call.milliseconds(),
                ", \"launch_code\": ", static_cast<int>(call.code()));
  }
};

void of_weft() {
  Communicator comm = connect(World::from_environment());
  comm.timeout(deadline);
  Stream stream(comm.device());
  Buffer data = comm.allocate(DataType::f32, 1 << 14);
  comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
  Load load;
  test::expect(test::launch_fresh(0, load.stream), "a kernel");
  comm.barrier(Stream()).wait();
  if (comm.rank() != 0) wait_for_rank_0();
  began = Clock::now();
  end_after_longest();
  std::string more;
  try {
    comm.all_reduce(data.view(), ReduceOp::sum, stream);
    if (how == "load") {
      std::this_thread::sleep_for(100ms);  // the kernel of NCCL runs
      const bool waits = !load.call.start(200ms);
      more = text(", \"launch_waits\": ", waits ? "true" : "false");
    }
    for (int i = 0; how == "full" && i < 3000; ++i) comm.all_reduce(data.view(), ReduceOp::sum, stream);
    stream.synchronize();
  } catch (const Error& error) {
    if (how == "load") load.call.start(500ms);
    const bool is_in_time =
        !test::measures || seconds() < std::chrono::duration<double>(deadline).count() + 0.5;
    end(is_in_time ? 0 : 1, error.what(), more + (how == "load" ? load.words() : ""));
  }
  end(1, "no error", more);
}

void of_nccl() {
  using namespace detail::nccl;
  const auto world = World::from_environment();
  auto comm = connect(world);
  const auto api = Api::load(world.environment().value(env::nccl_library));
  UniqueId id{};
  if (comm.rank() == 0) id = detail::nccl::Communicator::make_id(*api);
  comm.broadcast(View(static_cast<void*>(id.internal), sizeof(id.internal), DataType::u8), 0, weft::Stream())
      .wait();
  const auto cuda = detail::cuda::runtime();
  const detail::cuda::Current current(*cuda, comm.device().index());
  detail::nccl::Communicator bare(api, id, comm.rank(), comm.size(),
                                  {.enter = [&] { cuda->make_current(comm.device().index()); }},
                                  Deadline::in(60s));
  const cudaStream_t stream = test::new_stream();
  Buffer data = Buffer::on(comm.device(), DataType::f32, 1 << 14);
  const auto reduce = [&] {
    if (api->AllReduce(data.view().data(), data.view().data(), 1 << 14, Type::f32, Op::sum, bare.raw(),
                       stream) != Result::success)
      end(1, "ncclAllReduce failed", "");
  };
  reduce();
  test::expect(cudaStreamSynchronize(stream), "a stream");
  Load load;
  test::expect(test::launch_fresh(0, load.stream), "a kernel");
  comm.barrier(weft::Stream()).wait();
  if (comm.rank() != 0) wait_for_rank_0();
  began = Clock::now();
  end_after_longest();
  reduce();
  std::this_thread::sleep_for(300ms);
  std::string more;
  if (how == "abort-load") more = text(", \"launch_waits\": ", load.call.start(300ms) ? "false" : "true");
  Result said = Result::success;
  const auto begin = Clock::now();
  std::thread([&] { said = api->CommAbort(bare.raw()); }).join();  // no device is set there
  more += text(", \"abort_ms\": ", std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  const auto code = cudaStreamSynchronize(stream);
  if (how == "abort-load") {
    load.call.join();
    more += load.words();
  }
  more += text(", \"stream_code\": ", static_cast<int>(code));
  end(said == Result::success ? 0 : 1, said == Result::success ? "aborted" : "ncclCommAbort failed", more);
}

}  // namespace

int main(int argc, char** argv) {
  how = argc == 3 ? argv[1] : "";
  const bool is_weft = how == "one" || how == "load" || how == "full";
  if (!is_weft && how != "abort" && how != "abort-load") {
    std::cerr << "usage: gpu_deadlines one | load | full | abort | abort-load FILE\n";
    return 42;
  }
  done_file = argv[2];
  try {
    is_weft ? of_weft() : of_nccl();
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return exit_code(error.kind());
  }
}
