// Launches the kernels of block_coding.cu, in builds with CUDA.

#include "compression/codecs/cuda/block_coding.hpp"

#include "core/cuda/replaceable.hpp"
#if WEFT_HAS_CUDA
#include "compression/codecs/cuda/block_coding_launch.hpp"
#include "core/cuda/launched.hpp"
#endif

namespace weft::detail::cuda {
namespace {

#if WEFT_HAS_CUDA
class BlockCodecDriver final : public BlockCodecKernels {
 public:
  void encode_parts(const BlockCoding& coding, std::byte* out, Place place) override {
    launch_at(place, "encode_parts (codec)",
              [&](auto stream) { return kernels::encode_parts(coding, out, stream); });
  }
  void sum_mine(const BlockCoding& coding, const std::byte* in, std::byte* mean, float* mine,
                std::int32_t* bad, Place place) override {
    launch_at(place, "sum_mine (codec)",
              [&](auto stream) { return kernels::sum_mine(coding, in, mean, mine, bad, stream); });
  }
  void decode_means(const BlockCoding& coding, const std::byte* means, Place place) override {
    launch_at(place, "decode_means (codec)",
              [&](auto stream) { return kernels::decode_means(coding, means, stream); });
  }
  void check(ConstView gradient, std::int32_t* bad, Place place) override {
    launch_at(place, "check (codec)",
              [&](auto stream) { return kernels::check_coded(gradient, bad, stream); });
  }
  void report(const std::int32_t* any, std::int32_t* bad, Place place) override {
    launch_at(place, "report (codec)", [&](auto stream) { return kernels::report(any, bad, stream); });
  }
};
#endif

std::shared_ptr<BlockCodecKernels> make_default() {
#if WEFT_HAS_CUDA
  return std::make_shared<BlockCodecDriver>();
#else
  refuse_without_cuda("a codec on a CUDA device");
#endif
}

Replaceable<BlockCodecKernels>& kernels_in_use() {
  static Replaceable<BlockCodecKernels> kernels(make_default);
  return kernels;
}

}  // namespace

std::shared_ptr<BlockCodecKernels> block_code_kernels() {
  return kernels_in_use().in_force();
}

void replace_block_code_kernels(std::shared_ptr<BlockCodecKernels> others) {
  kernels_in_use().replace(std::move(others));
}

}  // namespace weft::detail::cuda
