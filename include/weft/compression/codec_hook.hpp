#pragma once
// Gradients travel as codes: any codec as a CommHook.
//
//   GradientReducer reducer(comm, layout, {.hook = codec_hook(int8_codec())});
//   GradientReducer other(comm, layout, {.hook = codec_hook(codec_named("top-k:0.01"))});
//
// What goes over the wire is the codec's algebra. Blockwise: every rank sends each other the codes of its
// part (all_to_all), sums them in f32 in rank order, divides, encodes the mean, and sends it to all
// (all_gather): 2 (N-1)/N times the code's bytes, of parts of whole blocks, and 8 for each other rank. Where
// ranks keep a part each, the first half of that, and of the same buckets bitwise the same means. Linear: an
// all_reduce(avg) of codes. Whole: an all_gather, and every rank sums all.
//
// With error feedback a rank adds to its gradients what codes lost before, its own and, of the part whose
// mean it encodes, that of the mean: the mean that comes out, and the mean over ranks of the errors, are the
// mean that should have come out. Other buckets have other owners, which changes later roundings, no sum.
//
// A step in which any rank has NaN, Inf or more than 2^118 gives NaN there (by blocks: in all of the block;
// a sparse code: where it was chosen) and counts as if it had never been: neither errors nor what is left to
// chance remember it.
//
// Gradients are f32 in host memory. For others, chain: cast_hook(DataType::f32, codec_hook(...)). Codes and
// sums are work of the wire's stream. Memory: twice the code's bytes (whole: N times), and the errors.
//
// WRONG: one hook for two reducers. It remembers steps and errors of one.

#include <cstdint>
#include <memory>

#include "weft/compression/codec.hpp"
#include "weft/compression/error_feedback.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {

/// The same on every rank.
struct CodecHookOptions {
  /// What codes lose is kept, and sent later: error feedback.
  KeptAs residual = KeptAs::sixteen_bits;
  /// Steps before are all-reduced as they are; steps that count, from 0.
  std::uint64_t start_step = 0;
};

std::shared_ptr<CommHook> codec_hook(std::shared_ptr<const Codec> codec, CodecHookOptions options = {});

}  // namespace weft
