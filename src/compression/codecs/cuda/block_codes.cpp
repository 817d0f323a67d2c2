// Launches the kernels of block_codes.cu, in builds with CUDA.

#include "compression/codecs/cuda/block_codes.hpp"

#include "core/cuda/replaceable.hpp"
#if WEFT_HAS_CUDA
#include "compression/codecs/cuda/block_codes_launch.hpp"
#include "core/cuda/launched.hpp"
#endif

namespace weft::detail::cuda {
namespace {

#if WEFT_HAS_CUDA
class BlockCodeDriver final : public BlockCodeKernels {
 public:
  void encode_parts(const BlockCodes& codes, std::byte* out, Place place) override {
    launch_at(place, "encode_parts of codes",
              [&](auto stream) { return kernels::encode_parts(codes, out, stream); });
  }
  void sum_mine(const BlockCodes& codes, const std::byte* in, std::byte* mean, float* mine, std::int32_t* bad,
                Place place) override {
    launch_at(place, "sum_mine of codes",
              [&](auto stream) { return kernels::sum_mine(codes, in, mean, mine, bad, stream); });
  }
  void decode_means(const BlockCodes& codes, const std::byte* means, Place place) override {
    launch_at(place, "decode_means of codes",
              [&](auto stream) { return kernels::decode_means(codes, means, stream); });
  }
  void check(ConstView gradient, std::int32_t* bad, Place place) override {
    launch_at(place, "check of codes",
              [&](auto stream) { return kernels::check_coded(gradient, bad, stream); });
  }
  void report(const std::int32_t* any, std::int32_t* bad, Place place) override {
    launch_at(place, "report of codes", [&](auto stream) { return kernels::report(any, bad, stream); });
  }
};
#endif

std::shared_ptr<BlockCodeKernels> make_default() {
#if WEFT_HAS_CUDA
  return std::make_shared<BlockCodeDriver>();
#else
  refuse_without_cuda("a codec on a CUDA device");
#endif
}

Replaceable<BlockCodeKernels>& kernels_in_use() {
  static Replaceable<BlockCodeKernels> kernels(make_default);
  return kernels;
}

}  // namespace

std::shared_ptr<BlockCodeKernels> block_code_kernels() {
  return kernels_in_use().in_force();
}

void replace_block_code_kernels(std::shared_ptr<BlockCodeKernels> others) {
  kernels_in_use().replace(std::move(others));
}

}  // namespace weft::detail::cuda
