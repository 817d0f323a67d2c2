#pragma once
// The part of PyTorch's C++ interface that DeepSpeed's CPU Adam needs, over memory that the caller owns:
// so that the kernel can be timed where there is no PyTorch. Nothing is computed here.

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace c10 {

enum class ScalarType { Float, Half, BFloat16 };

struct Half {
  std::uint16_t x = 0;
  Half() = default;
  Half(float) { throw std::logic_error("the stand-in has no arithmetic of 16 bits"); }
  operator float() const { throw std::logic_error("the stand-in has no arithmetic of 16 bits"); }
};
struct BFloat16 {
  std::uint16_t x = 0;
  BFloat16() = default;
  BFloat16(float) { throw std::logic_error("the stand-in has no arithmetic of 16 bits"); }
  operator float() const { throw std::logic_error("the stand-in has no arithmetic of 16 bits"); }
};

template <class T>
struct CppTypeToScalarType;
template <>
struct CppTypeToScalarType<float> {
  constexpr operator ScalarType() const { return ScalarType::Float; }
};
template <>
struct CppTypeToScalarType<Half> {
  constexpr operator ScalarType() const { return ScalarType::Half; }
};
template <>
struct CppTypeToScalarType<BFloat16> {
  constexpr operator ScalarType() const { return ScalarType::BFloat16; }
};
inline const char* toString(ScalarType) {
  return "a type the stand-in does not name";
}

}  // namespace c10

namespace at {
inline c10::ScalarType typeMetaToScalarType(c10::ScalarType type) {
  return type;
}
}  // namespace at

namespace torch {

constexpr c10::ScalarType kFloat32 = c10::ScalarType::Float;

class Tensor {
 public:
  Tensor() = default;
  Tensor(float* data, std::int64_t count) : data_(data), count_(count) {}
  bool defined() const { return data_ != nullptr; }
  void* data_ptr() const { return data_; }
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(data_);
  }
  std::int64_t numel() const { return count_; }
  const Tensor& options() const { return *this; }
  c10::ScalarType dtype() const { return kFloat32; }
  c10::ScalarType scalar_type() const { return kFloat32; }
  const Tensor& contiguous() const { return *this; }
  bool is_contiguous() const { return true; }
  std::int64_t element_size() const { return sizeof(float); }

 private:
  void* data_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace torch

#define TORCH_CHECK(condition, ...) \
  if (!(condition)) throw std::runtime_error("TORCH_CHECK(" #condition ") failed")
