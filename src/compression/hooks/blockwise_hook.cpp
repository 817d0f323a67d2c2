// The exchange of blockwise codecs. Every rank owns a part of each bucket:
//
// 1. encode_parts: a rank encodes its gradients, part by part.
// 2. all_to_all: the owner of a part receives it, compressed, from every rank.
// 3. sum_mine: the owner decodes and sums in f32 in rank order, divides by the number of ranks,
//    encodes the mean.
// 4. all_gather: every rank receives all means, compressed. With sharded means, 4 and 5 are left out.
// 5. decode_means: every rank decodes them.
//
// With N ranks and a bucket of C bytes, compressed, a rank sends (N-1)/N C bytes in step 2 and again in step 4.
// Eight bytes before each part of step 2 say whether the gradients were finite. Steps 1 and 3 work on tiles
// of 4096 elements, so that values, compressed values and sums stay in the first-level cache.

#include <algorithm>
#include <array>
#include <cstring>

#include "compression/codecs/cuda/block_coding.hpp"
#include "compression/hooks/codec_hook_base.hpp"
#include "core/base/round_up.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::int64_t header_bytes = part_header_bytes;
constexpr std::int64_t tile = 4096;  // elements that stay in the first-level cache; whole blocks
using Tile = std::array<float, tile>;

class BlockwiseHook final : public CodecHookBase {
 public:
  BlockwiseHook(std::shared_ptr<const Codec> coded, CodecHookOptions options)
      : CodecHookBase(std::move(coded), options) {
    if (tile % codec().block() == 0) return;
    throw Error(ErrorKind::usage,
                text("a encoded by blocks of ", codec().block(), " elements: ", codec().name()),
                text("use blocks that divide ", tile));
  }

 private:
  /// Equal parts of whole blocks; the last ones may be shorter, or empty.
  struct Parts {
    std::int64_t count;     ///< elements of the bucket
    std::int64_t elements;  ///< elements of a part
    std::int64_t bytes;     ///< bytes of an encoded part
    std::int64_t begin(std::int64_t rank) const { return std::min(count, rank * elements); }
    std::int64_t size(std::int64_t rank) const { return begin(rank + 1) - begin(rank); }
  };
  Parts parts(std::int64_t count, std::int64_t ranks) const {
    const std::int64_t block = granularity();  // errors are kept by blocks, too
    const std::int64_t blocks = ceil_div(count, block);
    const std::int64_t elements = ceil_div(blocks, ranks) * block;
    return {count, elements, codec().encoded_bytes(elements)};
  }

  std::int64_t scratch_bytes(std::int64_t count, std::int64_t ranks) const override {
    return 2 * ranks * (header_bytes + parts(count, ranks).bytes);
  }

  void exchange(const Job& job, Communicator& comm, Stream wire) override {
    const Parts parts = this->parts(job.gradient.count(), job.ranks);
    const std::int64_t sent = job.ranks * (header_bytes + parts.bytes);
    if (job.mine && job.mine->count() != parts.size(job.position.rank)) {
      throw Error(
          ErrorKind::usage,
          text(job.mine->count(), " of ", parts.count, " elements as the part of one of ", job.ranks,
               " ranks"),
          text("plan buckets of multiples of ", job.ranks * granularity(), " elements, with aligned()"));
    }
    const View out = job.scratch.slice(0, sent);
    const View in = job.scratch.slice(sent, sent);
    const View means = out.slice(0, job.ranks * parts.bytes);  // reused when the all_to_all is done
    const View my_mean = means.slice(job.position.rank * parts.bytes, parts.bytes);
    if (!job.gradient.device().is_host())
      return exchange_on_device(job, parts, {out, in, means, my_mean}, comm, wire);
    wire.run([=, this] { encode_parts(job, parts, out); });
    comm.all_to_all(out, in, wire);
    wire.run([=, this] { sum_mine(job, parts, in, my_mean); });
    if (job.mine) return;
    comm.all_gather(my_mean, means, wire);
    wire.run([=, this] { decode_means(job, parts, means); });
  }

  /// Memory of a bucket's exchange.
  struct Memory {
    View out, in, means, my_mean;
  };

  // The same steps as kernels.
  void exchange_on_device(const Job& job, const Parts& parts, const Memory& memory, Communicator& comm,
                          Stream wire) {
    const auto kernels = cuda::block_code_kernels();
    const auto place = cuda::place_of(wire);
    const BlockCoding coding = coding_of(job, parts);
    clear_gaps(job, wire);
    wire.run([=] { kernels->encode_parts(coding, memory.out.bytes(), place); });
    comm.all_to_all(memory.out, memory.in, wire);
    auto* const mine = job.mine ? static_cast<float*>(job.mine->data()) : nullptr;
    wire.run([=, flag = non_finite_flag()] {
      kernels->sum_mine(coding, memory.in.bytes(), memory.my_mean.bytes(), mine, flag, place);
    });
    if (job.mine) return;
    comm.all_gather(memory.my_mean, memory.means, wire);
    wire.run([=] { kernels->decode_means(coding, memory.means.bytes(), place); });
  }

