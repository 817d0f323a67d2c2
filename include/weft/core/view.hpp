#pragma once
// A typed span of memory that it does not own: pointer, count of elements, data type, device.
//
// Counts are elements, never bytes. A caller that passes a view to an operation keeps the memory alive, and
// does not touch it, until the operation's stream has passed it. `ConstView` is a View that is only read; a
// View converts to it.
//
//   std::vector<float> gradients(n);
//   comm.all_reduce(View(std::span(gradients)), ReduceOp::sum, stream);
//   stream.synchronize();                         // only now may `gradients` be read or freed
//
// WRONG: View view = View(std::span(make_vector()));   // the vector is freed before the view is used

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/core/device.hpp"
#include "weft/core/dtype.hpp"
#include "weft/core/error.hpp"

namespace weft {

namespace detail {

template <class Void, class Byte>
class BasicView {
 public:
  constexpr BasicView() = default;
  BasicView(Void* data, std::int64_t count, DataType dtype, Device device = {})
      : data_(data), count_(count), dtype_(dtype), device_(device) {
    if (count < 0 || (data == nullptr && count > 0)) {
      throw Error(ErrorKind::usage,
                  text("a view of ", count, " elements at address ", static_cast<const void*>(data)),
                  "counts are >= 0 and only an empty view may have no memory");
    }
  }

  constexpr Void* data() const { return data_; }
  constexpr Byte* bytes() const { return static_cast<Byte*>(data_); }
  constexpr std::int64_t count() const { return count_; }
  constexpr DataType dtype() const { return dtype_; }
  constexpr Device device() const { return device_; }
  constexpr std::size_t size_bytes() const { return static_cast<std::size_t>(count_) * size_of(dtype_); }
  constexpr bool empty() const { return count_ == 0; }

  /// `count` elements from element `offset`. @throws Error (usage) outside the view
  BasicView slice(std::int64_t offset, std::int64_t count) const {
    if (offset < 0 || count < 0 || offset > count_ - count) {
      throw Error(ErrorKind::usage,
                  text("slice [", offset, ", ", offset + count, ") of a view of ", count_, " elements"));
    }
    return BasicView(bytes() + static_cast<std::size_t>(offset) * size_of(dtype_), count, dtype_, device_);
  }

  /// The elements as T. @throws Error (usage) when T is not the view's data type, or for memory of a device
  template <class T>
  std::span<T> as() const {
    if (data_type_of<T> != dtype_ || !device_.is_host()) {
      throw Error(ErrorKind::usage,
                  text("a ", dtype_, " view on ", device_, " read as ", data_type_of<T>, " on the host"));
    }
    return {static_cast<T*>(data_), static_cast<std::size_t>(count_)};
  }

 private:
  Void* data_ = nullptr;
  std::int64_t count_ = 0;
  DataType dtype_ = DataType::f32;
  Device device_;
};

}  // namespace detail

class View : public detail::BasicView<void, std::byte> {
 public:
  using BasicView::BasicView;
  View(const BasicView& base) : BasicView(base) {}  // NOLINT: slice() of a View is a View
  View slice(std::int64_t offset, std::int64_t count) const { return BasicView::slice(offset, count); }
  template <class T, std::size_t Extent>
  requires(!std::is_const_v<T>) explicit View(std::span<T, Extent> elements)
      : BasicView(elements.data(), static_cast<std::int64_t>(elements.size()), data_type_of<T>) {}
};

class ConstView : public detail::BasicView<const void, const std::byte> {
 public:
  using BasicView::BasicView;
  ConstView(const BasicView& base) : BasicView(base) {}  // NOLINT
  ConstView(const View& view)                            // NOLINT: memory that may be written may be read
      : BasicView(view.data(), view.count(), view.dtype(), view.device()) {}
  template <class T, std::size_t Extent>
  explicit ConstView(std::span<T, Extent> elements)
      : BasicView(elements.data(), static_cast<std::int64_t>(elements.size()), data_type_of<T>) {}
};

}  // namespace weft
