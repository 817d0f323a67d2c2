#pragma once
// Owned memory and the view of it. Move-only; the destructor gives the memory back to where it came from.
//
// Host memory is aligned to 128 bytes: two cache lines, so that adjacent-line prefetch does not fetch another
// owner's. It is zeroed unless Contents::any is asked for. `Communicator::allocate` returns Buffers of the node heap, which peers on the node
// reach without a copy. The owner frees a Buffer only when no stream uses it any more.
//
//   Buffer gradients = comm.allocate(DataType::f32, layout.size());
//   comm.all_reduce(gradients.view(), ReduceOp::avg, stream);
//   stream.synchronize();                          // before `gradients` goes
//
// WRONG: comm.all_reduce(Buffer::on_host(dtype, n).view(), op, stream);   // freed while the stream uses it

#include <cstdint>
#include <functional>
#include <memory>

#include "weft/core/view.hpp"

namespace weft {

/// What lies in memory that is allocated.
enum class Contents : std::uint8_t {
  zeroed,
  any,  ///< zeros or what an earlier buffer of this process left: cheaper, for memory that is written before it is read
};

class Buffer {
 public:
  using Release = std::function<void(void*)>;

  Buffer() = default;
  /// Takes over `memory`, which `release` gives back.
  Buffer(View memory, Release release) : view_(memory), memory_(memory.data(), std::move(release)) {}

  /// Private host memory. @throws Error (usage) for a negative count, (system) without enough memory
  static Buffer on_host(DataType dtype, std::int64_t count, Contents contents = Contents::zeroed);
  /// Zeroed memory of `device`; for the host as on_host(). @throws Error (usage, system) that says why there
  /// is none
  static Buffer on(Device device, DataType dtype, std::int64_t count);
  static constexpr std::size_t alignment = 128;

  View view() { return view_; }
  ConstView view() const { return view_; }
  std::int64_t count() const { return view_.count(); }
  std::size_t size_bytes() const { return view_.size_bytes(); }
  template <class T>
  std::span<T> as() const {
    return view_.as<T>();
  }

 private:
  View view_;
  std::unique_ptr<void, Release> memory_{nullptr, [](void*) {}};
};

}  // namespace weft
