// LAMB and LARS: every stage, number of ranks and bucket size gives the same bits, near those of a twin that has whole
// tensors and computes with plain loops.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/expect_error.hpp"
#include "support/same_everywhere.hpp"
#include "zero/tensors/tensor_norms.hpp"
#include "zero/update/grouped_step.hpp"
#include "zero/update/update_kernel.hpp"

namespace weft::zero {
namespace {

using test::exact_training;
using test::expect_the_same_everywhere;
using test::ZeroTraining;

const Lamb lamb{.learning_rate = 0.02, .weight_decay = 0.1};
const Lars lars{.learning_rate = 2, .momentum = 0.8, .weight_decay = 0.05, .trust_coefficient = 0.01};

/// What a tensor of the twin is updated by.
struct Options {
  bool adapts = true;
  double decay = 0;
  double rate_factor = 1;
};
using OptionsOf = std::function<Options(int number)>;

/// One tensor; stored values are f32, and everything else is f64.
class Alone {
 public:
  Alone(const ZeroTraining& job, int number, Options options)
      : job_(job), number_(number), options_(options) {
    const ParamLayout layout = ZeroTraining::layout_of_matrices();
    for (std::int64_t i = 0; i < layout.count(ParamId{number}); ++i)
      p_.push_back(0.1F * job.noise(0, 0, ParamId{number}, i));
    first_.resize(p_.size());
    second_.resize(p_.size());
  }

  std::vector<double> means(int step) const {
    std::vector<double> result;
    for (std::size_t i = 0; i < p_.size(); ++i) {
      double sum = 0;
      for (int part = 0; part < job_.parts; ++part)
        sum += job_.slope_at(0, step, part, ParamId{number_}, static_cast<std::int64_t>(i));
      result.push_back(sum / job_.parts);
    }
    return result;
  }

  void update(const Lamb& rule, const std::vector<double>& g, int step, double rate) {
    std::vector<double> direction;
    for (std::size_t i = 0; i < p_.size(); ++i) {
      first_[i] = static_cast<float>(rule.beta1 * first_[i] + (1 - rule.beta1) * g[i]);
      second_[i] = static_cast<float>(rule.beta2 * second_[i] + (1 - rule.beta2) * g[i] * g[i]);
      const double m = first_[i] / (1 - std::pow(rule.beta1, step));
      const double v = second_[i] / (1 - std::pow(rule.beta2, step));
      direction.push_back(m / (std::sqrt(v) + rule.epsilon) + options_.decay * p_[i]);
    }
    const double ratio = options_.adapts ? norm(p_) / norm(direction) : 1;
    for (std::size_t i = 0; i < p_.size(); ++i)
      p_[i] = static_cast<float>(p_[i] - rate * options_.rate_factor * ratio * direction[i]);
  }
  void update(const Lars& rule, const std::vector<double>& g, int, double rate) {
    const double p = norm(p_);
    const double ratio = options_.adapts ? rule.trust_coefficient * p / (norm(g) + options_.decay * p) : 1;
    for (std::size_t i = 0; i < p_.size(); ++i) {
      const double local = rate * options_.rate_factor * ratio;
      first_[i] = static_cast<float>(rule.momentum * first_[i] + local * (g[i] + options_.decay * p_[i]));
      p_[i] -= first_[i];
    }
  }
  const std::vector<float>& parameters() const { return p_; }

  template <class T>
  static double norm(const std::vector<T>& values) {
    double squares = 0;
    for (const T value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(squares);
  }

 private:
  const ZeroTraining& job_;
  int number_;
  Options options_;
  std::vector<float> p_, first_, second_;
};

template <class Rule>
std::vector<float> twin(const ZeroTraining& job, const OptionsOf& options) {
  std::vector<Alone> tensors;
  for (int i = 0; i < ZeroTraining::parameters; ++i) tensors.emplace_back(job, i, options(i));
  for (int step = 0; step < job.steps; ++step) {
    std::vector<std::vector<double>> gradients;
    double squares = 0;
    for (const Alone& one : tensors) {
      gradients.push_back(one.means(step));
      squares += std::pow(Alone::norm(gradients.back()), 2);
    }
    const double clip =
        job.stepping.clip_norm ? std::max(1.0, (std::sqrt(squares) + 1e-6) / *job.stepping.clip_norm) : 1;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (double& one : gradients[i]) one /= clip;
      tensors[i].update(std::get<Rule>(job.optimizer), gradients[i], step + 1, job.learning_rate(step));
    }
  }
  std::vector<float> all;
  for (const Alone& one : tensors) all.insert(all.end(), one.parameters().begin(), one.parameters().end());
  return all;
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], 3e-7F * std::max(1.0F, std::abs(expected[i]))) << "at " << i;
}

Options matrices_adapt(double decay, int number) {
  return {.adapts = number % 2 == 0, .decay = decay};
}

