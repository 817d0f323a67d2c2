// Which calls of CUDA wait while a kernel waits on the device, a JSON object a line. What a deadline may call depends on it.
//   gpu_driver_waits calls      each call beside a waiting kernel; then beside a thread that launches a kernel for the first time
//   gpu_driver_waits queue      how many operations a stream takes behind a waiting kernel, and what waits when it takes no more
//   gpu_driver_waits captures   which calls end another thread's capture of a graph; 1 if one that weft makes does

#include <dlfcn.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/held_device.hpp"
#include "weft/core/error.hpp"

namespace {

using namespace weft::test;
using namespace std::chrono_literals;

std::atomic<int> next_fresh = 0;

struct Call {
  const char* name;
  std::function<cudaError_t()> call;
  bool has_device = true;  ///< its thread has one before
};

struct Objects {
  cudaStream_t held = new_stream();
  cudaStream_t other = new_stream();
  cudaEvent_t ready = new_event();
  cudaEvent_t spare = new_event();
  cudaEvent_t behind = new_event();  ///< recorded behind the waiting kernel
  void* memory = nullptr;

  Objects() {
    expect(cudaMalloc(&memory, 4096), "memory");
    expect(cudaMemsetAsync(memory, 0, 4096, other), "memory");
    expect(cudaEventRecord(ready, other), "an event");
    expect(launch_fresh(0, other), "a kernel");
    { const HeldDevice loaded(held); }
    expect(cudaDeviceSynchronize(), "the device");
  }
};

/// Those that weft's threads make.
std::vector<Call> small_calls(Objects& o) {
  return {
      {"cudaGetDevice",
       [] {
         int d = 0;
         return cudaGetDevice(&d);
       }},
      {"cudaThreadExchangeStreamCaptureMode",
       [] {
         auto mode = cudaStreamCaptureModeRelaxed;
         return cudaThreadExchangeStreamCaptureMode(&mode);
       }},
      {"cudaSetDevice, first of its thread", [] { return cudaSetDevice(0); }, false},
      {"cudaSetDevice", [] { return cudaSetDevice(0); }},
      {"cudaEventQuery, passed", [&o] { return cudaEventQuery(o.ready); }},
      {"cudaEventQuery, not passed", [&o] { return cudaEventQuery(o.behind); }},
      {"cudaEventRecord on another stream", [&o] { return cudaEventRecord(o.spare, o.other); }},
      {"cudaEventRecord on the kernel's stream", [&o] { return cudaEventRecord(o.spare, o.held); }},
      {"cudaStreamWaitEvent", [&o] { return cudaStreamWaitEvent(o.other, o.ready, 0); }},
      {"cudaStreamIsCapturing",
       [&o] {
         cudaStreamCaptureStatus s{};
         return cudaStreamIsCapturing(o.other, &s);
       }},
      {"cudaEventCreate",
       [] {
         cudaEvent_t e = nullptr;
         return cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
       }},
      {"cudaEventDestroy", [e = new_event()] { return cudaEventDestroy(e); }},
      {"launch of a loaded kernel on another stream", [&o] { return launch_fresh(0, o.other); }},
      {"cudaMemsetAsync on another stream", [&o] { return cudaMemsetAsync(o.memory, 0, 4096, o.other); }},
  };
}

/// cuBLAS, where it is: it loads its kernels itself, and allocates.
std::vector<Call> blas_calls(Objects& o) {
  void* const library = dlopen("libcublas.so.13", RTLD_NOW);
  if (library == nullptr) return {};
  using Create = int (*)(void**);
  using SetStream = int (*)(void*, cudaStream_t);
  using Product = int (*)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
                          const float*, float*, int);
  static void* handle = nullptr;
  return {{"cublasCreate",
           [=] {
             const int code = reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"))(&handle);
             return code == 0 ? cudaSuccess : cudaErrorUnknown;
           }},
          {"first cublasSgemm", [=, &o] {
             static const float one = 1;
             auto* const m = static_cast<float*>(o.memory);
             reinterpret_cast<SetStream>(dlsym(library, "cublasSetStream_v2"))(handle, o.other);
             const int code = reinterpret_cast<Product>(dlsym(library, "cublasSgemm_v2"))(
                 handle, 0, 0, 16, 16, 16, &one, m, 16, m + 256, 16, &one, m + 512, 16);
             return code == 0 ? cudaSuccess : cudaErrorUnknown;
           }}};
}

