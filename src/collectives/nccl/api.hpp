#pragma once
// NCCL as a table of functions that is filled at run time, so that one build of weft runs with NCCL 2.18
// to 2.30, with none, and in tests with a fake.
//
// The types are NCCL's binary interface, written down here: weft is built without nccl.h, and functions newer
// than any header at hand can be called. Where nccl.h is there at build time, tests compare the two. A
// function is null when the library is older than the version it came with; ask before calling those newer
// than 2.18.
//
//   auto api = nccl::Api::load();                        // throws with what to do when there is none
//   if (api->CommShrink) ...                             // 2.27
//   api->AllReduce(in, out, count, type, op, comm, stream);

#include <climits>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "weft/collectives/nccl_options.hpp"

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace weft::detail::nccl {

struct Comm;
struct Window;
using Stream = CUstream_st*;

enum Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

struct UniqueId {
  char internal[128];
};

enum Type : int { i8 = 0, u8 = 1, i32 = 2, u32 = 3, i64 = 4, u64 = 5, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
/// `avg` is NCCL's own: it rounds 1/N to the data type. weft sums and scales in float.
enum Op : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };

constexpr int version_code(int major, int minor, int patch = 0) {
  return major * 10000 + minor * 100 + patch;
}
constexpr int oldest_version = version_code(2, 18);
/// "2.28.9"
std::string version_text(int code);

/// How a communicator is made. `size` and `version` say how much of it the library may read; a library that
/// knows more takes its defaults for the rest.
struct Config {
  static constexpr int undefined = INT_MIN;

  /// @param library version code of the library that will read it
  static Config for_library(int library);
  /// What is given, which expect_known() has looked at.
  void set(const NcclOptions& options);

  std::size_t size = 0;
  unsigned magic = 0xcafebeef;
  unsigned version = 0;
  int blocking = undefined;  // 2.14
  int cga_cluster_size = undefined;
  int min_ctas = undefined;
  int max_ctas = undefined;
  const char* net_name = nullptr;
  int split_share = undefined;      // 2.18
  int traffic_class = undefined;    // 2.26
  const char* comm_name = nullptr;  // 2.27 from here
  int collnet_enable = undefined;
  int cta_policy = undefined;
  int shrink_share = undefined;
  int nvls_ctas = undefined;
  int channels_per_net_peer = undefined;  // 2.28 from here
  int nvlink_centric_schedule = undefined;
};

/// @throws Error (usage) for a value that NCCL does not take, and for an option that this version does not have
void expect_known(const NcclOptions& options, int library);

constexpr int on_the_host = 1;       // where the scalar of RedOpCreatePreMulSum is
constexpr int no_color = -1;         // for CommSplit
constexpr int shrink_abort = 1;      // for CommShrink: end what is under way first
constexpr int window_symmetric = 1;  // for CommWindowRegister

// name, version it came with, parameters. All return Result but the two that return text.
// clang-format off
#define WEFT_NCCL_FUNCTIONS(F)                                                                                     \
  F(GetVersion, 21800, (int*))                                                                                     \
  F(GetUniqueId, 21800, (UniqueId*))                                                                               \
  F(CommInitRankConfig, 21800, (Comm**, int size, UniqueId, int rank, Config*))                                    \
  F(CommFinalize, 21800, (Comm*))                                                                                  \
  F(CommDestroy, 21800, (Comm*))                                                                                   \
  F(CommAbort, 21800, (Comm*))                                                                                     \
  F(CommSplit, 21800, (Comm*, int color, int key, Comm**, Config*))                                                \
  F(CommGetAsyncError, 21800, (Comm*, Result*))                                                                    \
  F(MemAlloc, 21900, (void**, std::size_t))                                                                        \
  F(MemFree, 21900, (void*))                                                                                       \
  F(CommRegister, 21900, (const Comm*, void*, std::size_t, void** handle))                                         \
  F(CommDeregister, 21900, (const Comm*, void* handle))                                                            \
  F(CommShrink, 22700, (Comm*, int* excluded, int count, Comm**, Config*, int flags))                              \
  F(CommWindowRegister, 22700, (Comm*, void*, std::size_t, Window**, int flags))                                   \
  F(CommWindowDeregister, 22700, (Comm*, Window*))                                                                 \
  F(CommRevoke, 22807, (Comm*, int flags))                                                                         \
  F(AllReduce, 21800, (const void*, void*, std::size_t, Type, Op, Comm*, Stream))                                  \
  F(ReduceScatter, 21800, (const void*, void*, std::size_t, Type, Op, Comm*, Stream))                              \
  F(AllGather, 21800, (const void*, void*, std::size_t, Type, Comm*, Stream))                                      \
  F(Broadcast, 21800, (const void*, void*, std::size_t, Type, int root, Comm*, Stream))                            \
  F(Reduce, 21800, (const void*, void*, std::size_t, Type, Op, int root, Comm*, Stream))                           \
  F(Send, 21800, (const void*, std::size_t, Type, int peer, Comm*, Stream))                                        \
  F(Recv, 21800, (void*, std::size_t, Type, int peer, Comm*, Stream))                                              \
  F(RedOpCreatePreMulSum, 21800, (Op*, void* scalar, Type, int residence, Comm*))                                  \
  F(AlltoAll, 22800, (const void*, void*, std::size_t, Type, Comm*, Stream))                                       \
  F(GroupStart, 21800, ())                                                                                         \
  F(GroupEnd, 21800, ())
// clang-format on

class Api {
 public:
  /// Finds a symbol by name; null when there is none.
  using Finder = std::function<void*(const char* symbol)>;

  /// From the system's libnccl.so.2, or from the file named. @throws Error (system) when it is missing or
  /// older than 2.18, with what to install
  static std::shared_ptr<const Api> load(const std::string& library = "libnccl.so.2");
  /// @param source where the symbols come from, for messages
  static std::shared_ptr<const Api> load(const Finder& find, const std::string& source);

  int version = 0;  ///< version_code of the library
  const char* (*GetErrorString)(Result) = nullptr;
  const char* (*GetLastError)(const Comm*) = nullptr;
#define WEFT_NCCL_MEMBER(name, since, parameters) Result(*name) parameters = nullptr;
  WEFT_NCCL_FUNCTIONS(WEFT_NCCL_MEMBER)
#undef WEFT_NCCL_MEMBER
};

}  // namespace weft::detail::nccl
