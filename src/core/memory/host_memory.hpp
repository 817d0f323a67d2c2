#pragma once
// What a process can have of the host's memory: the size of its huge pages, how much is left, and memory
// whose pages stay where they are (pinned), so that a device copies to and from it while the host and its
// kernels go on.

#include <cstddef>
#include <optional>
#include <string>

#include "weft/core/buffer.hpp"

namespace weft::detail {

/// Bytes of a huge page: what an entry of the second-lowest page table level covers on x86-64, and on arm64
/// with pages of 4 KiB.
constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Bytes of an ordinary page.
std::size_t page_bytes();

/// Bytes that this process may still use before the system kills a process for lack of memory: the minimum of
/// what the machine has available and what the limits of this process's control groups (v1 and v2, a
/// container's among them) leave, and what `ulimit -v` leaves of the address space. File caches that the kernel would give up count as left. Null when the
/// system does not say.
/// @param root prefix of /proc and /sys, for tests
std::optional<std::size_t> memory_left(const std::string& root = "");

/// Zeroed pinned memory for `device`; for the host as the device it is ordinary memory.
/// @throws Error (system) with the bytes that were asked for, what is left of the machine's memory or what
/// may be locked, and what to do
Buffer pinned(Device device, DataType dtype, std::int64_t count);

/// The same memory as a view of the device: kernels and streams reach it over the bus at the same address.
View on_device(Buffer& pinned, Device device);

}  // namespace weft::detail