/// Those that are known or suspected to wait for the device.
std::vector<Call> large_calls(Objects& o) {
  void* memory = nullptr;
  void* on_host = nullptr;
  expect(cudaMalloc(&memory, 1 << 20), "memory");
  expect(cudaHostAlloc(&on_host, 1 << 20, cudaHostAllocMapped), "memory of the host");
  return {
      {"first launch of a kernel", [&o] { return launch_fresh(++next_fresh, o.other); }},
      {"loading a kernel without a launch", [] { return load_fresh(++next_fresh); }},
      {"first launch of a kernel with 16 KiB of local memory", [&o] { return launch_wide(0, o.other); }},
      {"first launch of a kernel of another module",
       [&o] {
         weft::detail::cuda::runtime()->fill(
             weft::View(o.memory, 16, weft::DataType::f32, weft::Device::cuda(0)), 1, o.other);
         return cudaSuccess;
       }},
      {"cudaMalloc of 4 KiB",
       [] {
         void* m = nullptr;
         return cudaMalloc(&m, 4096);
       }},
      {"cudaMalloc of 256 MiB",
       [] {
         void* m = nullptr;
         return cudaMalloc(&m, 1 << 28);
       }},
      {"cudaHostAlloc",
       [] {
         void* m = nullptr;
         return cudaHostAlloc(&m, 1 << 20, cudaHostAllocMapped);
       }},
      {"cudaStreamCreate",
       [] {
         cudaStream_t s = nullptr;
         return cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
       }},
      {"cudaStreamDestroy", [s = new_stream()] { return cudaStreamDestroy(s); }},
      {"cudaFree", [memory] { return cudaFree(memory); }},
      {"cudaFreeHost", [on_host] { return cudaFreeHost(on_host); }},
  };
}

void print(const char* figure, const std::string& call, const std::string& beside, bool beside_waits,
           bool waits, const TimedCall& timed) {
  std::cout << "{\"figure\": \"" << figure << "\", \"call\": \"" << call << "\", \"beside\": \"" << beside
            << "\", \"which_waits\": " << (beside_waits ? "true" : "false")
            << ", \"waits\": " << (waits ? "true" : "false") << ", \"ms\": " << timed.milliseconds()
            << ", \"code\": " << static_cast<int>(timed.code()) << "}"
            << std::endl;  // NOLINT(performance-avoid-endl): whatever comes next
}

const auto limit = measures ? 120ms : 30ms;

/// @param beside is under way when the call is made; null: the waiting kernel alone
void round(Objects& o, const Call& call, const Call* beside) {
  TimedCall timed(call.call, call.has_device);
  std::optional<TimedCall> first;
  if (beside != nullptr) first.emplace(beside->call);
  HeldDevice held(o.held);
  expect(cudaEventRecord(o.behind, o.held), "an event");
  const bool first_waits = first && !first->start(limit / 2);
  const bool waits = !timed.start(limit);
  held.release();
  timed.join();
  if (first) first->join();
  print("beside a waiting kernel", call.name, beside == nullptr ? "the kernel alone" : beside->name,
        first_waits, waits, timed);
}

void calls() {
  Objects o;
  for (const Call& call : large_calls(o)) round(o, call, nullptr);
  for (const Call& call : blas_calls(o)) round(o, call, nullptr);
  const auto small = small_calls(o);
  for (const Call& call : small) round(o, call, nullptr);
  const Call launch{"first launch of a kernel", [&o] { return launch_fresh(++next_fresh, o.other); }};
  for (const Call& call : small_calls(o)) round(o, call, &launch);
  const Call again{"first launch of a kernel, in another thread", launch.call};
  round(o, again, &launch);
  // Where a first launch does not wait, memory may be what did.
  const Call memory{"cudaFree", [] {
                      void* m = nullptr;
                      cudaMalloc(&m, 1 << 20);
                      return cudaFree(m);
                    }};
  for (const Call& call : small_calls(o)) round(o, call, &memory);
}

