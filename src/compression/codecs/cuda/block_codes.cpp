// Launches the kernels of block_codes.cu, in builds with CUDA.

#include "compression/codecs/cuda/block_codes.hpp"

#include "core/cuda/replaceable.hpp"
#include "weft/core/error.hpp"
#if WEFT_HAS_CUDA
#include "compression/codecs/cuda/block_codes_launch.hpp"
#endif

namespace weft::detail::cuda {
namespace {

#if WEFT_HAS_CUDA
class BlockCodeDriver final : public BlockCodeKernels {
 public:
  void encode_parts(const BlockCodes& codes, std::byte* out, Place place) override {
    launch("encode_parts", place, [&](auto stream) { return kernels::encode_parts(codes, out, stream); });
  }
  void sum_mine(const BlockCodes& codes, const std::byte* in, std::byte* mean, float* mine, std::int32_t* bad,
                Place place) override {
    launch("sum_mine", place,
           [&](auto stream) { return kernels::sum_mine(codes, in, mean, mine, bad, stream); });
  }
  void decode_means(const BlockCodes& codes, const std::byte* means, Place place) override {
    launch("decode_means", place, [&](auto stream) { return kernels::decode_means(codes, means, stream); });
  }
  void check(ConstView gradient, std::int32_t* bad, Place place) override {
    launch("check", place, [&](auto stream) { return kernels::check_coded(gradient, bad, stream); });
  }
  void report(const std::int32_t* any, std::int32_t* bad, Place place) override {
    launch("report", place, [&](auto stream) { return kernels::report(any, bad, stream); });
  }

 private:
  template <class Launch>
  static void launch(const char* kernel, Place place, Launch launch) {
    const std::shared_ptr<Runtime> cuda = runtime();
    const Current current(*cuda, place.device);
    const cudaError_t code = launch(place.stream);
    if (code == cudaSuccess) return;
    cudaGetLastError();  // clears it: it is reported here
    throw Error(ErrorKind::system,
                text("cannot launch ", kernel, " of codes on ", Device::cuda(place.device),
                     ": CUDA: ", cudaGetErrorString(code)),
                "the driver's log (dmesg, Xid) may say more");
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
