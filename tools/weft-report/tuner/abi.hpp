#pragma once
// What NCCL looks for in a tuner: one structure of functions for each version of the interface, under the name ncclTunerPlugin_vN. NCCL takes the
// highest that it knows. Facts of NCCL's source, src/include/plugin/tuner/tuner_v2.h to tuner_v6.h of 2.30.7 (2.21.5: src/include/nccl_tuner.h):
//
//   asked for by NCCL 2.21: v2   2.22 and 2.23: v3, v2   2.24 to 2.27: v4 to v2   2.28 and 2.29: v5 to v2   2.30: v6 to v2
//
// - `cost` is declared float** there, and is the address of a flat table of floats: row = algorithm, column = protocol (enqueue.cc of 2.30.7, line
//   2137). Microseconds, or `cannot_run` where this communicator has no such algorithm. NCCL takes the least entry that is not negative (line 2038).
// - `channels` comes in as 0, which is NCCL's own choice; whatever else stands there is taken, unchecked (line 2178).
// - NCCL calls init and finalize once for each communicator, and fails that communicator where one of them fails (init.cc, lines 1641 and 2775).
//
// WRONG: reading `cost` as an array of pointers. WRONG: setting `channels` where no choice was made: NCCL would use that many.

#include <cstddef>
#include <cstdint>

namespace weft::tuner {

/// ncclResult_t
inline constexpr int success = 0;
/// NCCL_ALGO_PROTO_IGNORE
inline constexpr float cannot_run = -1.0F;
/// NCCL_ALGO_UNDEF and NCCL_PROTO_UNDEF
inline constexpr int undefined = -1;

/// ncclDebugLogger_t; levels are ncclDebugLogLevel, subsystems ncclDebugLogSubSys.
using Logger = void (*)(int level, unsigned long subsystem, const char* file, int line, const char* format,
                        ...);
inline constexpr int log_warn = 2;
inline constexpr int log_info = 3;
inline constexpr unsigned long log_tuning = 0x40;

extern "C" {

/// Until 2.21 there is no table: the choice is taken as it is. collnet and nvls say whether NCCL could run them.
struct TunerV2 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t nodes, Logger, void** context);
  int (*choose)(void* context, int collective, std::size_t bytes, int collnet, int nvls, int pipe_ops,
                int* algorithm, int* protocol, int* channels);
  int (*finalize)(void* context);
};

struct TunerV3 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t nodes, Logger, void** context);
  int (*choose)(void* context, int collective, std::size_t bytes, int pipe_ops, float** cost, int algorithms,
                int protocols, int* channels);
  int (*finalize)(void* context);
};

/// registered: whether NCCL could register the user's buffers.
struct TunerV4 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t nodes, Logger, void** context);
  int (*choose)(void* context, int collective, std::size_t bytes, int pipe_ops, float** cost, int algorithms,
                int protocols, int registered, int* channels);
  int (*finalize)(void* context);
};

/// NVLink's domains, and the constants of NCCL's cost model, could be read and the constants changed; weft does neither.
struct TunerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Logger,
              void* domains, void* constants);
  int (*choose)(void* context, int collective, std::size_t bytes, int pipe_ops, float** cost, int algorithms,
                int protocols, int registered, int* channels);
  int (*finalize)(void* context);
};

struct TunerV6 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Logger,
              void* domains, void* constants);
  int (*choose)(void* context, int collective, std::size_t bytes, int pipe_ops, float** cost, int algorithms,
                int protocols, int registered, int* channels);
  int (*finalize)(void* context);
  /// None: NCCL keeps its own chunk size (enqueue.cc of 2.30.7, line 2308).
  int (*chunk_size)(void* context, int collective, std::size_t bytes, int algorithm, int protocol,
                    int channels, std::size_t* chunk);
};

}  // extern "C"

}  // namespace weft::tuner
