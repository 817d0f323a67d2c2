#include "weft/compression/codec_hook.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "compression/hooks/codec_hook_base.hpp"
#include "support/expect_error.hpp"
#include "unit/compression/some_gradients.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft {
namespace {

using Vectors = std::vector<std::vector<float>>;
using Gradients = std::function<std::vector<float>(int step, int rank)>;

// Gaps of many sizes, buckets that end within parameters, and parts that have no block.
const ParamLayout layout(DataType::f32, {{"embedding", 5000}, {"weight", 3001}, {"bias", 7}, {"head", 2000}});

struct Trial {
  int ranks = 1;
  CodecHookOptions options{.residual = KeptAs::nothing};
  bool is_sharded = false;
  std::size_t bucket_bytes = 16 << 10;
  std::size_t later_bucket_bytes = 0;  ///< from step 2 on
  bool is_queued = true;
};

struct Outcome {
  Vectors means;   ///< by step, of the layout
  Vectors errors;  ///< by rank, after the last step
  std::uint64_t sent = 0;
};

BucketPlan plan_of(const Trial& trial, const CommHook& hook, std::size_t bucket_bytes) {
  return aligned(plan_buckets(layout, bucket_bytes), hook.granularity() * trial.ranks);
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> words;
  for (const float value : values) words.push_back(std::bit_cast<std::uint32_t>(value));
  return words;
}

/// The values of parameters; those between parameters become zero.
std::vector<float> parameters_of(const std::vector<float>& values) {
  std::vector<float> parameters(values.size());
  for (int i = 0; i < layout.parameters(); ++i) {
    const auto begin = layout.offset(ParamId{i});
    std::copy_n(values.begin() + begin, layout.count(ParamId{i}), parameters.begin() + begin);
  }
  return parameters;
}

/// What a trainer and a reducer do: parameters are written, gaps never; every bucket leaves.
Outcome run(const std::string& codec, const Trial& trial, int steps, const Gradients& gradients) {
  const auto size = static_cast<std::size_t>(layout.size());
  Outcome outcome{Vectors(static_cast<std::size_t>(steps), std::vector<float>(size)),
                  Vectors(static_cast<std::size_t>(trial.ranks)), 0};
  std::vector<Vectors> held(static_cast<std::size_t>(trial.ranks), outcome.means);
  run_as_threads(trial.ranks, [&](Communicator comm) {
    const auto hook = codec_hook(codec_named(codec), trial.options);
    BucketPlan plan = plan_of(trial, *hook, trial.bucket_bytes);
    Buffer arena = comm.allocate(DataType::f32, 2 * plan.end());
    hook->planned(plan, arena.view().slice(0, plan.end()), comm);
    Stream wire = trial.is_queued ? Stream::queued() : Stream();
    const std::uint64_t sent = comm.wire_bytes();
    for (int step = 0; step < steps; ++step) {
      if (step == 2 && trial.later_bucket_bytes != 0) {
        plan = plan_of(trial, *hook, trial.later_bucket_bytes);
        hook->planned(plan, arena.view().slice(0, plan.end()), comm);
      }
      const auto gradient = gradients(step, comm.rank());
      for (int i = 0; i < layout.parameters(); ++i) {
        const auto begin = gradient.begin() + layout.offset(ParamId{i});
        std::copy(begin, begin + layout.count(ParamId{i}),
                  layout.view(arena.view(), ParamId{i}).as<float>().begin());
      }
      for (const Bucket& bucket : plan.buckets()) {
        const View range = arena.view().slice(bucket.begin, bucket.count());
        const std::int64_t part = bucket.count() / trial.ranks;
        if (trial.is_sharded) {
          hook->reduce_scatter(bucket, range, range.slice(part * comm.rank(), part), comm, wire, wire);
        } else {
          hook->reduce(bucket, range, comm, wire, wire);
        }
      }
      wire.synchronize();
      auto& mine = held[static_cast<std::size_t>(comm.rank())][static_cast<std::size_t>(step)];
      for (const Bucket& bucket : plan.buckets()) {
        const std::int64_t part = bucket.count() / trial.ranks;
        const std::int64_t begin = bucket.begin + (trial.is_sharded ? part * comm.rank() : 0);
        const std::int64_t end = std::min(trial.is_sharded ? begin + part : bucket.end, layout.size());
        for (std::int64_t i = begin; i < end; ++i)
          mine[static_cast<std::size_t>(i)] = arena.as<float>()[static_cast<std::size_t>(i)];
      }
    }
    if (comm.rank() == 0) outcome.sent = comm.wire_bytes() - sent;
    auto& coded = dynamic_cast<detail::CodecHookBase&>(*hook);
    coded.finish_step();
    auto& error = outcome.errors[static_cast<std::size_t>(comm.rank())];
    error.assign(size, 0.0F);
    if (coded.errors() != nullptr) coded.errors()->add_to(error, 0);
  });
  for (std::size_t step = 0; step < outcome.means.size(); ++step) {
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      const std::vector<float> means = parameters_of(held[rank][step]);
      if (trial.is_sharded) {
        for (std::size_t i = 0; i < size; ++i) {  // parts do not overlap, and -0 is not 0
          float& mean = outcome.means[step][i];
          mean = std::bit_cast<float>(std::bit_cast<std::uint32_t>(mean) |
                                      std::bit_cast<std::uint32_t>(means[i]));
        }
      } else if (rank == 0) {
        outcome.means[step] = means;
      } else {
        EXPECT_EQ(bits(means), bits(outcome.means[step])) << "rank " << rank;
      }
    }
  }
  return outcome;
}

