#pragma once
// Stands in for CUDA's header where kernels are compiled for the host, as C++: the types, and the functions of a kernel that weft's
// kernels use, each with the same bits as on a device. What threads do together is in grid.hpp, the runtime library in runtime.cpp.
// What is not here is not emulated, and does not compile.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static  // one block of threads runs at a time
#define CUDART_VERSION 13000

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}  // NOLINT: as CUDA's
  unsigned x, y, z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) short4 {
  short x, y, z, w;
};

namespace weft::emulation {
/// Of the thread that runs now.
struct BuiltIn {
  uint3 thread{};
  uint3 block{};
  dim3 threads{};
  dim3 blocks{};
};
extern BuiltIn built_in;
}  // namespace weft::emulation
#define threadIdx (weft::emulation::built_in.thread)
#define blockIdx (weft::emulation::built_in.block)
#define blockDim (weft::emulation::built_in.threads)
#define gridDim (weft::emulation::built_in.blocks)

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorECCUncorrectable = 214,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorUnknown = 999,
};
struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
struct cudaDeviceProp {
  char name[256];
  struct {
    char bytes[16];
  } uuid;
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrSingleToDoublePrecisionPerfRatio = 87 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
using cudaGraph_t = struct CUgraph_st*;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDefault = 4 };
enum : unsigned {
  cudaStreamNonBlocking = 1,
  cudaEventDefault = 0,
  cudaEventDisableTiming = 2,
  cudaHostAllocPortable = 1,
  cudaHostAllocMapped = 2,
};

// CUDA's own library may be in the process, too, as PyTorch's dependency: these have names of their own.
// clang-format off
#define cudaGetLastError weft_emulated_cudaGetLastError
#define cudaGetErrorString weft_emulated_cudaGetErrorString
#define cudaGetDeviceCount weft_emulated_cudaGetDeviceCount
#define cudaGetDevice weft_emulated_cudaGetDevice
#define cudaSetDevice weft_emulated_cudaSetDevice
#define cudaGetDeviceProperties weft_emulated_cudaGetDeviceProperties
#define cudaDeviceGetAttribute weft_emulated_cudaDeviceGetAttribute
#define cudaDeviceSynchronize weft_emulated_cudaDeviceSynchronize
#define cudaStreamCreateWithFlags weft_emulated_cudaStreamCreateWithFlags
#define cudaStreamCreateWithPriority weft_emulated_cudaStreamCreateWithPriority
#define cudaDeviceGetStreamPriorityRange weft_emulated_cudaDeviceGetStreamPriorityRange
#define cudaStreamDestroy weft_emulated_cudaStreamDestroy
#define cudaStreamSynchronize weft_emulated_cudaStreamSynchronize
#define cudaStreamIsCapturing weft_emulated_cudaStreamIsCapturing
#define cudaStreamBeginCapture weft_emulated_cudaStreamBeginCapture
#define cudaStreamEndCapture weft_emulated_cudaStreamEndCapture
#define cudaThreadExchangeStreamCaptureMode weft_emulated_cudaThreadExchangeStreamCaptureMode
#define cudaGraphDestroy weft_emulated_cudaGraphDestroy
#define cudaStreamWaitEvent weft_emulated_cudaStreamWaitEvent
#define cudaLaunchHostFunc weft_emulated_cudaLaunchHostFunc
#define cudaEventCreateWithFlags weft_emulated_cudaEventCreateWithFlags
#define cudaEventDestroy weft_emulated_cudaEventDestroy
#define cudaEventRecord weft_emulated_cudaEventRecord
#define cudaEventQuery weft_emulated_cudaEventQuery
#define cudaEventElapsedTime weft_emulated_cudaEventElapsedTime
#define cudaFree weft_emulated_cudaFree
#define cudaFreeHost weft_emulated_cudaFreeHost
#define cudaMemGetInfo weft_emulated_cudaMemGetInfo
#define cudaMemset weft_emulated_cudaMemset
#define cudaMemsetAsync weft_emulated_cudaMemsetAsync
#define cudaMemcpyAsync weft_emulated_cudaMemcpyAsync
// clang-format on

extern "C" {
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t code);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaFree(void* memory);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int threads, std::size_t) {
  *blocks = 1024 / threads;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
/// As <<<>>> and cudaGetLastError(). The first launch of a kernel waits, in the call, until the device is idle: kernels are loaded when they are needed,
/// which "might require context synchronization" (CUDA C++ Programming Guide, "Lazy Loading", "Concurrent Execution").
/// @param kernel which one it is @param thread what each thread does
cudaError_t emulated_launch(const void* kernel, dim3 blocks, dim3 threads, cudaStream_t stream,
                            std::function<void()> thread);

namespace weft::emulation {

/// All threads of the block wait here for each other. @returns whether any gave `bad`
bool wait_for_block(bool any = false);
/// All lanes of the warp that `mask` names wait here for each other. @returns what lane `from` brought
std::uint64_t exchange_in_warp(unsigned mask, std::uint64_t mine, unsigned from);
/// Where accesses are recorded, an atomic one.
void access_atomically(const void* address, std::size_t bytes);

template <class T>
T shuffled(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  word = exchange_in_warp(mask, word, from);
  std::memcpy(&value, &word, sizeof(T));
  return value;
}
inline unsigned lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

}  // namespace weft::emulation

inline void __syncthreads() {
  weft::emulation::wait_for_block();
}
inline int __syncthreads_or(int any) {
  return weft::emulation::wait_for_block(any != 0) ? 1 : 0;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const unsigned me = weft::emulation::lane();
  const unsigned other = me ^ static_cast<unsigned>(lanes);
  const auto all = static_cast<unsigned>(width);
  return weft::emulation::shuffled(mask, value, other / all == me / all ? other : me);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
  const unsigned me = weft::emulation::lane();
  const auto all = static_cast<unsigned>(width);
  return weft::emulation::shuffled(mask, value, me % all + lanes < all ? me + lanes : me);
}
template <class T>
__attribute__((no_sanitize("thread"))) T atomicAdd(T* to, T value) {
  weft::emulation::access_atomically(to, sizeof(T));
  const T before = *to;
  *to = before + value;
  return before;
}

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}

// Compiled with -ffp-contract=off: each is one rounded operation.
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dsub_rn(double a, double b) {
  return a - b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
inline double __dsqrt_rn(double a) {
  return std::sqrt(a);
}
inline double __fma_rn(double a, double b, double c) {
  return std::fma(a, b, c);
}
inline float __double2float_rn(double a) {
  return static_cast<float>(a);
}
inline float __int_as_float(int bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline float __uint_as_float(unsigned bits) {
  return __int_as_float(static_cast<int>(bits));
}
inline unsigned __float_as_uint(float value) {
  unsigned bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
/// Saturates, and NaN is 0: as the device's instruction.
inline int __float2int_rn(float value) {
  if (std::isnan(value)) return 0;
  if (value >= 2147483648.0F) return INT32_MAX;
  if (value < -2147483648.0F) return INT32_MIN;
  return static_cast<int>(std::nearbyint(value));
}

using std::isfinite;
using std::isinf;
using std::isnan;
