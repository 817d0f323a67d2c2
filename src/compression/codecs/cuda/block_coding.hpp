#pragma once
// The codecs by blocks on a CUDA device: the steps of a bucket's exchange (hooks/blockwise_hook.cpp) as kernels, behind one interface, so that the
// code around them compiles and is tested without CUDA. All bits are those of the host, but for the bits of NaN.
//
// A call submits work to a stream and returns. Any thread may call. All throw Error (system) when the driver refuses a launch.

#include <memory>

#include "compression/codecs/block_kernel.hpp"
#include "core/streams/cuda_stream.hpp"

namespace weft::detail {

/// Before what each rank encoded: zero if its gradients can count.
inline constexpr std::int64_t part_header_bytes = 8;

/// A bucket whose gradients lie on a device. Part r of it, of `part` elements, is rank r's; the last parts may be shorter, or empty.
struct BlockCoding {
  BlockForm form;
  RandomKey own;    ///< of what this rank encodes, from the bucket's first block on
  RandomKey means;  ///< of means, which do not depend on ranks
  float* gradient = nullptr;
  std::int64_t count = 0;
  std::int64_t begin = 0;  ///< in the flat space
  std::int64_t part = 0;
  int ranks = 1;
  int rank = 0;
  /// Error feedback: what is added to gradients, and where what is lost is kept, of the whole flat space. Null without.
  const std::byte* errors = nullptr;
  std::byte* kept = nullptr;
  bool are_f32 = false;  ///< errors; otherwise blocks of i16

  std::int64_t part_bytes() const { return bytes_of(form.format, part); }
};

namespace cuda {

class BlockCodecKernels {
 public:
  virtual ~BlockCodecKernels() = default;
  BlockCodecKernels() = default;
  BlockCodecKernels(const BlockCodecKernels&) = delete;
  BlockCodecKernels& operator=(const BlockCodecKernels&) = delete;

  /// Encodes gradients + errors, a header and the encoded part for each rank. Without errors the gradients
  /// stay as they are. With errors the loss of encoding is kept; for this rank's own part it is left in the gradients.
  virtual void encode_parts(const BlockCoding& coding, std::byte* out, Place place) = 0;
  /// Encodes the mean of what all ranks encoded of this rank's part. Also keeps the loss of that.
  /// @param in a header and an encoded part from each rank
  /// @param mine if not null, gets the decoded mean
  /// @param bad set to 1 if a rank's gradients cannot count, otherwise left unchanged; host memory that kernels can write
  virtual void sum_mine(const BlockCoding& coding, const std::byte* in, std::byte* mean, float* mine,
                        std::int32_t* bad, Place place) = 0;
  /// Decodes the means of all parts into the gradients.
  virtual void decode_means(const BlockCoding& coding, const std::byte* means, Place place) = 0;
  /// Sets *bad to 1 if a gradient is NaN or its magnitude above 2^118.
  virtual void check(ConstView gradient, std::int32_t* bad, Place place) = 0;
  /// Sets *bad to 1 if *any is not 0. @param any on the device
  virtual void report(const std::int32_t* any, std::int32_t* bad, Place place) = 0;
};

/// The kernels in use. @throws Error (usage) in a build without CUDA
std::shared_ptr<BlockCodecKernels> block_code_kernels();

/// Replaces the kernels, for tests. Null: CUDA's own again.
void replace_block_code_kernels(std::shared_ptr<BlockCodecKernels> others);

}  // namespace cuda
}  // namespace weft::detail