/// Log-normal around 1e-4; gaps are zero.
std::vector<float> gradient(int step, int rank) {
  return parameters_of(test::log_normal(static_cast<std::size_t>(layout.size()), 1e-4,
                                        static_cast<unsigned>(100 * step + rank)));
}

constexpr std::array names{"fp16",       "bf16",
                           "fp8-e4m3",   "fp8-e5m2:stochastic",
                           "int8",       "int8:stochastic",
                           "int4",       "int4:stochastic",
                           "fp4",        "fp4:stochastic",
                           "top-k:0.05", "random-k:0.05"};

class EveryCodecHook : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodecHook, testing::ValuesIn(names), [](const auto& one) {
  std::string name = one.param;
  std::ranges::replace_if(
      name, [](char letter) { return std::isalnum(letter) == 0; }, '_');
  return name;
});

/// The expected means, computed on one thread without buckets, parts or a communicator.
/// @param size of the layout and its padding
std::vector<float> expected_means(const Codec& codec, int ranks, int step, std::int64_t size) {
  std::vector<float> mean(static_cast<std::size_t>(size));
  std::vector<std::byte> code(static_cast<std::size_t>(codec.encoded_bytes(size)));
  CodingPosition turn{static_cast<std::uint64_t>(step), 0, 0};
  for (; turn.rank < ranks; ++turn.rank) {
    std::vector<float> values = gradient(step, turn.rank);
    values.resize(mean.size());
    codec.encode(code, values, turn);
    codec.decode(mean, code, turn, turn.rank == 0 ? Into::set : Into::add);
  }
  for (float& value : mean) value /= static_cast<float>(ranks);
  if (codec.algebra() == Algebra::blockwise) {
    turn.rank = -1;
    codec.encode(code, mean, turn);
    codec.decode(mean, code, turn);
  }
  mean.resize(static_cast<std::size_t>(layout.size()));
  return mean;
}

TEST_P(EveryCodecHook, GivesTheMeanOfCodesWhateverTheBuckets) {
  const auto codec = codec_named(GetParam());
  for (const int ranks : {1, 2, 3, 4}) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{16} << 10, std::size_t{1} << 20}) {
      if (codec->algebra() == Algebra::whole && bucket_bytes < (1 << 20)) continue;  // a code of its bucket
      const Trial trial{.ranks = ranks, .bucket_bytes = bucket_bytes, .is_queued = ranks != 2};
      const Outcome outcome = run(GetParam(), trial, 2, gradient);
      const std::int64_t end = plan_of(trial, *codec_hook(codec, trial.options), bucket_bytes).end();
      for (int step = 0; step < 2; ++step) {
        EXPECT_EQ(bits(outcome.means[static_cast<std::size_t>(step)]),
                  bits(expected_means(*codec, ranks, step, end)))
            << ranks << " ranks, buckets of " << bucket_bytes;
      }
    }
  }
}

