// The library's functions, as NCCL calls them. Nothing here ends a job: NCCL is told of success, and what cannot be done is said in its log.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "weft-report/profiler/abi.hpp"
#include "weft-report/profiler/recorder.hpp"
#include "weft-report/profiler/service.hpp"

namespace weft::profiler {
namespace {

constexpr const char* own_name = "weft";

/// Kernel channels tell when an operation really runs. v1 and v2 have none; there proxy operations do, for what goes over a network.
constexpr int mask_with_kernels = event_collective | event_p2p | event_kernel_channel;
constexpr int mask_with_proxies = event_collective | event_p2p | event_proxy_operation;

Recorder recorder;

struct Process {
  std::mutex mutex{};
  int communicators = 0;
  std::unique_ptr<Service> service{};
};
Process process;

/// v1 to v3 have no logger: a warning goes to standard error.
Service::Say sayer(Logger log) {
  return [log](bool warns, const std::string& words) {
    if (log != nullptr) {
      log(warns ? log_warn : log_info, log_profile, "weft", 0, "PROFILER/weft: %s", words.c_str());
    } else if (warns) {
      const std::string line = "weft: profiler: " + words + "\n";
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    }
  };
}

// A context is a communicator's id, plus one so that NCCL calls finalize for one that is not recorded, too.
void* context_of(std::uint64_t communicator) {
  return reinterpret_cast<void*>(communicator + 1);  // NOLINT(performance-no-int-to-ptr)
}
std::uint64_t communicator_of(void* context) {
  const auto number = reinterpret_cast<std::uintptr_t>(context);
  return number == 0 ? 0 : number - 1;
}
void* handle_of(std::uint64_t number) {
  return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr)
}
std::uint64_t number_of(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

int begin(void** context, int* mask, int wanted, About about, Logger log) noexcept {
  if (context == nullptr || mask == nullptr) return success;
  *context = context_of(0);
  *mask = wanted;
  const Service::Say say = sayer(log);
  try {
    const std::uint64_t communicator = recorder.add(std::move(about));
    *context = context_of(communicator);
    if (communicator == 0) say(true, "more than 4096 communicators at a time: this one is not recorded");
    const std::lock_guard lock(process.mutex);
    if (process.communicators++ > 0) return success;
    Settings settings = settings_from_environment();
    if (settings.asked() || !settings.problems.empty())
      process.service = std::make_unique<Service>(recorder, std::move(settings), say);
    else
      say(false,
          "neither WEFT_PROFILER_DIR nor WEFT_PROFILER_PORT nor WEFT_PROFILER_TEXTFILE is set: nothing is "
          "written");
  } catch (...) {  // no memory
    if (log != nullptr)
      log(log_warn, log_profile, "weft", 0, "PROFILER/weft: no memory; nothing is recorded");
  }
  return success;
}

int finish(void* context) noexcept {
  try {
    std::unique_ptr<Service> last;
    {
      const std::lock_guard lock(process.mutex);
      if (process.communicators > 0 && --process.communicators == 0) last = std::move(process.service);
    }
    // Its thread must be gone before NCCL unloads this code.
    last.reset();
    recorder.remove(communicator_of(context));
  } catch (...) {
  }
  return success;
}

int stop(void* handle) noexcept {
  try {
    recorder.stop(number_of(handle));
  } catch (...) {
  }
  return success;
}

/// Calls make() for the number of a handle.
template <class Make>
int give(void** handle, Make&& make) noexcept {
  if (handle == nullptr) return success;
  *handle = nullptr;
  try {
    *handle = handle_of(make());
  } catch (...) {  // no memory for a communicator's operations
  }
  return success;
}

std::uint8_t type_in(std::uint8_t type) {
  return type;
}
std::uint8_t type_in(const char* word) {
  return type_of(word);
}

template <class Event>
Description collective_of(const Event& event) {
  return {.kind = kind_of(event.collective.function),
          .count = event.collective.count,
          .root = event.collective.root,
          .type = type_in(event.collective.datatype)};
}
template <class Event>
Description p2p_of(const Event& event) {
  return {.kind = kind_of(event.p2p.function),
          .count = event.p2p.count,
          .root = event.p2p.peer,
          .type = type_in(event.p2p.datatype)};
}

/// v1 to v3: the operation states its communicator.
template <class Event>
int start_early(void* context, void** handle, Event* event) noexcept {
  if (event == nullptr) return success;
  return give(handle, [&]() -> std::uint64_t {
    const std::uint64_t communicator = communicator_of(context);
    switch (event->type) {
      case event_collective:
        recorder.learn(communicator, event->collective.name, event->collective.hash, event->rank);
        return recorder.start(communicator, collective_of(*event));
      case event_p2p:
        recorder.learn(communicator, event->p2p.name, event->p2p.hash, event->rank);
        return recorder.start(communicator, p2p_of(*event));
      case event_proxy_operation:
        // A proxy may work for another process; then the parent is a handle of that process.
        return event->proxy.pid == getpid() ? recorder.start_part(number_of(event->parent)) : 0;
      case event_kernel_channel:
        return recorder.start_part(number_of(event->parent));
      default:
        return 0;
    }
  });
}

/// v4 to v7.
template <class Event>
int start_late(void* context, void** handle, Event* event) noexcept {
  if (event == nullptr) return success;
  return give(handle, [&]() -> std::uint64_t {
    const std::uint64_t communicator = communicator_of(context);
    Description description;
    switch (event->type) {
      case event_collective:
        description = collective_of(*event);
        description.parts = event->collective.channels;
        return recorder.start(communicator, description);
      case event_p2p:
        description = p2p_of(*event);
        description.parts = event->p2p.channels;
        return recorder.start(communicator, description);
      case event_kernel_channel:
        return recorder.start_part(number_of(event->parent), event->kernel.timer);
      default:
        return 0;
    }
  });
}

int record_early(void*, int, void*) noexcept {
  return success;
}
int record_late(void* handle, int state, StateV4* state_arguments) noexcept {
  try {
    if (state == kernel_stops && state_arguments != nullptr)
      recorder.time_part(number_of(handle), state_arguments->timer);
  } catch (...) {
  }
  return success;
}

/// v1 to v3 do not say how many ranks there are; launchers do, of the job. A smaller communicator has no flight record.
int ranks_of_job() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WEFT_SIZE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && std::atoi(value) > 0) return std::atoi(value);
  }
  return 0;
}

