#pragma once
// A job's tensors for tests: each rank has a range of every one, cut at other places for each number of ranks.

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/draw.hpp"
#include "weft/checkpoint/piece.hpp"
#include "weft/core/buffer.hpp"

namespace weft::test {

/// A tensor whole, in memory: the obvious twin.
struct WholeTensor {
  std::string name;
  DataType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
  std::int64_t count() const { return static_cast<std::int64_t>(bytes.size() / size_of(dtype)); }
};

inline std::vector<WholeTensor> random_tensors(std::uint64_t seed, std::int64_t largest = 400000) {
  Draw draw(seed);
  std::vector<WholeTensor> all;
  for (int i = 0; i < 6; ++i) {
    WholeTensor one{"layer" + std::to_string(i) + ".weight", DataType::f32, {}, {}};
    one.dtype = draw.one_of({DataType::f32, DataType::bf16, DataType::u8, DataType::f64, DataType::i64});
    const std::int64_t columns = 1 + draw.below(700);
    one.shape = i == 0
                    ? std::vector<std::int64_t>{}
                    : std::vector{std::max<std::int64_t>(1, draw.below(static_cast<int>(largest)) / columns),
                                  columns};
    const std::int64_t count =
        std::accumulate(one.shape.begin(), one.shape.end(), std::int64_t{1}, std::multiplies());
    one.bytes.resize(static_cast<std::size_t>(count) * size_of(one.dtype));
    for (std::size_t k = 0; k < one.bytes.size(); k += 8) {
      const std::uint64_t word = mixed(seed * 1000003 + static_cast<std::uint64_t>(i) * 7919 + k);
      std::memcpy(&one.bytes[k], &word, std::min<std::size_t>(8, one.bytes.size() - k));
    }
    all.push_back(std::move(one));
  }
  return all;
}

/// Where rank r of n begins; of uneven lengths, some empty.
inline std::int64_t cut(std::int64_t count, int rank, int ranks) {
  if (rank >= ranks) return count;
  return count * rank * rank / (ranks * ranks);
}

inline std::vector<checkpoint::Piece> pieces_of(const std::vector<WholeTensor>& all, int rank, int ranks) {
  std::vector<checkpoint::Piece> pieces;
  for (const WholeTensor& one : all) {
    const std::int64_t first = cut(one.count(), rank, ranks);
    const ConstView whole(one.bytes.data(), one.count(), one.dtype);
    pieces.push_back(
        {one.name, one.shape, first, whole.slice(first, cut(one.count(), rank + 1, ranks) - first)});
  }
  return pieces;
}

}  // namespace weft::test
