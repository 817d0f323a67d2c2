#pragma once
// A CommHook for any codec: gradients are compressed, exchanged, and decompressed.
//
//   GradientReducer reducer(comm, layout, {.hook = codec_hook(int8_codec())});
//   GradientReducer other(comm, layout, {.hook = codec_hook(codec_named("top-k:0.01"))});
//
// The codec's algebra decides which collectives carry a bucket. A compressed bucket has C bytes; there are N
// ranks:
// - blockwise: each rank owns a part. It receives that part of every rank, compressed (all_to_all), decodes
//   them,
//   sums in f32 in rank order, divides, encodes the mean, and sends it to all (all_gather). A rank sends
//   2 (N-1)/N C bytes, rounded up to whole blocks, and 8 bytes to each other rank. With sharded means the
//   second half is left out; the same buckets then have bitwise the same means.
// - linear: an all_reduce(avg) of the compressed buckets.
// - whole: an all_gather of all compressed buckets; every rank decodes and sums all of them.
//
// Error feedback: a rank keeps what the codec lost of its gradient and adds it to its next gradient. The
// owner of a part also keeps what the codec lost of the mean, times N. The decoded mean plus the mean over
// ranks of the errors is the exact mean. Other bucket boundaries give parts to other owners: later roundings
// change then, no sum does.
//
// If any rank has NaN, Inf or a magnitude above 2^118, the step's means are NaN there (blockwise: in the
// whole block; sparse: in elements that were chosen). Such a step does not count: neither the errors nor the
// step number, which random choices depend on, change.
//
// Gradients are f32, in host memory or, with the codecs by blocks (fp16, bf16, fp8, int8, int4, fp4), on a CUDA device,
// whose kernels give the host's bits. For other types, chain: cast_hook(DataType::f32, codec_hook(...)).
// Encoding and summing are work of the wire stream. Memory: twice the compressed bytes (whole: N times), and
// the errors.
//
// WRONG: one hook for two reducers. A hook holds the steps and errors of one.

#include <cstdint>
#include <memory>

#include "weft/compression/codec.hpp"
#include "weft/compression/error_feedback.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {

/// Must be the same on every rank.
struct CodecHookOptions {
  /// How error feedback stores what the codec lost; KeptAs::nothing turns it off.
  KeptAs residual = KeptAs::sixteen_bits;
  /// Earlier steps are reduced uncompressed. Only steps that count are numbered, from 0.
  std::uint64_t start_step = 0;
};

std::shared_ptr<CommHook> codec_hook(std::shared_ptr<const Codec> codec, CodecHookOptions options = {});

}  // namespace weft