TEST(Lamb, IsThePublishedAlgorithm) {
  const ZeroTraining job = exact_training(lamb);
  expect_near(job.run().parameters, twin<Lamb>(job, [](int i) { return matrices_adapt(0.1, i); }));
}

TEST(Lars, IsThePublishedAlgorithm) {
  const ZeroTraining job = exact_training(lars);
  expect_near(job.run().parameters, twin<Lars>(job, [](int i) { return matrices_adapt(0.05, i); }));
}

TEST(TrustRatios, ClippedGradientsCountAsClipped) {
  ZeroTraining job = exact_training(lars);
  job.stepping.clip_norm = 3.0;
  EXPECT_GT(job.run().norms.front(), 3) << "there should be something to clip";
  expect_near(job.run().parameters, twin<Lars>(job, [](int i) { return matrices_adapt(0.05, i); }));
  expect_the_same_everywhere(job);
}

TEST(TrustRatios, HaveTheSameBitsInEveryStageForAnyRanksAndBuckets) {
  expect_the_same_everywhere(exact_training(lamb));
  expect_the_same_everywhere(exact_training(lars));
}

TEST(TrustRatios, SoHaveSixteenBitsWithEitherMaster) {
  for (const Master master : {Master::f32, Master::split}) {
    ZeroTraining job = exact_training(lamb);
    job.dtype = DataType::bf16;
    job.stepping.master = master;
    expect_the_same_everywhere(job);
  }
  ZeroTraining job = exact_training(lars);
  job.dtype = DataType::f16;
  job.stepping.loss_scale = LossScalerOptions{.initial = 8};
  expect_the_same_everywhere(job);
}

TEST(TrustRatios, GroupsHaveTheirOwn) {
  ZeroTraining job = exact_training(lamb);
  job.stepping.groups = ParamGroups(
      ZeroTraining::layout_of_matrices(),
      {{.name = "none", .params = test::param_ids({0, 1, 4}), .weight_decay = 0.0, .layer_adaptation = false},
       {.name = "all", .params = test::param_ids({2, 3, 5}), .rate_factor = 2, .layer_adaptation = true},
       {.name = "matrices", .params = test::param_ids({6, 7, 8, 9, 10, 11})}});
  expect_near(job.run().parameters, twin<Lamb>(job, [](int i) {
                if (i == 0 || i == 1 || i == 4) return Options{.adapts = false};
                if (i == 2 || i == 3 || i == 5) return Options{.decay = 0.1, .rate_factor = 2};
                return matrices_adapt(0.1, i);
              }));
  expect_the_same_everywhere(job);
}

TEST(TrustRatios, ATensorOfZerosHasTheRatioOne) {
  detail::TensorSquares squares;
  Buffer zeros = Buffer::on_host(DataType::f32, 40);
  Buffer ones = Buffer::on_host(DataType::f32, 40);
  for (float& one : ones.as<float>()) one = 1;
  detail::add_gradient_squares({.gradient = ones.view(), .parameters = zeros.view()}, squares);
  EXPECT_EQ(squares.parameters.value(), 0);
  EXPECT_EQ(squares.updates.value(), 40);
  // The first step of a tensor of zeros would otherwise leave it as it is for ever.
  run_as_threads(2, [&](Communicator comm) {
    ShardedParams params(comm, ParamLayout(DataType::f32, {{.name = "w", .count = 40, .shape = {4, 10}}}));
    params.load(ParamId{0}, zeros.view());
    ShardedOptimizer optimizer(params, Lars{.learning_rate = 0.5, .weight_decay = 0});
    params.begin_step();
    const Stream compute;
    const View gradient = params.gradient(ParamId{0}, compute);
    for (float& one : gradient.as<float>()) one = 1;
    params.mark_ready(ParamId{0}, compute);
    optimizer.step(compute);
    const Buffer whole = params.whole(ParamId{0});
    for (const float value : whole.as<float>()) EXPECT_EQ(value, -0.5F);
  });
}

TEST(TrustRatios, NaNReachesAllOfItsTensorAndNoOther) {
  for (const Optimizer& rule : {Optimizer(lamb), Optimizer(lars)}) {
    run_as_threads(2, [&](Communicator comm) {
      ShardedParams params(comm, ZeroTraining::layout_of_matrices(), {.stage = 2});
      Buffer values = Buffer::on_host(DataType::f32, 2000);
      for (float& one : values.as<float>()) one = 1;
      for (int i = 0; i < params.layout().parameters(); ++i)
        params.load(ParamId{i}, values.view().slice(0, params.layout().count(ParamId{i})));
      ShardedOptimizer optimizer(params, rule);
      params.begin_step();
      const Stream compute;
      for (int i = params.layout().parameters() - 1; i >= 0; --i) {
        const View gradient = params.gradient(ParamId{i}, compute);
        for (float& one : gradient.as<float>()) one = 0.5F;
        if (i == 4) gradient.as<float>()[7] = std::nanf("");
        params.mark_ready(ParamId{i}, compute);
      }
      optimizer.step(compute);
      for (int i = 0; i < params.layout().parameters(); ++i) {
        const Buffer whole = params.whole(ParamId{i});
        for (const float value : whole.as<float>()) ASSERT_EQ(std::isnan(value), i == 4) << i;
      }
    });
  }
}

