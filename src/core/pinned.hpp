#pragma once
// Host memory that a device copies to and from while the host and its kernels go on: its pages stay where
// they are. For the host as the device it is memory like any other.

#include "weft/core/buffer.hpp"

namespace weft::detail {

/// Zeroed. @throws Error (system) saying how many bytes were asked for, what is left of the machine's memory
/// or what may be locked, and what to do
Buffer pinned(Device device, DataType dtype, std::int64_t count);

/// The same memory as kernels and streams of the device have it: they reach it at its address, over the bus.
View on_device(Buffer& pinned, Device device);

}  // namespace weft::detail
