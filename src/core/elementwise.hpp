#pragma once
// Element-wise work on gradients outside collectives, in the order of a stream, on the host or on the
// stream's CUDA device: the host functions are the kernels' twins, bit by bit. Sums, products and quotients
// are taken in `Accumulate<T>` and rounded once.
//
// The views lie on the stream's device and stay until the stream has passed the work.

#include <cstdint>
#include <span>

#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"

namespace weft::detail {

/// data[i] /= divisor
void divide(View data, std::int64_t divisor, Stream stream);
/// data[i] *= factor
void scale(View data, double factor, Stream stream);
/// to[i] = from[i] in the data type of `to`; both floating-point
void cast(View to, ConstView from, Stream stream);
/// data[i] = value
void fill(View data, double value, Stream stream);
/// The pieces one after the other into `flat`, which they fill; all of one data type.
void pack(View flat, std::vector<ConstView> pieces, Stream stream);

namespace on_host {
void divide(View data, std::int64_t divisor);
void scale(View data, double factor);
void cast(View to, ConstView from);
void fill(View data, double value);
void pack(View flat, std::span<const ConstView> pieces);
}  // namespace on_host

}  // namespace weft::detail
