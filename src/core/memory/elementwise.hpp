#pragma once
// Element-wise arithmetic on gradients outside collectives, in the order of a stream. On a host stream the
// functions of on_host run, on a CUDA stream the kernels of cuda/kernels.cu; both give the same bits. Sums,
// products and quotients are taken in `Accumulate<T>` and rounded once. Each function reads and writes every
// element once.
//
// The views lie on the stream's device, and their memory stays until the stream has passed the work.

#include <cstdint>
#include <span>

#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"

namespace weft::detail {

/// data[i] /= divisor
void divide(View data, std::int64_t divisor, Stream stream);
/// data[i] *= factor
void scale(View data, double factor, Stream stream);
/// to[i] += from[i], of one data type
void add(View to, ConstView from, Stream stream);
/// to[i] = from[i] in the data type of `to`; both floating-point
void cast(View to, ConstView from, Stream stream);
/// data[i] = value
void fill(View data, double value, Stream stream);
/// Copies the pieces one after the other to `flat`, which they fill; all have one data type.
void pack(View flat, RecycledVector<ConstView> pieces, Stream stream);
/// sums[b] = the sum of the squares of data[b * block ... (b + 1) * block), in f64; the last block may be
/// shorter. The order is fixed: element i of a block is added to partial sum i % 256, and the partial sums
/// are then added pairwise, the upper half to the lower, until one is left.
void square_sums(View sums, ConstView data, std::int64_t block, Stream stream);
/// counts[0] += how many elements are NaN, counts[1] += how many are infinite; `counts` is i64 on the same
/// device.
void count_bad(View counts, ConstView data, Stream stream);

namespace on_host {
void divide(View data, std::int64_t divisor);
void scale(View data, double factor);
void add(View to, ConstView from);
void cast(View to, ConstView from);
void square_sums(View sums, ConstView data, std::int64_t block);
void count_bad(View counts, ConstView data);
void fill(View data, double value);
void pack(View flat, std::span<const ConstView> pieces);
}  // namespace on_host

}  // namespace weft::detail
