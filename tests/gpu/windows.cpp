// One of two ranks on a GPU: memory that is registered with NCCL, used as ranks may use it. A JSON object by rank 0: is what comes out right?
//   gpu_windows equal      both ranks sum at one place of their window
//   gpu_windows unequal    each at another place of it
//   gpu_windows one        one rank in its window, the other beside it
//   gpu_windows message    from registered memory into other memory, and back

#include <iostream>
#include <vector>

#include "gpu/timing.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

constexpr std::int64_t counts[] = {64, 16 << 10, 1 << 20};
constexpr std::int64_t largest = 1 << 20;

View part(Buffer& buffer, std::int64_t at, std::int64_t count) {
  return buffer.view().slice(at, count);
}

bool has(View data, float expected, Stream& stream) {
  std::vector<float> values(static_cast<std::size_t>(data.count()));
  copy(View(std::span(values)), data, stream);
  stream.synchronize();
  return std::ranges::all_of(values, [=](float value) { return value == expected; });
}

void set(View data, float value, Stream& stream) {
  const std::vector<float> values(static_cast<std::size_t>(data.count()), value);
  copy(data, ConstView(std::span(values)), stream);
  stream.synchronize();
}

int run(const std::string& how) {
  Communicator comm = connect(World::from_environment());
  const int rank = comm.rank();
  Stream stream(comm.device());
  Buffer window = comm.allocate(DataType::f32, 2 * largest);
  Buffer plain = Buffer::on(comm.device(), DataType::f32, 2 * largest);
  bool all_right = true;
  for (const std::int64_t count : counts) {
    const bool is_message = how == "message";
    Buffer& memory = (how == "one" || is_message) && rank == 1 ? plain : window;
    const View data = part(memory, how == "unequal" ? rank * count : 0, count);
    set(memory.view(), -1, stream);
    set(data, static_cast<float>(rank + 1), stream);
    comm.barrier(Stream()).wait();
    if (is_message) {
      Group group(comm);
      rank == 0 ? group.send(data, 1) : group.receive(data, 0);
      group.start(stream).wait();
      Group back(comm);
      rank == 1 ? back.send(data, 0) : back.receive(data, 1);
      back.start(stream).wait();
    } else {
      comm.all_reduce(data, ReduceOp::sum, stream).wait();
    }
    const View beside = part(memory, how == "unequal" ? (1 - rank) * count : count, count);
    std::int64_t right = has(data, is_message ? 1 : 3, stream) && has(beside, -1, stream) ? 1 : 0;
    comm.all_reduce(View(std::span(&right, 1)), ReduceOp::min, Stream()).wait();
    all_right = all_right && right == 1;
    if (rank != 0) continue;
    std::cout << "{\"figure\": \"window\", \"how\": \"" << how << "\", \"elements\": " << count
              << ", \"right\": " << (right == 1 ? "true" : "false") << ", \"backend\": \"" << comm.backend()
              << "\"}" << std::endl;  // NOLINT(performance-avoid-endl): it may not come to its end
  }
  return all_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc == 2 ? argv[1] : "";
  if (how != "equal" && how != "unequal" && how != "one" && how != "message") {
    std::cerr << "usage: gpu_windows equal | unequal | one | message\n";
    return 42;
  }
  try {
    return run(how);
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return exit_code(error.kind());
  }
}