TEST_P(EveryCodecHook, RanksWithAPartEachHaveTheMeansThatAllWouldHave) {
  for (const int ranks : {1, 2, 4}) {
    for (const KeptAs residual : {KeptAs::nothing, KeptAs::sixteen_bits}) {
      const CodecHookOptions options{.residual = residual};
      const Outcome whole = run(GetParam(), {.ranks = ranks, .options = options}, 4, gradient);
      const Outcome parts =
          run(GetParam(), {.ranks = ranks, .options = options, .is_sharded = true}, 4, gradient);
      for (std::size_t step = 0; step < 4; ++step)
        EXPECT_EQ(bits(whole.means[step]), bits(parts.means[step]));
      for (std::size_t rank = 0; rank < whole.errors.size(); ++rank)
        EXPECT_EQ(bits(whole.errors[rank]), bits(parts.errors[rank]));
    }
  }
}

TEST_P(EveryCodecHook, AStepWithNaNOrInfIsAsIfItHadNeverBeen) {
  constexpr int bad_step = 2;
  const auto codec = codec_named(GetParam());
  int number = 0;
  for (const float bad : test::not_finite_enough()) {
    ++number;
    // A block of one parameter, and one in which there is a gap: no later step would overwrite NaN there.
    const auto at = static_cast<std::size_t>(number % 2 == 0 ? 1234 * number : 4990);
    for (const bool is_sharded : {false, true}) {
      const Trial trial{.ranks = 1 << (number % 3),
                        .options = {.start_step = static_cast<std::uint64_t>(number % 5)},
                        .is_sharded = is_sharded,
                        .is_queued = number % 2 == 0};
      const Outcome never = run(GetParam(), trial, 4, gradient);
      const Outcome once = run(GetParam(), trial, 5, [&](int step, int rank) {
        std::vector<float> values = gradient(step > bad_step ? step - 1 : step, rank);
        if (step == bad_step && rank == trial.ranks - 1) values[at] = bad;
        return values;
      });
      for (std::size_t step = 0; step < 4; ++step) {
        ASSERT_EQ(bits(never.means[step]), bits(once.means[step < bad_step ? step : step + 1]))
            << "step " << step << ", " << bad << ", " << trial.ranks << " ranks, sharded " << is_sharded;
      }
      EXPECT_EQ(never.errors, once.errors);
      const bool is_by_block = codec->algebra() == Algebra::blockwise && codec->name() != "bf16";
      if (is_by_block && trial.options.start_step <= bad_step) {
        EXPECT_TRUE(std::isnan(once.means[bad_step][at + 1]));
      }
    }
  }
}

/// Largest magnitudes by block of 256.
std::vector<double> largest(const Vectors& all) {
  std::vector<double> most(all[0].size() / 256 + 1);
  for (const auto& values : all) {
    for (std::size_t i = 0; i < values.size(); ++i)
      most[i / 256] = std::max(most[i / 256], std::abs(static_cast<double>(values[i])));
  }
  return most;
}

std::vector<double> mean(const Vectors& all) {
  std::vector<double> sum(all[0].size());
  for (const auto& values : all) {
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i] / static_cast<double>(all.size());
  }
  return sum;
}

// Up to the rounding of f32, and of errors in 16 bits, in each step.
TEST_P(EveryCodecHook, TheMeanAndTheMeanErrorAreTheMeanThatCameIn) {
  for (const int ranks : {1, 2, 4}) {
    for (const KeptAs kept : {KeptAs::sixteen_bits, KeptAs::f32}) {
      const Trial trial{.ranks = ranks, .options = {.residual = kept}, .is_sharded = kept == KeptAs::f32};
      Vectors before(1, std::vector<float>(static_cast<std::size_t>(layout.size())));
      for (int step = 0; step < 3; ++step) {
        Vectors gradients;
        for (int rank = 0; rank < ranks; ++rank) gradients.push_back(gradient(step, rank));
        const Outcome outcome = run(GetParam(), trial, step + 1, gradient);
        const auto came = mean(gradients);
        const auto had = mean(before);
        const auto has = mean(outcome.errors);
        const auto scale = largest(gradients);
        const auto old_scale = largest(before);
        const auto error_scale = largest(outcome.errors);
        for (std::size_t i = 0; i < came.size(); ++i) {
          const double of_f32 = 0x1p-21 * (scale[i / 256] + old_scale[i / 256] + error_scale[i / 256]);
          const double of_16_bits = kept == KeptAs::f32 ? 0 : 0x1p-15 * error_scale[i / 256];
          ASSERT_NEAR(outcome.means.back()[i] + has[i], came[i] + had[i], of_f32 + of_16_bits)
              << "step " << step << ", element " << i << ", " << ranks << " ranks";
        }
        before = outcome.errors;
      }
    }
  }
}

