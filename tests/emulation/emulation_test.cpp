// What the emulation of kernels refuses, and kernels over more memory than there is: the last blocks of a large grid run over
// sparse memory, where an index of 32 bits goes elsewhere.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "compression/codecs/cuda/block_coding.hpp"
#include "compression/power_sgd/low_rank_jobs.hpp"
#include "core/cuda/runtime.hpp"
#include "core/memory/elementwise.hpp"
#include "emulation/faulty_kernels.hpp"
#include "emulation/grid.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/stream.hpp"
#include "weft/interop/cuda.hpp"
#include "zero/update/exact_sum.hpp"
#include "zero/update/float_pair.cuh"
#include "zero/update/update_cuda.hpp"

namespace weft::emulation {
namespace {

struct Ran {
  std::string fault;
  std::vector<int> sums;
};

Ran ran(Bug bug, unsigned blocks = 3) {
  std::vector<int> numbers(std::size_t{64} * blocks);
  std::iota(numbers.begin(), numbers.end(), 1);
  Ran result{{}, std::vector<int>(blocks)};
  result.fault = run_with(bug, blocks, numbers.data(), result.sums.data());
  return result;
}

void expect_refused(Bug bug, const std::vector<std::string>& words) {
  for (const std::uint64_t seed : {0, 1, 2}) {
    settings().seed = seed;
    const std::string fault = ran(bug).fault;
    for (const std::string& word : words)
      EXPECT_NE(fault.find(word), std::string::npos) << fault << " lacks " << word;
  }
  settings().seed = 0;
}

TEST(Emulation, RunsWhatIsRightInAnyOrderOfItsThreads) {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    settings().seed = seed;
    for (const Bug bug : {Bug::none, Bug::none_in_warps}) {
      const Ran all = ran(bug);
      EXPECT_EQ(all.fault, "");
      EXPECT_EQ(all.sums,
                (std::vector<int>{64 * 65 / 2, 128 * 129 / 2 - 64 * 65 / 2, 192 * 193 / 2 - 128 * 129 / 2}));
    }
  }
  settings().seed = 0;
  const Ran counted = ran(Bug::counts_by_atomics);
  EXPECT_EQ(counted.fault, "");
  EXPECT_EQ(counted.sums[0], 192 * 193 / 2);
  EXPECT_EQ(ran(Bug::says_so_in_a_volatile_word).fault, "");
}

TEST(Emulation, RefusesABarrierThatNotAllThreadsComeTo) {
  expect_refused(Bug::barrier_in_a_branch, {"block (0, 0, 0)", "wait at a barrier of the block"});
  expect_refused(Bug::barrier_after_return,
                 {"block (0, 0, 0)", "wait at a barrier of the block, and thread ", " has ended"});
}

TEST(Emulation, RefusesAShuffleThatNotAllOfItsLanesComeTo) {
  expect_refused(Bug::shuffle_in_a_branch, {"a shuffle waits for thread 0, which has ended"});
  expect_refused(Bug::shuffle_of_half_a_warp, {"reads lane 16, which its shuffle's mask does not name"});
}

#if WEFT_RECORDED
TEST(Emulation, RefusesAccessesThatNothingOrders) {
  expect_refused(Bug::no_barrier, {"of block 0"});
  expect_refused(Bug::no_barrier_after, {"of block 0", "nothing orders the two"});
  expect_refused(Bug::blocks_write_the_same,
                 {"thread 0 of block 1 writes", "thread 0 of block 0 has written"});
  expect_refused(Bug::blocks_count_without_atomics,
                 {"thread 0 of block 1 reads", "thread 0 of block 0 has written"});
}

TEST(Emulation, RefusesToReadSharedMemoryThatTheBlockHasNotWritten) {
  expect_refused(Bug::shared_before_it_is_written, {"thread 0 of block 0 reads shared memory"});
}
#endif

/// Addresses without memory behind them, until it is touched.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0)) {}
  ~Sparse() { munmap(memory_, bytes_); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  View view(DataType dtype) const {
    return {memory_, static_cast<std::int64_t>(bytes_ / size_of(dtype)), dtype, Device::cuda(0)};
  }
  bool is_there() const { return memory_ != MAP_FAILED; }

 private:
  std::size_t bytes_;
  void* memory_;
};

/// The last blocks of a grid alone.
class LastBlocks {
 public:
  explicit LastBlocks(std::uint64_t first) { settings().first_block = first; }
  ~LastBlocks() { settings().first_block = 0; }
};

constexpr std::int64_t most_blocks = 2112;  // of core/cuda/kernels.cu, as is:
constexpr std::int64_t threads = most_blocks * 256;

/// The last element of `count` that the last thread of the last block has, with `width` elements a vector.
std::int64_t last_of(std::int64_t count, std::int64_t width) {
  const std::int64_t vectors = count / width;
  return ((vectors - threads) / threads * threads + threads - 1) * width;
}

TEST(LargeGrids, ReachWhatLiesBeyondThirtyTwoBits) {
  const std::int64_t count = (std::int64_t{1} << 33) + 4096;
  const Sparse one(static_cast<std::size_t>(count));
  const Sparse two(static_cast<std::size_t>(count));
  ASSERT_TRUE(one.is_there() && two.is_there());
  const LastBlocks only(most_blocks - 1);
  Stream stream(Device::cuda(0));
  View data = one.view(DataType::u8);
  auto* bytes = static_cast<unsigned char*>(data.data());
  const std::int64_t at = last_of(count, 16);
  ASSERT_GT(at, std::int64_t{1} << 32);
  detail::fill(data, 12, stream);
  stream.synchronize();
  EXPECT_EQ(bytes[at], 12);
  detail::divide(data, 3, stream);
  stream.synchronize();
  EXPECT_EQ(bytes[at], 4);
  View other = two.view(DataType::u8);
  for (const std::int64_t begin : {0, 1}) {  // by vectors, and not aligned one by one
    const std::int64_t last = begin + last_of(count - begin, begin == 0 ? 16 : 1);
    static_cast<unsigned char*>(other.data())[last] = 7;
    bytes[last] = 1;
    detail::add(data.slice(begin, count - begin), other.slice(begin, count - begin), stream);
    stream.synchronize();
    EXPECT_EQ(bytes[last], 8);
  }
}

TEST(LargeGrids, SquareBeyondThirtyTwoBits) {
  constexpr std::int64_t grid = 132 * 4;                 // as the emulation has it
  constexpr std::int64_t round = grid * 8 * 32 * 8 * 8;  // elements: 8 warps of 32 lanes, 8 loads of 8 each
  constexpr std::int64_t count = ((std::int64_t{1} << 32) / round + 2) * round;
  const Sparse one(static_cast<std::size_t>(count) * 2);
  ASSERT_TRUE(one.is_there());
  const View data = one.view(DataType::f16);
  static_cast<Half*>(one.view(DataType::f16).data())[count - 1] = Half(3.0F);
  Buffer sum = Buffer::on(Device::cuda(0), DataType::i64, detail::ExactSum::places_count + 1);
  const LastBlocks only(grid - 1);
  Stream stream(Device::cuda(0));
  stream.run([&, pieces = std::array{ConstView(data)}] {
    detail::cuda::update_kernels()->add_squares(sum.view(), pieces, detail::cuda::place_of(stream));
  });
  stream.synchronize();
  const std::span<const std::int64_t, detail::ExactSum::places_count + 1> places(
      static_cast<const std::int64_t*>(sum.view().data()), detail::ExactSum::places_count + 1);
  EXPECT_EQ(detail::ExactSum::from(places).value(), 9.0);
}

// A thread block sums a line where lines are long, a warp where they are short.
TEST(LargeGrids, SumAndCountBeyondThirtyTwoBits) {
  struct Shape {
    std::int64_t block;
    std::int64_t lines;
  };
  for (const auto& [block, lines] : {Shape{1 << 22, most_blocks}, Shape{1024, 249 * most_blocks * 8}}) {
    const Sparse one(static_cast<std::size_t>(block * lines) * 2);
    ASSERT_TRUE(one.is_there());
    const View data = one.view(DataType::f16);
    const std::int64_t last = (lines - 1) * block;
    ASSERT_GT(last, std::int64_t{1} << 32);
    static_cast<Half*>(one.view(DataType::f16).data())[last + block - 1] = Half(3.0F);
    Buffer sums = Buffer::on(Device::cuda(0), DataType::f64, lines);
    const LastBlocks only(most_blocks - 1);
    Stream stream(Device::cuda(0));
    detail::square_sums(sums.view(), data, block, stream);
    stream.synchronize();
    EXPECT_EQ(static_cast<const double*>(sums.view().data())[lines - 1], 9.0);
  }
}

TEST(LargeGrids, LookAtCodesBeyondThirtyTwoBits) {
  constexpr std::int64_t round = most_blocks * 8 * 256;  // elements: 8 warps of a block each
  constexpr std::int64_t count = ((std::int64_t{1} << 32) / round + 2) * round;
  const Sparse one(static_cast<std::size_t>(count) * 4);
  ASSERT_TRUE(one.is_there());
  static_cast<float*>(one.view(DataType::f32).data())[count - 1] = 0x1p120F;
  Buffer bad = Buffer::on(Device::cuda(0), DataType::i32, 1);
  auto* const flag = static_cast<std::int32_t*>(bad.view().data());
  const LastBlocks only(most_blocks - 1);
  Stream stream(Device::cuda(0));
  stream.run([&] {
    detail::cuda::block_code_kernels()->check(one.view(DataType::f32), flag, detail::cuda::place_of(stream));
  });
  stream.synchronize();
  EXPECT_EQ(*flag, 1);
}

TEST(LargeGrids, PackPiecesBeyondThirtyTwoBits) {
  const std::size_t bytes = (std::size_t{1} << 33) + 64;
  const Sparse from(bytes);
  const Sparse to(bytes);
  ASSERT_TRUE(from.is_there() && to.is_there());
  const std::int64_t at = last_of(static_cast<std::int64_t>(bytes), 16);
  static_cast<unsigned char*>(from.view(DataType::u8).data())[at] = 5;
  const LastBlocks only(most_blocks - 1);
  Stream stream(Device::cuda(0));
  detail::pack(to.view(DataType::u8), {from.view(DataType::u8)}, stream);
  stream.synchronize();
  EXPECT_EQ(static_cast<unsigned char*>(to.view(DataType::u8).data())[at], 5);
}

// What the pairs are sure of is what f64 gives, and they are sure nearly always. Numbers of every size, sums that cancel, and zeros.
TEST(FloatPairs, AreSureOfTheBitsOfDoubles) {
  using Pair = detail::cuda::kernels::PairLane;
  std::mt19937 random(1);
  const auto drawn = [&](int range) {
    const double magnitude =
        std::ldexp(1 + static_cast<double>(random()) * 0x1p-32,
                   static_cast<int>(random() % static_cast<unsigned>(range)) - range / 2);
    return static_cast<float>(random() % 2 == 0 ? magnitude : -magnitude);
  };
  for (const double beta : {0.9, 0.95, 0.9871, 0.999}) {
    for (const int range : {4, 40, 240}) {
      int unsure = 0;
      constexpr int tries = 100'000;
      for (int i = 0; i < tries; ++i) {
        const float g = i % 50 == 0 ? 0.0F : drawn(range);
        const float m = i % 70 == 0 ? -0.0F : i % 3 == 0 ? -g / 8 : drawn(range);
        const double fresh = 1 - beta;
        const auto exact =
            static_cast<float>(std::fma(static_cast<double>(m), beta, static_cast<double>(g) * fresh));
        const float found = Pair::narrow(Pair::plus_product(Pair::product(Pair::wide(g), Pair::all(fresh)),
                                                            Pair::wide(m), Pair::all(beta)));
        if (std::isnan(found)) {
          ++unsure;
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(exact))
              << m << " and " << g;
        }
      }
      // Short decimals make ties; the smallest numbers underflow.
      EXPECT_LT(unsure, range > 100      ? tries / 4
                        : beta == 0.9871 ? tries / 500
                                         : tries / 10)
          << beta << ", numbers in 2^" << range;
    }
  }
}

// Only the last rows of a part are touched.
TEST(LargeGrids, ExpandRowsBeyondThirtyTwoBits) {
  constexpr std::int64_t rows = 70'000;
  constexpr std::int64_t columns = std::int64_t{1} << 16;
  const Sparse matrix(static_cast<std::size_t>(rows * columns) * sizeof(float));
  const Sparse factors(static_cast<std::size_t>(rows + columns) * sizeof(float));
  ASSERT_TRUE(matrix.is_there() && factors.is_there());
  auto* values = static_cast<float*>(matrix.view(DataType::f32).data());
  auto* left = static_cast<float*>(factors.view(DataType::f32).data());
  auto* right = left + rows;
  left[rows - 1] = 2;
  right[columns - 1] = 3;
  detail::LowRankJob job{.rank = 1, .matrix = {rows, columns, values}, .basis = right};
  job.mean = left;
  Stream stream(Device::cuda(0));
  detail::expand({{job, (rows - 2) * columns, rows * columns}}, stream);
  stream.synchronize();
  EXPECT_EQ(values[rows * columns - 1], 6);
}

}  // namespace
}  // namespace weft::emulation
