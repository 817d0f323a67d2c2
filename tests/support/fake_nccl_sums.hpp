#pragma once
// The arithmetic of the fakes of NCCL: weft's own sums, in the order of ranks.

#include <cstring>
#include <vector>

#include "collectives/kernels/reduce_kernel.hpp"
#include "collectives/nccl/api.hpp"
#include "core/memory/elementwise.hpp"

namespace weft::test {

inline DataType fake_nccl_dtype(detail::nccl::Type type) {
  switch (type) {
    case detail::nccl::f64:
      return DataType::f64;
    case detail::nccl::f16:
      return DataType::f16;
    case detail::nccl::bf16:
      return DataType::bf16;
    case detail::nccl::i32:
      return DataType::i32;
    case detail::nccl::i64:
      return DataType::i64;
    case detail::nccl::i8:
      return DataType::i8;
    case detail::nccl::u8:
      return DataType::u8;
    case detail::nccl::u32:
      return DataType::u32;
    case detail::nccl::u64:
      return DataType::u64;
    default:
      return DataType::f32;
  }
}
inline std::size_t fake_nccl_size(detail::nccl::Type type) {
  return size_of(fake_nccl_dtype(type));
}

inline ReduceOp fake_nccl_op(detail::nccl::Op op) {
  switch (op) {
    case detail::nccl::prod:
      return ReduceOp::prod;
    case detail::nccl::max:
      return ReduceOp::max;
    case detail::nccl::min:
      return ReduceOp::min;
    default:
      return ReduceOp::sum;
  }
}

// An operation that multiplies first (ncclRedOpCreatePreMulSum) is this and the divisor.
constexpr int fake_nccl_first_own_op = 1000;

/// @param scalar a Half on the host, 1/N
inline detail::nccl::Op fake_nccl_scaled_sum(const void* scalar) {
  const auto factor = static_cast<float>(*static_cast<const Half*>(scalar));
  return static_cast<detail::nccl::Op>(fake_nccl_first_own_op + static_cast<int>(1 / factor));
}

/// @param from what each rank brings, by rank
inline std::vector<std::byte> fake_nccl_sum(std::vector<const std::byte*> from, std::size_t count,
                                            detail::nccl::Type type, detail::nccl::Op op) {
  std::vector<std::byte> result(count * fake_nccl_size(type));
  if (count == 0) return result;
  const DataType dtype = fake_nccl_dtype(type);
  std::vector<std::vector<std::byte>> scaled;
  if (op >= fake_nccl_first_own_op) {
    for (const std::byte*& one : from) {
      scaled.emplace_back(one, one + result.size());
      detail::on_host::scale(View(scaled.back().data(), static_cast<std::int64_t>(count), dtype),
                             1.0 / (op - fake_nccl_first_own_op));
      one = scaled.back().data();
    }
  }
  std::byte* const to = result.data();
  detail::reduce(from, {std::span(&to, 1)}, static_cast<std::int64_t>(count), dtype, fake_nccl_op(op));
  return result;
}

}  // namespace weft::test