TEST(TrustRatios, AreRefusedWhereTheyCannotBe) {
  run_as_threads(2, [](Communicator comm) {
    ShardedParams params(comm, ZeroTraining::layout_of_matrices(), {.stage = 2});
    const auto refuses = [&](std::initializer_list<std::string> parts, const Optimizer& rule,
                             const ShardedOptimizerOptions& options = {}) {
      test::expect_error(ErrorKind::usage, parts, [&] { ShardedOptimizer(params, rule, options); });
    };
    refuses({"offloaded state", "leave the state", "AdamW"}, lamb, {.offload = {.share = 0.5}});
    refuses({"offloaded state"}, lars, {.offload = {.share = std::nullopt}});
    refuses({"trust_coefficient is 0", "above 0"}, Lars{.trust_coefficient = 0});
    refuses({"beta2 is 1"}, Lamb{.beta2 = 1});
    ParamGroup all{.name = "all",
                   .params = test::param_ids({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
                   .layer_adaptation = true};
    refuses({"group all has layer_adaptation", "give a rule that has it"}, AdamW{},
            {.groups = ParamGroups(params.layout(), {all})});
    all.beta2 = 0.9;
    refuses({"group all has beta2, and LARS has none"}, lars,
            {.groups = ParamGroups(params.layout(), {all})});
    {
      ShardedOptimizer optimizer(params, lamb);
      test::expect_error(ErrorKind::usage, {"offloaded state"}, [&] { optimizer.offload(0.5); });
    }
    test::expect_error(ErrorKind::mismatch, {"different optimizers", "LARS"}, [&] {
      ShardedOptimizer(params, comm.rank() == 0 ? Optimizer(lamb) : Optimizer(lars));
    });
  });
}

/// A sum of 16 that is cut anywhere at a cache line: exact sums do not notice.
TEST(TensorNorms, DoNotDependOnTheCut) {
  const std::int64_t count = 333;
  Buffer gradient = Buffer::on_host(DataType::bf16, count);
  Buffer high = Buffer::on_host(DataType::bf16, count);
  Buffer low = Buffer::on_host(DataType::bf16, count);
  Buffer master = Buffer::on_host(DataType::f32, count);
  Buffer first = Buffer::on_host(DataType::f32, count);
  Buffer second = Buffer::on_host(DataType::f32, count);
  const ZeroTraining draw;
  double parameters = 0;
  double directions = 0;
  const detail::Direction direction{.rate = 1.5, .epsilon = 1e-3, .decay = 0.3};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float p = draw.noise(1, 0, ParamId{0}, i);
    const detail::SplitFloat halves = detail::split(p);
    high.as<BFloat16>()[at].bits = halves.high;
    low.as<BFloat16>()[at].bits = static_cast<std::uint16_t>(halves.low);
    master.as<float>()[at] = p;
    first.as<float>()[at] = draw.noise(2, 0, ParamId{0}, i);
    second.as<float>()[at] = std::abs(draw.noise(3, 0, ParamId{0}, i));
    const double u =
        1.5 * first.as<float>()[at] / (std::sqrt(static_cast<double>(second.as<float>()[at])) + 1e-3) +
        0.3 * p;
    parameters += static_cast<double>(p) * p;
    directions += u * u;
  }
  std::map<detail::Master, double> found;
  for (const detail::Master kept : {detail::Master::f32, detail::Master::split}) {
    const detail::StepSlice all{.gradient = gradient.view(),
                                .parameters = high.view(),
                                .master = kept == detail::Master::f32 ? master.view() : low.view(),
                                .first = first.view(),
                                .second = second.view(),
                                .kept = kept};
    detail::TensorSquares whole;
    detail::add_direction_squares(all, direction, whole);
    EXPECT_NEAR(whole.parameters.value(), parameters, 1e-12 * parameters);
    EXPECT_NEAR(whole.updates.value(), directions, 1e-12 * directions);
    for (const std::int64_t cut : {64, 128, 320}) {
      detail::TensorSquares parts;
      detail::add_direction_squares(detail::part(all, cut, count - cut), direction, parts);
      detail::add_direction_squares(detail::part(all, 0, cut), direction, parts);
      EXPECT_EQ(parts.parameters.value(), whole.parameters.value()) << cut;
      EXPECT_EQ(parts.updates.value(), whole.updates.value()) << cut;
    }
    found[kept] = whole.updates.value();
  }
  EXPECT_EQ(found[detail::Master::f32], found[detail::Master::split]);
}

}  // namespace
}  // namespace weft::zero
