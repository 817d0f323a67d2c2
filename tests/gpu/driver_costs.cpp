// What calls of CUDA cost the thread that makes them, in nanoseconds: a JSON object a line, medians of rounds. Alone, and while another thread
// launches kernels.

#include <optional>
#include <vector>

#include "gpu/held_device.hpp"

namespace {

using namespace weft::test;

constexpr int calls_a_round = measures ? 200 : 4;
constexpr int rounds = measures ? 31 : 2;

struct Call {
  const char* name;
  std::function<cudaError_t()> call;
  bool is_behind = false;  ///< a waiting kernel
  std::vector<double> nanoseconds{};
};

double of_round(const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls_a_round; ++i) expect(call.call(), call.name);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
         calls_a_round;
}

void measure(const char* beside, std::vector<Call>& calls, cudaStream_t stream, cudaEvent_t behind) {
  for (Call& call : calls) call.nanoseconds.clear();
  for (int round = 0; round < rounds; ++round) {
    for (Call& call : calls) {
      std::optional<HeldDevice> held;
      if (call.is_behind) {
        held.emplace(stream);
        expect(cudaEventRecord(behind, stream), "an event");
      }
      call.nanoseconds.push_back(of_round(call));
      held.reset();
      expect(cudaStreamSynchronize(stream), "a stream");
    }
  }
  for (const Call& call : calls) {
    std::cout << "{\"figure\": \"driver call\", \"call\": \"" << call.name << "\", \"beside\": \"" << beside
              << "\", \"ns\": " << median(call.nanoseconds)
              << ", \"least_ns\": " << *std::ranges::min_element(call.nanoseconds) << "}\n";
  }
}

}  // namespace

int main() {
  expect(cudaSetDevice(0), "the device");
  const cudaStream_t stream = new_stream();
  const cudaStream_t theirs = new_stream();
  const cudaEvent_t passed = new_event();
  const cudaEvent_t spare = new_event();
  const cudaEvent_t behind = new_event();
  expect(cudaEventRecord(passed, stream), "an event");
  expect(launch_fresh(0, stream), "a kernel");
  { const HeldDevice loaded(stream); }
  std::vector<Call> calls{
      {"cudaGetDevice",
       [] {
         int d = 0;
         return cudaGetDevice(&d);
       }},
      {"cudaSetDevice", [] { return cudaSetDevice(0); }},
      {"cudaThreadExchangeStreamCaptureMode, twice",
       [] {
         auto mode = cudaStreamCaptureModeRelaxed;
         cudaThreadExchangeStreamCaptureMode(&mode);
         return cudaThreadExchangeStreamCaptureMode(&mode);
       }},
      {"cudaStreamIsCapturing",
       [=] {
         cudaStreamCaptureStatus s{};
         return cudaStreamIsCapturing(stream, &s);
       }},
      {"cudaEventQuery, passed", [=] { return cudaEventQuery(passed); }},
      {"cudaEventQuery, not passed",
       [=] {
         cudaEventQuery(behind);
         return cudaSuccess;
       },
       true},
      {"cudaEventRecord", [=] { return cudaEventRecord(spare, stream); }},
      {"cudaEventRecord, behind a kernel", [=] { return cudaEventRecord(spare, stream); }, true},
      {"cudaStreamWaitEvent, passed", [=] { return cudaStreamWaitEvent(stream, passed, 0); }},
      {"cudaEventCreateWithFlags and cudaEventDestroy", [] { return cudaEventDestroy(new_event()); }},
      {"a kernel's launch", [=] { return launch_fresh(0, stream); }},
      {"a kernel's launch, behind a kernel", [=] { return launch_fresh(0, stream); }, true},
      {"a kernel's launch and cudaEventRecord",
       [=] {
         launch_fresh(0, stream);
         return cudaEventRecord(spare, stream);
       }},
      {"a kernel's launch, cudaEventRecord and cudaEventQuery",
       [=] {
         launch_fresh(0, stream);
         cudaEventRecord(spare, stream);
         cudaEventQuery(spare);
         return cudaSuccess;
       }},
  };
  measure("nothing", calls, stream, behind);
  std::atomic<bool> ends = false;
  std::thread other([&] {
    while (!ends) {
      for (int i = 0; i < calls_a_round; ++i) expect(launch_fresh(0, theirs), "a kernel");
      expect(cudaStreamSynchronize(theirs), "a stream");
    }
  });
  measure("a thread that launches", calls, stream, behind);
  ends = true;
  other.join();
}