int init_v1(void** context, int* mask) noexcept {
  return begin(context, mask, mask_with_proxies, {.ranks = ranks_of_job()}, nullptr);
}
int init_v3(void** context, int* mask) noexcept {
  return begin(context, mask, mask_with_kernels, {.ranks = ranks_of_job()}, nullptr);
}

About about_of(const char* communicator, std::uint64_t hash, int nodes, int ranks, int rank) {
  const std::string_view name =
      communicator == nullptr ? std::string_view() : std::string_view(communicator).substr(0, 255);
  return {.name = std::string(name), .hash = hash, .ranks = ranks, .rank = rank, .nodes = nodes};
}
int init_v4(void** context, int* mask, const char* communicator, std::uint64_t hash, int nodes, int ranks,
            int rank, Logger log) noexcept try {
  return begin(context, mask, mask_with_kernels, about_of(communicator, hash, nodes, ranks, rank), log);
} catch (...) {
  return success;
}
int init_v5(void** context, std::uint64_t hash, int* mask, const char* communicator, int nodes, int ranks,
            int rank, Logger log) noexcept {
  return init_v4(context, mask, communicator, hash, nodes, ranks, rank, log);
}

}  // namespace
}  // namespace weft::profiler

extern "C" {

using namespace weft::profiler;
extern const ProfilerV1 ncclProfiler_v1;
extern const ProfilerV2 ncclProfiler_v2;
extern const ProfilerV3 ncclProfiler_v3;
extern const ProfilerV4 ncclProfiler_v4;
extern const ProfilerV5 ncclProfiler_v5;
extern const ProfilerV6 ncclProfiler_v6;
extern const ProfilerV7 ncclProfiler_v7;
const ProfilerV1 ncclProfiler_v1{own_name, init_v1, start_early<EventV1>, stop, record_early, finish};
const ProfilerV2 ncclProfiler_v2{own_name, init_v1, start_early<EventV2>, stop, record_early, finish};
const ProfilerV3 ncclProfiler_v3{own_name, init_v3, start_early<EventV3>, stop, record_early, finish};
const ProfilerV4 ncclProfiler_v4{own_name, init_v4, start_late<EventV4>, stop, record_late, finish};
const ProfilerV5 ncclProfiler_v5{own_name, init_v5, start_late<EventV5>, stop, record_late, finish};
const ProfilerV6 ncclProfiler_v6{own_name, init_v5, start_late<EventV5>, stop, record_late, finish};
const ProfilerV7 ncclProfiler_v7{{own_name, init_v5, start_late<EventV5>, stop, record_late, finish}, {}};
}
