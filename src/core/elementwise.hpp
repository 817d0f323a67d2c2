#pragma once
// Element-wise work on gradients outside collectives, in the order of a stream, on the host or on the
// stream's CUDA device: the host functions are the kernels' twins, bit by bit. Sums, products and quotients
// are taken in `Accumulate<T>` and rounded once.
//
// The views lie on the stream's device and stay until the stream has passed the work.

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
/// The pieces one after the other into `flat`, which they fill; all of one data type.
void pack(View flat, RecycledVector<ConstView> pieces, Stream stream);
/// sums[b] = the sum of the squares of data[b * block ... (b + 1) * block), the last block being what is
/// left; in f64 by one fixed order: element i of a block goes to partial sum i % 256, in turn, and those are
/// added by halves.
void square_sums(View sums, ConstView data, std::int64_t block, Stream stream);
/// counts[0] += how many of `data` are NaN, counts[1] += infinite; `counts` is i64 where the stream works.
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
