// What hooks hand to checkpoints: with the same ranks a training goes on bitwise, with others no gradient is lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "support/draw.hpp"
#include "support/expect_error.hpp"
#include "weft/compression/error_feedback.hpp"
#include "weft/compression/hook_named.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft {
namespace {

float drawn(std::uint64_t seed, std::int64_t i) {
  return static_cast<float>(test::normal(seed, static_cast<std::uint64_t>(i)));
}

TEST(ErrorFeedback, SavedErrorsAreRestoredExactly) {
  for (const KeptAs kept : {KeptAs::sixteen_bits, KeptAs::f32}) {
    constexpr std::int64_t count = 4 * ErrorFeedback::block;
    std::vector<float> errors(count);
    for (std::int64_t i = 0; i < count; ++i)
      errors[static_cast<std::size_t>(i)] =
          std::ldexp(drawn(1, i), static_cast<int>(i / ErrorFeedback::block) * 30 - 100);
    ErrorFeedback one(codec_named("int8"), kept);
    one.cover(count);
    one.keep(errors, 0);
    one.commit();
    ErrorFeedback other(codec_named("int8"), kept);
    other.cover(count);
    other.restore(one.saved());
    const std::size_t bytes =
        kept == KeptAs::f32 ? count * sizeof(float) : 4 * (1 + 2 * ErrorFeedback::block);
    EXPECT_EQ(std::memcmp(one.places().committed, other.places().committed, bytes), 0);
    if (kept == KeptAs::f32) {
      EXPECT_EQ(one.saved(), errors);
    }
  }
}

/// A checkpoint in memory.
class Kept {
 public:
  void add(const checkpoint::State& state) {
    const std::lock_guard lock(mutex_);
    if (values_.empty()) values_ = state.values;
    EXPECT_EQ(state.values, values_);
    for (const checkpoint::Piece& piece : state.pieces) {
      std::vector<float> all(static_cast<std::size_t>(piece.count()));
      std::get<checkpoint::Computed>(piece.values).fill(0, View(std::span(all)));
      EXPECT_TRUE(tensors_.emplace(piece.tensor, std::move(all)).second) << piece.tensor << " is saved twice";
    }
  }
  const checkpoint::Values& values() const { return values_; }
  void read(std::span<const checkpoint::Wanted> wanted) const {
    for (const checkpoint::Wanted& one : wanted) {
      const std::vector<float>& from = tensors_.at(one.tensor);
      ASSERT_EQ(one.count(), std::ssize(from));
      std::memcpy(std::get<View>(one.values).data(), from.data(), from.size() * sizeof(float));
    }
  }
  /// The mean of the ranks' residuals of a parameter.
  std::vector<double> mean(const std::string& parameter, int ranks) const {
    std::vector<double> sum;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& one =
          tensors_.at("gradient hook/residual of rank " + std::to_string(rank) + "/" + parameter);
      sum.resize(one.size());
      for (std::size_t i = 0; i < one.size(); ++i) sum[i] += static_cast<double>(one[i]) / ranks;
    }
    return sum;
  }

 private:
  std::mutex mutex_;
  checkpoint::Values values_;
  std::map<std::string, std::vector<float>> tensors_;
};

constexpr int save_after = 5;
const std::vector<std::string> matrices{"a", "b"};

ParamLayout layout() {
  return ParamLayout(DataType::f32, {{.name = "a", .count = 300, .shape = {20, 15}},
                                     {.name = "bias", .count = 40, .shape = {40}},
                                     {.name = "b", .count = 700, .shape = {35, 20}}});
}

/// The means that rank 0 gets in steps [first, last).
std::vector<float> train(int ranks, const std::string& codec, int first, int last, const Kept* from,
                         Kept* to) {
  std::vector<float> means;
  run_as_threads(ranks, [&](const Communicator& comm) {
    GradientReducer reducer(comm, layout(), {.buckets = BucketBytes{2048}, .hook = hook_named(codec, 2)});
    if (from != nullptr) reducer.load_state(*from);
    Stream compute;
    for (int step = first; step < last; ++step) {
      if (to != nullptr && step == save_after) to->add(reducer.state());
      reducer.begin_step();
      const std::span<float> gradients = reducer.gradients().as<float>();
      for (std::size_t i = 0; i < gradients.size(); ++i)
        gradients[i] =
            drawn(static_cast<std::uint64_t>(step * 100 + comm.rank()), static_cast<std::int64_t>(i));
      for (int id = reducer.layout().parameters() - 1; id >= 0; --id)
        reducer.mark_ready(ParamId{id}, compute);
      reducer.finish_step(compute);
      compute.synchronize();
      if (comm.rank() == 0) means.insert(means.end(), gradients.begin(), gradients.end());
    }
    if (to != nullptr && last == save_after) to->add(reducer.state());
  });
  return means;
}

TEST(SavedHook, GoesOnBitwiseWithTheSameRanks) {
  for (const char* codec : {"int8", "int8:stochastic", "top-k:0.1", "powersgd:2", "powersgd:2:alternating",
                            "fp8-e4m3:stochastic", "fp16"}) {
    SCOPED_TRACE(codec);
    Kept kept;
    const std::vector<float> whole = train(3, codec, 0, 9, nullptr, &kept);
    const std::vector<float> on = train(3, codec, save_after, 9, &kept, nullptr);
    EXPECT_TRUE(std::ranges::equal(std::span(whole).last(on.size()), on));
    EXPECT_FALSE(std::ranges::equal(std::span(whole).last(on.size()),
                                    train(3, codec, save_after, 9, nullptr, nullptr)) &&
                 std::string(codec) != "fp16");
  }
}

TEST(SavedHook, OfOtherRanksKeepsTheMeanOfTheirResiduals) {
  for (const char* codec : {"int8", "powersgd:2"}) {
    for (const auto& [before, after] : {std::pair{4, 2}, std::pair{1, 3}}) {
      SCOPED_TRACE(text(codec, " of ", before, " ranks on ", after));
      Kept kept;
      train(before, codec, 0, save_after, nullptr, &kept);
      Kept again;
      train(after, codec, save_after, save_after, &kept, &again);
      for (const std::string& name : matrices) {
        const auto expected = kept.mean(name, before);
        const auto found = again.mean(name, after);
        double largest = 0;
        for (const double one : expected) largest = std::max(largest, std::abs(one));
        EXPECT_GT(largest, 0);
        for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], largest * 0x1p-13);
      }
    }
  }
}

TEST(SavedHook, OfAnotherCodecIsDropped) {
  Kept kept;
  train(2, "int8", 0, save_after, nullptr, &kept);
  EXPECT_TRUE(std::ranges::equal(train(2, "powersgd:2", save_after, 9, &kept, nullptr),
                                 train(2, "powersgd:2", save_after, 9, nullptr, nullptr)));
}

}  // namespace
}  // namespace weft