TEST_P(EveryCodecHook, EqualGradientsOnAllRanksAreThoseOfOne) {
  if (std::string(GetParam()).find("stochastic") != std::string::npos) return;  // ranks round apart
  const auto equal = [](int step, int) { return gradient(step, 0); };
  const Outcome one = run(GetParam(), {.bucket_bytes = 1 << 20}, 2, equal);
  for (const int ranks : {2, 4}) {
    if (codec_named(GetParam())->algebra() == Algebra::whole) continue;  // padding for ranks changes its k
    const Outcome all = run(GetParam(), {.ranks = ranks, .bucket_bytes = 1 << 20}, 2, equal);
    for (std::size_t step = 0; step < 2; ++step)
      EXPECT_EQ(bits(one.means[step]), bits(all.means[step])) << ranks;
  }
}

TEST_P(EveryCodecHook, AnotherOrderOfRanksChangesNoMoreThanRounding) {
  if (std::string(GetParam()).find("stochastic") != std::string::npos) return;
  const auto codec = codec_named(GetParam());
  const Trial trial{.ranks = 4, .options = {.residual = KeptAs::nothing}};
  const Outcome one = run(GetParam(), trial, 1, gradient);
  const Outcome other =
      run(GetParam(), trial, 1, [](int step, int rank) { return gradient(step, 3 - rank); });
  const bool sums_exactly = codec->algebra() != Algebra::blockwise;
  const auto scale = largest(one.means);
  const auto inputs = largest({gradient(0, 0), gradient(0, 1), gradient(0, 2), gradient(0, 3)});
  for (std::size_t i = 0; i < one.means[0].size(); ++i) {
    const double value = one.means[0][i];
    const double again = sums_exactly ? 0 : 2 * codec->bound()(std::abs(value), scale[i / 256]);
    ASSERT_NEAR(value, other.means[0][i], again + 0x1p-20 * inputs[i / 256]) << "element " << i;
  }
}

TEST_P(EveryCodecHook, StepsBeforeTheFirstThatIsCodedAreExact) {
  const auto exact = [](int step) {
    Vectors gradients{gradient(step, 0), gradient(step, 1)};
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      gradients[0][i] = (gradients[0][i] + gradients[1][i]) / 2;
    return gradients[0];
  };
  for (const bool is_sharded : {false, true}) {
    const Outcome outcome =
        run(GetParam(), {.ranks = 2, .options = {.start_step = 2}, .is_sharded = is_sharded}, 3, gradient);
    EXPECT_EQ(bits(outcome.means[0]), bits(exact(0)));
    EXPECT_EQ(bits(outcome.means[1]), bits(exact(1)));
    EXPECT_NE(bits(outcome.means[2]), bits(exact(2)));
  }
}

// Errors are stored by element. The buckets decide which rank adds the error of a mean; with one rank they do
// not matter.
TEST_P(EveryCodecHook, ANewPlanChangesNothing) {
  const auto algebra = codec_named(GetParam())->algebra();
  if (algebra == Algebra::whole) return;
  const Trial trial{.ranks = algebra == Algebra::linear ? 2 : 1, .options = {}};
  Trial changing = trial;
  changing.later_bucket_bytes = 1;
  const Outcome one = run(GetParam(), trial, 5, gradient);
  const Outcome two = run(GetParam(), changing, 5, gradient);
  for (std::size_t step = 0; step < 5; ++step) EXPECT_EQ(bits(one.means[step]), bits(two.means[step]));
  EXPECT_EQ(one.errors, two.errors);
}