void queue() {
  Objects o;
  const std::vector<Call> kinds{
      {"cudaEventRecord", [&o] { return cudaEventRecord(o.spare, o.held); }},
      {"a kernel", [&o] { return launch_fresh(0, o.held); }},
      {"cudaMemsetAsync", [&o] { return cudaMemsetAsync(o.memory, 0, 4096, o.held); }},
      {"a kernel and a record",
       [&o] {
         const auto code = launch_fresh(0, o.held);
         return code == cudaSuccess ? cudaEventRecord(o.spare, o.held) : code;
       }},
  };
  constexpr int most = 5000;
  for (const Call& kind : kinds) {
    std::atomic<int> taken = 0;
    TimedCall many([&] {
      for (int i = 0; i < most; ++i) {
        if (const auto code = kind.call(); code != cudaSuccess) return code;
        ++taken;
      }
      return cudaSuccess;
    });
    const auto small = small_calls(o);
    std::vector<std::unique_ptr<TimedCall>> beside;
    for (const Call& call : small) beside.push_back(std::make_unique<TimedCall>(call.call, call.has_device));
    HeldDevice held(o.held);
    expect(cudaEventRecord(o.behind, o.held), "an event");
    const bool waits = !many.start(measures ? 500ms : 100ms);
    std::cout << "{\"figure\": \"queue\", \"of\": \"" << kind.name << "\", \"taken\": " << taken
              << ", \"waits\": " << (waits ? "true" : "false") << "}\n";
    std::vector<bool> wait;
    for (auto& one : beside) wait.push_back(!one->start(waits ? 100ms : 10ms));
    held.release();
    many.join();
    for (std::size_t i = 0; i < small.size(); ++i) {
      beside[i]->join();
      print("beside a full queue", small[i].name, kind.name, waits, wait[i], *beside[i]);
    }
  }
}

void launched(cudaError_t code) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw weft::Error(weft::ErrorKind::system, cudaGetErrorString(code));
}

/// A thread captures while another calls weft's runtime.
int captures() {
  namespace cuda = weft::detail::cuda;
  const auto runtime = cuda::runtime();
  Objects o;
  const cudaEvent_t made = runtime->make_event(0, false);
  void* const memory = runtime->allocate(0, 4096);
  void* const on_host = runtime->allocate_on_host(0, 4096);
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"nothing", [] {}},
      {"make_event", [&] { runtime->make_event(0, false); }},
      {"passed", [&] { runtime->passed(o.ready); }},
      {"record", [&] { runtime->record(o.spare, o.other); }},
      {"wait", [&] { runtime->wait(o.other, o.ready); }},
      {"capturing", [&] { runtime->capturing(o.other, 0); }},
      {"destroy of an event", [&] { runtime->destroy(made); }},
      {"identity", [&] { runtime->identity(0); }},
      {"make_stream", [&] { runtime->make_stream(0, true); }},
      {"is_on", [&] { runtime->is_on(o.other, 0); }},
      {"copy", [&] { runtime->copy(memory, on_host, 16, o.other); }},
      {"fill_zero", [&] { runtime->fill_zero(memory, 16, o.other); }},
      {"a loaded kernel", [&] { launched(launch_fresh(0, o.other)); }},
      {"a kernel's first launch", [&] { launched(launch_fresh(++next_fresh, o.other)); }},
      {"allocate", [&] { runtime->allocate(0, 4096); }},
      {"allocate_on_host", [&] { runtime->allocate_on_host(0, 4096); }},
      {"release", [&] { runtime->release(0, memory); }},
      {"release_on_host", [&] { runtime->release_on_host(0, on_host); }},
      {"drain", [&] { runtime->drain(0); }},
  };
  int lost = 0;
  for (const auto& [name, call] : calls) {
    std::string said = "ok";
    expect(cudaStreamBeginCapture(o.held, cudaStreamCaptureModeGlobal), "a capture");
    expect(launch_fresh(0, o.held), "a kernel of the graph");
    std::thread([&, &call = call] {
      try {
        call();
      } catch (const std::exception& error) {
        said = error.what();
      }
    }).join();
    const cudaError_t kernel = launch_fresh(0, o.held);
    cudaGraph_t graph = nullptr;
    const cudaError_t end = cudaStreamEndCapture(o.held, &graph);
    if (end == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();
    const bool is_whole = kernel == cudaSuccess && end == cudaSuccess;
    lost += is_whole && said == "ok" ? 0 : 1;
    for (char& c : said) c = c == '"' || c == '\n' ? ' ' : c;
    std::cout << "{\"figure\": \"capture\", \"call\": \"" << name << "\", \"capture\": \""
              << (is_whole ? "whole" : "lost") << "\", \"code\": " << static_cast<int>(end)
              << ", \"said\": \"" << said << "\"}\n";
  }
  return lost == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  try {
    if (what == "calls") return calls(), 0;
    if (what == "queue") return queue(), 0;
    if (what == "captures") return captures();
  } catch (const weft::Error& error) {
    std::cerr << error.what() << '\n';
    return weft::exit_code(error.kind());
  }
  std::cerr << "usage: gpu_driver_waits calls | queue | captures\n";
  return 42;
}
