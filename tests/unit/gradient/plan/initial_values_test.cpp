#include "weft/gradient/initial_values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "gradient/plan/initial_values.hpp"
#include "support/expect_error.hpp"
#include "support/ranks_with_fakes.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"

namespace weft {
namespace {

/// A model of two parameters and a buffer, whose values are `start`, `start` + 1 and so on.
struct Model {
  explicit Model(float start) : weight(1000), bias(3), batches(1) {
    std::iota(weight.begin(), weight.end(), start);
    std::iota(bias.begin(), bias.end(), start);
    batches[0] = static_cast<std::int64_t>(start);
  }
  std::vector<NamedValues> tensors() {
    return {{"weight", View(std::span(weight))},
            {"bias", View(std::span(bias))},
            {"batches seen", View(std::span(batches))}};
  }
  std::vector<float> weight, bias;
  std::vector<std::int64_t> batches;
};

TEST(InitialValues, OfRankZeroReachEveryRankBitByBit) {
  run_as_threads(3, [](Communicator comm) {
    Model mine(static_cast<float>(10 * comm.rank() + 1));
    sync_initial_values(comm, mine.tensors(), InitialValues::from_rank_0);
    const Model first(1);
    EXPECT_EQ(mine.weight, first.weight);
    EXPECT_EQ(mine.bias, first.bias);
    EXPECT_EQ(mine.batches, first.batches);
  });
}

TEST(InitialValues, ThatAreEqualPassTheComparisonAndStay) {
  run_as_threads(3, [](Communicator comm) {
    Model mine(5);
    sync_initial_values(comm, mine.tensors(), InitialValues::compare);
    EXPECT_EQ(mine.weight, Model(5).weight);
  });
}

TEST(InitialValues, ThatDifferInOneBitNameTheTensorOnEveryRank) {
  for (const int tensor : {0, 1, 2}) {
    run_as_threads(3, [&](Communicator comm) {
      Model mine(5);
      if (comm.rank() == 2 && tensor == 0) mine.weight[999] = std::nextafter(mine.weight[999], 0.0F);
      if (comm.rank() == 2 && tensor == 1) mine.bias[2] = -mine.bias[2];
      if (comm.rank() == 2 && tensor == 2) mine.batches[0] = 0;
      const std::string name = mine.tensors()[static_cast<std::size_t>(tensor)].name;
      test::expect_error(ErrorKind::mismatch,
                         {"ranks start with different values", "is " + name + ", ", "on rank 0", "on rank 2",
                          "InitialValues::from_rank_0"},
                         [&] { sync_initial_values(comm, mine.tensors(), InitialValues::compare); });
    });
  }
}

TEST(InitialValues, OfDifferentModelsAreRefusedBeforeAnyIsSent) {
  for (const InitialValues how : {InitialValues::compare, InitialValues::from_rank_0}) {
    run_as_threads(2, [&](Communicator comm) {
      Model mine(5);
      auto tensors = mine.tensors();
      if (comm.rank() == 1) tensors.pop_back();
      test::expect_error(ErrorKind::mismatch, {"batches seen", "only on rank 0"},
                         [&] { sync_initial_values(comm, tensors, how); });
      tensors = mine.tensors();
      if (comm.rank() == 1) tensors[1].values = tensors[1].values.slice(0, 2);
      test::expect_error(ErrorKind::mismatch, {"bias, 3 f32", "bias, 2 f32"},
                         [&] { sync_initial_values(comm, tensors, how); });
    });
  }
}

TEST(InitialValues, AreTakenFromTheObjectsThatALayoutIsMadeOf) {
  struct Parameter {
    std::string name;
    std::size_t count;
    float* data;
  };
  run_as_threads(2, [](Communicator comm) {
    std::vector<float> values{static_cast<float>(comm.rank()), 7};
    const std::vector<Parameter> parameters{{"w", values.size(), values.data()}};
    sync_initial_values(comm, parameters, InitialValues::from_rank_0);
    EXPECT_EQ(values, (std::vector<float>{0, 7}));
  });
}

TEST(InitialValues, OnDevicesAreComparedAndSentThere) {
  const test::WithFakeCuda cuda;
  test::FakeNcclRanks nccl;
  test::run_with_fakes(nccl, 2, [](Communicator comm) {
    Buffer there = Buffer::on(comm.device(), DataType::f32, 500);
    std::vector<float> here(500, static_cast<float>(comm.rank() + 1));
    Stream stream(comm.device());
    copy(there.view(), View(std::span(here)), stream);
    stream.synchronize();
    const std::vector<NamedValues> tensors{{"there", there.view()}};
    test::expect_error(ErrorKind::mismatch, {"there, 500 f32, hash", "on rank 1"},
                       [&] { sync_initial_values(comm, tensors, InitialValues::compare); });
    sync_initial_values(comm, tensors, InitialValues::from_rank_0);
    sync_initial_values(comm, tensors, InitialValues::compare);
    copy(View(std::span(here)), there.view(), stream);
    stream.synchronize();
    EXPECT_EQ(here, std::vector<float>(500, 1.0F));
  });
}

// The hash sees each bit, the length, and where a value stands.
TEST(ContentHash, ChangesWithEveryBitOfATensor) {
  for (const std::int64_t count : {1, 3, 8, 33, 40}) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count), 0);
    const auto hash = [&] { return detail::content_hash(View(std::span(bytes))); };
    const std::uint64_t zeros = hash();
    EXPECT_EQ(hash(), zeros);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
      EXPECT_NE(hash(), zeros) << "bit " << bit << " of " << count << " bytes";
      bytes[bit / 8] = 0;
    }
    bytes.push_back(0);
    EXPECT_NE(hash(), zeros) << count;
  }
  std::vector<std::int64_t> order{1, 2, 3, 4, 5, 6, 7, 8};
  const auto before = detail::content_hash(View(std::span(order)));
  std::swap(order[0], order[4]);  // of one chain
  EXPECT_NE(detail::content_hash(View(std::span(order))), before);
  std::swap(order[0], order[4]);
  std::swap(order[0], order[1]);  // of two
  EXPECT_NE(detail::content_hash(View(std::span(order))), before);
}

}  // namespace
}  // namespace weft