  BlockCoding coding_of(const Job& job, const Parts& parts) {
    const BlockForm form = block_form(codec()).value();
    const auto [step, rank, begin] = job.position;
    BlockCoding coding{.form = form,
                       .own = random_key(form.seed, rank, step, begin / block_elements),
                       .means = random_key(form.seed, -1, step, begin / block_elements),
                       .gradient = static_cast<float*>(job.gradient.data()),
                       .count = parts.count,
                       .begin = begin,
                       .part = parts.elements,
                       .ranks = job.ranks,
                       .rank = rank};
    if (feedback() == nullptr) return coding;
    const ErrorFeedback::Places errors = feedback()->places();
    coding.errors = errors.committed;
    coding.kept = errors.next;
    coding.are_f32 = errors.are_f32;
    return coding;
  }

  /// Calls `visit(i, count)` for each tile of a part.
  template <class Visit>
  static void for_tiles(std::int64_t count, Visit visit) {
    for (std::int64_t i = 0; i < count; i += tile) visit(i, std::min(tile, count - i));
  }

  /// The encoded elements [i, i + count) within an encoded part.
  template <class Byte>
  std::span<Byte> code_of(Byte* encoded, std::int64_t i, std::int64_t count) const {
    return {encoded + codec().encoded_bytes(i), static_cast<std::size_t>(codec().encoded_bytes(count))};
  }

  static std::span<float> floats(const View& view, std::int64_t begin, std::int64_t count) {
    return view.slice(begin, count).as<float>();
  }

  // Errors of other ranks' parts are kept here. The error of this rank's own part stays in its gradients:
  // sum_mine adds the error of the mean, and keeps both.
  void encode_parts(const Job& job, const Parts& parts, View out) {
    clear_gaps(job);
    bool good = true;
    for (int rank = 0; rank < job.ranks; ++rank) {
      std::byte* encoded = out.bytes() + rank * (header_bytes + parts.bytes) + header_bytes;
      for_tiles(parts.size(rank), [&](std::int64_t i, std::int64_t count) {
        const auto values = floats(job.gradient, parts.begin(rank) + i, count);
        const CodingPosition position = at(job.position, parts.begin(rank) + i);
        good = encode(code_of(encoded, i, count), values, position) && good;
        if (feedback() != nullptr && rank != job.position.rank) feedback()->keep(values, position.begin);
      });
    }
    for (int rank = 0; rank < job.ranks; ++rank)
      std::memset(out.bytes() + rank * (header_bytes + parts.bytes), good ? 0 : 1, header_bytes);
  }

  void sum_mine(const Job& job, const Parts& parts, View in, View my_mean) {
    const auto from = [&](int rank) { return in.bytes() + rank * (header_bytes + parts.bytes); };
    for (int rank = 0; rank < job.ranks; ++rank) {
      if (*from(rank) != std::byte{0}) found_non_finite();
    }
    const std::int64_t begin = parts.begin(job.position.rank);
    for_tiles(parts.size(job.position.rank), [&](std::int64_t i, std::int64_t count) {
      alignas(64) Tile sums;
      alignas(64) Tile decoded;
      const std::span mean = std::span(sums).first(static_cast<std::size_t>(count));
      for (int rank = 0; rank < job.ranks; ++rank) {
        codec().decode(mean, code_of<const std::byte>(from(rank) + header_bytes, i, count),
                       {job.position.step, rank, job.position.begin + begin + i},
                       rank == 0 ? Into::set : Into::add);
      }
      for (float& value : mean) value /= static_cast<float>(job.ranks);
      // Rank -1: the random numbers do not depend on which rank owns a part.
      const CodingPosition position{job.position.step, -1, job.position.begin + begin + i};
      const auto encoded = code_of(my_mean.bytes(), i, count);
      codec().encode(encoded, mean, position);
      if (feedback() == nullptr && !job.mine) return;
      const std::span result = std::span(decoded).first(mean.size());
      codec().decode(result, encoded, position);
      if (feedback() != nullptr)
        keep_mine(job, floats(job.gradient, begin + i, count), mean, result, position);
      if (job.mine) std::ranges::copy(result, floats(*job.mine, i, count).begin());
    });
  }

  // Only the owner adds the error of the mean, so it adds it times the number of ranks: the mean over ranks
  // of what was added is then the error.
  void keep_mine(const Job& job, std::span<float> lost, std::span<const float> mean,
                 std::span<const float> decoded, const CodingPosition& position) {
    for (std::size_t i = 0; i < lost.size(); ++i)
      lost[i] += static_cast<float>(job.ranks) * (mean[i] - decoded[i]);
    feedback()->keep(lost, position.begin);
  }

  void decode_means(const Job& job, const Parts& parts, View means) {
    for (int rank = 0; rank < job.ranks; ++rank) {
      const std::int64_t begin = parts.begin(rank);
      if (parts.size(rank) == 0) continue;  // its begin, the bucket's end, is no multiple of a block
      const std::byte* encoded = means.bytes() + rank * parts.bytes;
      codec().decode(floats(job.gradient, begin, parts.size(rank)), code_of(encoded, 0, parts.size(rank)),
                     {job.position.step, -1, job.position.begin + begin});
    }
  }

  static CodingPosition at(CodingPosition position, std::int64_t offset) {
    position.begin += offset;
    return position;
  }
};

}  // namespace

std::shared_ptr<CommHook> blockwise_hook(std::shared_ptr<const Codec> codec, CodecHookOptions options) {
  return std::make_shared<BlockwiseHook>(std::move(codec), options);
}

}  // namespace weft::detail
