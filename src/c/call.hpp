#pragma once
// What each function of weft.h is made of: a call that nothing is thrown through, and checks of what C cannot say by its types.
//
//   weft_status_t weft_comm_barrier(weft_comm_t comm, weft_stream_t stream, weft_work_t* work) {
//     return call("weft_comm_barrier", [&] { give(work, comm_of(comm).barrier(stream_of(stream))); });
//   }

#include <chrono>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <utility>

#include "c/handles.hpp"
#include "weft/collectives/reduce_op.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/device.hpp"
#include "weft/core/dtype.hpp"
#include "weft/core/error.hpp"
#include "weft/weft.h"

namespace weft::c {

/// The status of an exception that is being handled, which becomes this thread's last error.
weft_status_t failed(const char* function) noexcept;
/// The same of an exception that was kept. @param why not null
weft_status_t failed(const char* function, const std::exception_ptr& why) noexcept;
weft_status_t status_of(ErrorKind kind) noexcept;
/// @throws Error (usage) for WEFT_OK and for what is no status
ErrorKind kind_of(weft_status_t status, const char* argument);
/// This thread's last error again, where it is of this kind; else one that says no more than the status.
Error error_of(weft_status_t status, const char* whose);

/// @param function its name in weft.h
template <class Body>
weft_status_t call(const char* function, Body&& body) noexcept {
  const Inside inside;
  try {
    body();
    return WEFT_OK;
  } catch (...) {
    return failed(function);
  }
}

/// The same for a function that returns a value. @param otherwise what it returns for an error
template <class Value, class Body>
Value ask(const char* function, Value otherwise, Body&& body) noexcept {
  const Inside inside;
  try {
    return static_cast<Value>(body());
  } catch (...) {
    failed(function);
    return otherwise;
  }
}

[[noreturn]] void refuse_null(const char* argument);
template <class Pointer>
Pointer* given(Pointer* pointer, const char* argument) {
  if (pointer == nullptr) refuse_null(argument);
  return pointer;
}

[[noreturn]] void refuse_word(const char* argument, int value, int last, const char* header);
/// @throws Error (usage), here and below, for a value that is none of its words
inline DataType dtype_of(int dtype) {
  if (dtype < 0 || dtype > static_cast<int>(last_data_type))
    refuse_word("dtype", dtype, static_cast<int>(last_data_type), "weft_dtype_t");
  return static_cast<DataType>(dtype);
}
inline ReduceOp op_of(int op) {
  if (op < 0 || op > static_cast<int>(last_reduce_op))
    refuse_word("op", op, static_cast<int>(last_reduce_op), "weft_op_t");
  return static_cast<ReduceOp>(op);
}
[[noreturn]] void refuse_device(int device);
inline Device device_of(int device) {
  if (device < WEFT_HOST) refuse_device(device);
  return device == WEFT_HOST ? Device::host() : Device::cuda(device);
}
inline int number_of(Device device) {
  return device.is_host() ? WEFT_HOST : device.index();
}

/// @throws Error (usage) for NaN and below 0; more than a clock counts is the most that it counts
std::chrono::nanoseconds duration_of(double seconds, const char* argument);
/// WEFT_NO_DEADLINE, and any other number below 0, is never.
Deadline deadline_of(double seconds);

[[noreturn]] void refuse_size(const char* name, std::size_t given, std::size_t known);
/// Options of this library's size, where missing fields are 0. @param older sizes that they had in earlier versions
/// @throws Error (usage) for any other size
template <class Options>
Options options_of(const Options* given, const char* name, std::initializer_list<std::size_t> older = {}) {
  Options known{};
  if (given == nullptr) return known;
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  bool is_known = size == sizeof(Options);
  for (const std::size_t one : older) is_known = is_known || size == one;
  if (!is_known) refuse_size(name, size, sizeof(Options));
  std::memcpy(static_cast<void*>(&known), given, size);
  return known;
}

}  // namespace weft::c
