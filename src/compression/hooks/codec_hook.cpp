// The hooks of linear and whole codecs, and the choice of a hook by the codec's algebra.

#include "weft/compression/codec_hook.hpp"

#include <algorithm>

#include "compression/hooks/codec_hook_base.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

using detail::CodecHookBase;

/// One all_reduce(avg) of what the codec makes. A last f32 behind it is 1 if this rank's gradients cannot count;
/// a mean other than 0 tells every rank. Bytes sent: 2 (N-1)/N (C + 4).
class LinearHook final : public CodecHookBase {
 public:
  using CodecHookBase::CodecHookBase;

 private:
  std::int64_t scratch_bytes(std::int64_t count, std::int64_t) const override {
    return codec().encoded_bytes(count) + static_cast<std::int64_t>(sizeof(float));
  }

  void exchange(const Job& job, Communicator& comm, Stream wire) override {
    const auto bytes = static_cast<std::size_t>(codec().encoded_bytes(job.gradient.count()));
    const auto floats = static_cast<std::int64_t>(bytes / sizeof(float));
    const View codes(job.scratch.data(), floats + 1, DataType::f32);
    const std::span encoded(job.scratch.bytes(), bytes);
    wire.run([=, this] {
      clear_gaps(job);
      const auto gradient = job.gradient.as<float>();
      codes.as<float>().back() = encode(encoded, gradient, job.position) ? 0.0F : 1.0F;
      if (feedback() != nullptr) feedback()->keep(gradient, job.position.begin);
    });
    comm.all_reduce(codes, ReduceOp::avg, wire);
    wire.run([=, this] {
      if (codes.as<float>().back() != 0) found_non_finite();
      codec().decode(job.gradient.as<float>(), encoded, job.position);
    });
  }
};

/// One all_gather of what the codec makes; every rank decodes and sums them in rank order. Eight bytes before each
/// are not zero if that rank's gradients cannot count. Bytes sent: (N-1) (C + 8), and N times the decoding.
class WholeHook final : public CodecHookBase {
 public:
  using CodecHookBase::CodecHookBase;

 private:
  static constexpr std::int64_t header_bytes = 8;

  std::int64_t scratch_bytes(std::int64_t count, std::int64_t ranks) const override {
    return ranks * (header_bytes + codec().encoded_bytes(count));
  }

  void exchange(const Job& job, Communicator& comm, Stream wire) override {
    const std::int64_t bytes = header_bytes + codec().encoded_bytes(job.gradient.count());
    const View all = job.scratch.slice(0, job.ranks * bytes);
    const View mine = all.slice(job.position.rank * bytes, bytes);
    wire.run([=, this] {
      clear_gaps(job);
      const auto gradient = job.gradient.as<float>();
      const bool good = encode(code_of(mine), gradient, job.position);
      std::fill_n(mine.bytes(), header_bytes, good ? std::byte{0} : std::byte{1});
      if (feedback() != nullptr) feedback()->keep(gradient, job.position.begin);
    });
    comm.all_gather(mine, all, wire);
    wire.run([=, this] { sum(job, all, bytes); });
  }

  void sum(const Job& job, View all, std::int64_t bytes) {
    const auto gradient = job.gradient.as<float>();
    for (int rank = 0; rank < job.ranks; ++rank) {
      const View one = all.slice(rank * bytes, bytes);
      if (*one.bytes() != std::byte{0}) found_non_finite();
      codec().decode(gradient, code_of(one), {job.position.step, rank, job.position.begin},
                     rank == 0 ? Into::set : Into::add);
    }
    for (float& value : gradient) value /= static_cast<float>(job.ranks);
  }

  static std::span<std::byte> code_of(const View& one) {
    return {one.bytes() + header_bytes, one.size_bytes() - header_bytes};
  }
};

}  // namespace

std::shared_ptr<CommHook> codec_hook(std::shared_ptr<const Codec> codec, CodecHookOptions options) {
  if (!codec) throw Error(ErrorKind::usage, "a codec hook without a codec", "give one, as fp16_codec()");
  switch (codec->algebra()) {
    case Algebra::blockwise:
      return detail::blockwise_hook(std::move(codec), options);
    case Algebra::linear:
      return std::make_shared<LinearHook>(std::move(codec), options);
    case Algebra::whole:
      return std::make_shared<WholeHook>(std::move(codec), options);
  }
  __builtin_unreachable();
}

}  // namespace weft
