#pragma once
// What NCCL looks for in a profiler: one structure of functions for each version of the interface, under the name ncclProfiler_vN. NCCL takes the
// highest that it knows. Facts of NCCL's source, src/include/plugin/profiler/profiler_v1.h to profiler_v6.h of 2.30.7, profiler_v7.h of 2.31.2:
//
//   asked for by NCCL 2.23: v1   2.24 and 2.25: v2   2.26: v3   2.27: v4   2.28: v5   2.29 and 2.30: v6   2.31: v7   (and older ones after it)
//
//   v1  init is told nothing of the communicator; an operation states its hash and name; its words are numbers
//   v2  words are text; no operator of a reduction
//   v3  events of kernel channels
//   v4  init states name, hash, ranks and rank, and events no more do; a kernel channel has times of the GPU's clock
//   v5  the type of an event is 64 bits wide; init takes the hash in front; events of calls, groups and launches
//   v6  events of the copy engine
//   v7  tags of calls, names of kernels, phases of a kernel: all behind what v5 has
//
// - startEvent may leave the handle null; NCCL then calls nothing else for that event (profiler.cc of 2.30.7, lines 549 and 592). Handles are opaque.
// - A collective's stopEvent says that it was enqueued, no more (enqueue.cc, line 1443). Its end is that of its kernel channels, which a proxy thread
//   reports (profiler.cc, lines 679 and 694), and of its proxy operations, which may be those of another process: `pid` says whose (line 576).
// - NCCL goes on without the profiler where init fails, and does not look at what other functions return (profiler.cc, lines 250 and 500).
// - finalize comes once for each communicator, and the library is unloaded after the last (profiler.cc, lines 266 and 119).
//
// WRONG: to follow `parent` as a pointer: it may be a handle of another process. WRONG: to keep a thread or a signal's handler past the last
// finalize: their code is gone.

#include <cstddef>
#include <cstdint>

namespace weft::profiler {

/// ncclResult_t
inline constexpr int success = 0;

/// ncclDebugLogger_t
using Logger = void (*)(int level, unsigned long subsystem, const char* file, int line, const char* format,
                        ...);
inline constexpr int log_warn = 2;
inline constexpr int log_info = 3;
inline constexpr unsigned long log_profile = 0x4000;  // NCCL_PROFILE (nccl_common.h of 2.30.7, line 51)

/// Kinds of events: bits of the mask, and `type` of an event (nccl_profiler.h of 2.30.7, line 12).
inline constexpr int event_collective = 1 << 1;
inline constexpr int event_p2p = 1 << 2;
inline constexpr int event_proxy_operation = 1 << 3;
inline constexpr int event_kernel_channel = 1 << 6;

/// ncclProfilerKernelChStop, a state of an event.
inline constexpr int kernel_stops = 22;

extern "C" {

struct ProxyOperation {
  std::int32_t pid;
  std::uint8_t channel;
  int peer;
  int steps;
  int chunk;
  int sends;
};

/// v1. Numbers stand for function, type, algorithm and protocol.
struct EventV1 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      std::uint64_t hash;
      std::uint64_t number;
      std::uint8_t function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      std::uint8_t datatype;
      std::uint32_t op;
      std::size_t traffic;
      std::uint8_t channels;
      std::uint8_t warps;
      std::uint8_t algorithm;
      std::uint8_t protocol;
      int is_collnet;
      int is_nvls;
    } collective;
    struct {
      const char* name;
      std::uint64_t hash;
      std::uint8_t function;
      void* buffer;
      std::uint8_t datatype;
      std::size_t count;
      int peer;
    } p2p;
    ProxyOperation proxy;
  };
};

struct EventV2 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      std::uint64_t hash;
      std::uint64_t number;
      const char* function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      const char* datatype;
      std::size_t traffic;
      std::uint8_t channels;
      std::uint8_t warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    struct {
      const char* name;
      std::uint64_t hash;
      const char* function;
      void* buffer;
      const char* datatype;
      std::size_t count;
      int peer;
    } p2p;
    ProxyOperation proxy;
  };
};

struct EventV3 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      std::uint64_t hash;
      std::uint64_t number;
      const char* function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      const char* datatype;
      std::uint8_t channels;  ///< at most so many
      std::uint8_t warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    struct {
      const char* name;
      std::uint64_t hash;
      const char* function;
      void* buffer;
      const char* datatype;
      std::size_t count;
      int peer;
    } p2p;
    ProxyOperation proxy;
    struct {
      std::uint8_t channel;
    } kernel;
  };
};

struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t timer;  ///< nanoseconds of the GPU
};

struct EventV4 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      std::uint64_t number;
      const char* function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      const char* datatype;
      std::uint8_t channels;
      std::uint8_t warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    struct {
      const char* function;
      void* buffer;
      const char* datatype;
      std::size_t count;
      int peer;
      std::uint8_t channels;
    } p2p;
    ProxyOperation proxy;
    KernelChannel kernel;
  };
};

/// v5 to v7: later ones add kinds of events to the union, which are not asked for, and members behind these.
struct EventV5 {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      std::uint64_t number;
      const char* function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      const char* datatype;
      std::uint8_t channels;
      std::uint8_t warps;
      const char* algorithm;
      const char* protocol;
      void* group;
    } collective;
    struct {
      const char* function;
      void* buffer;
      const char* datatype;
      std::size_t count;
      int peer;
      std::uint8_t channels;
      void* group;
    } p2p;
    ProxyOperation proxy;
    KernelChannel kernel;
  };
};

/// What a state of an event states, in v4 to v6; before, no state that is used here states anything.
union StateV4 {
  std::size_t bytes;
  int appended;
  void* data;
  std::uint64_t timer;
};

}  // extern "C"

/// v1 to v3.
template <class Event>
struct EarlyProfiler {
  const char* name;
  int (*init)(void** context, int* mask);
  int (*start)(void* context, void** handle, Event*);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, void*);
  int (*finalize)(void* context);
};
using ProfilerV1 = EarlyProfiler<EventV1>;
using ProfilerV2 = EarlyProfiler<EventV2>;
using ProfilerV3 = EarlyProfiler<EventV3>;

/// v4 to v6, which differ in the order in which init is told what there is.
template <class Event, class... About>
struct LateProfiler {
  const char* name;
  int (*init)(void** context, About...);
  int (*start)(void* context, void** handle, Event*);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, StateV4*);
  int (*finalize)(void* context);
};
// init is told: the mask (to be set), the communicator's name and hash, numbers of nodes and ranks, the rank, the logger.
using ProfilerV4 = LateProfiler<EventV4, int*, const char*, std::uint64_t, int, int, int, Logger>;
using ProfilerV5 = LateProfiler<EventV5, std::uint64_t, int*, const char*, int, int, int, Logger>;
using ProfilerV6 = ProfilerV5;
/// Libraries that descend from NCCL have functions of their own behind v7's, for code on the device. They find none here.
struct ProfilerV7 {
  ProfilerV5 functions;
  const void* none[8];
};

}  // namespace weft::profiler