TEST(CodecHook, SendsTwiceTheCodeOfItsPartAndAHeaderToEveryOther) {
  for (const char* name : {"fp16", "bf16", "fp8-e4m3", "int8", "int4", "fp4"}) {
    for (const int ranks : {1, 2, 4}) {
      const auto codec = codec_named(name);
      std::int64_t expected = 0;
      std::int64_t half = 0;
      const Trial trial{.ranks = ranks};
      const BucketPlan plan = plan_of(trial, *codec_hook(codec, trial.options), trial.bucket_bytes);
      for (const Bucket& bucket : plan.buckets()) {
        const std::int64_t part = codec->encoded_bytes(bucket.count()) / ranks;  // whole blocks
        expected += (ranks - 1) * (2 * part + 8);
        half += (ranks - 1) * (part + 8);
      }
      EXPECT_EQ(run(name, trial, 1, gradient).sent, static_cast<std::uint64_t>(expected)) << name;
      EXPECT_EQ(run(name, {.ranks = ranks, .is_sharded = true}, 1, gradient).sent,
                static_cast<std::uint64_t>(half));
    }
  }
}

TEST(CodecHook, AReducerPlansForItsBlocks) {
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{16} << 10}) {
    run_as_threads(3, [&](Communicator comm) {
      const auto hook = codec_hook(int8_codec());
      GradientReducer reducer(comm, layout, {.buckets = BucketBytes{bucket_bytes}, .hook = hook});
      Stream compute;
      std::vector<double> sum(static_cast<std::size_t>(layout.size()));
      constexpr int steps = 50;
      for (int step = 0; step < steps; ++step) {
        reducer.begin_step();
        for (int i = layout.parameters() - 1; i >= 0; --i) {
          std::ranges::fill(reducer.gradient(ParamId{i}).as<float>(),
                            static_cast<float>(1 + i) + 0.01F * static_cast<float>(comm.rank()));
          reducer.mark_ready(ParamId{i}, compute);
        }
        reducer.finish_step(compute);
        compute.synchronize();
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += reducer.gradients().as<float>()[i];
      }
      for (const Bucket& bucket : reducer.plan().buckets()) EXPECT_EQ(bucket.begin % 256, 0);
      for (int i = 0; i < layout.parameters(); ++i) {
        for (std::int64_t at = 0; at < layout.count(ParamId{i}); ++at)
          ASSERT_NEAR(sum[static_cast<std::size_t>(layout.offset(ParamId{i}) + at)] / steps, 1 + i + 0.01,
                      0.01);
      }
    });
  }
}

TEST(CodecHook, RefusesGradientsItCannotCodeAndSaysWhatWould) {
  Stream compute;
  const ParamLayout halves(DataType::bf16, {{"weight", 1000}});
  test::expect_error(ErrorKind::usage, {"gradients of bf16", "int8", "cast_hook(DataType::f32"},
                     [&] { GradientReducer(self(), halves, {.hook = codec_hook(int8_codec())}); });
  GradientReducer chained(self(), halves, {.hook = cast_hook(DataType::f32, codec_hook(int8_codec()))});
  const auto hook = codec_hook(int8_codec());
  Communicator alone = self();
  Buffer arena = alone.allocate(DataType::f32, layout.size());
  test::expect_error(ErrorKind::usage, {"a bucket [", "multiples of 256", "aligned()"},
                     [&] { hook->planned(plan_buckets(layout, 1), arena.view(), alone); });
  test::expect_error(ErrorKind::usage, {"of no plan", "planned()"}, [&] {
    codec_hook(int8_codec())->reduce({0, 256, {}}, arena.view().slice(0, 256), alone, compute, compute);
  });
  test::expect_error(ErrorKind::usage, {"without a codec"}, [] { codec_hook(nullptr); });
}

// Ranks that round in different ways would train different models.
TEST(CodecHook, RanksMustAgreeOnTheirCodec) {
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(ErrorKind::mismatch, {}, [&] {
      GradientReducer(comm, layout,
                      {.hook = codec_hook(random_k_codec(0.1, static_cast<std::uint64_t>(comm.rank())))});
    });
  });
}

}  // namespace
}  // namespace weft
