// Muon: every stage, number of ranks and bucket size gives the same bits, near those of a twin that has whole matrices
// and multiplies them by plain loops in f64.

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.hpp"
#include "support/same_everywhere.hpp"
#include "zero/tensors/matrix_owners.hpp"
#include "zero/tensors/newton_schulz.hpp"

namespace weft::zero {
namespace {

using test::exact_training;
using test::expect_the_same_everywhere;
using test::ZeroTraining;
using Matrix = std::vector<double>;  // row-major

Matrix product(const Matrix& a, const Matrix& b, std::size_t rows, std::size_t inner, std::size_t columns) {
  Matrix result(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t k = 0; k < inner; ++k)
        result[i * columns + j] += a[i * inner + k] * b[k * columns + j];
    }
  }
  return result;
}

Matrix transposed(const Matrix& a, std::size_t rows, std::size_t columns) {
  Matrix result(a.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = a[i * columns + j];
  }
  return result;
}

/// As it is written in the paper, for rows <= columns; others are transposed before and after.
Matrix plain_newton_schulz(Matrix x, std::size_t rows, std::size_t columns, int steps) {
  if (rows > columns)
    return transposed(plain_newton_schulz(transposed(x, rows, columns), columns, rows, steps), columns, rows);
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares) + 1e-7;
  for (int step = 0; step < steps; ++step) {
    const Matrix gram = product(x, transposed(x, rows, columns), rows, columns, rows);
    Matrix polynomial = product(gram, gram, rows, rows, rows);
    for (std::size_t i = 0; i < gram.size(); ++i) polynomial[i] = -4.7750 * gram[i] + 2.0315 * polynomial[i];
    const Matrix moved = product(polynomial, x, rows, rows, columns);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + moved[i];
  }
  return x;
}

class WithBlas : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = test::why_no_blas()) GTEST_SKIP() << *why;
  }
};
class NewtonSchulz : public WithBlas {};
class Muons : public WithBlas {};

std::vector<float> drawn(std::size_t count, int seed) {
  const ZeroTraining draw;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = draw.noise(static_cast<std::uint64_t>(seed), 0, ParamId{0}, static_cast<std::int64_t>(i));
  return values;
}

std::vector<float> orthogonalized(std::vector<float> x, std::size_t rows, std::size_t columns,
                                  const detail::NewtonSchulz& how) {
  const auto m = static_cast<std::int64_t>(rows);
  const auto n = static_cast<std::int64_t>(columns);
  std::vector<float> workspace(static_cast<std::size_t>(detail::newton_schulz_workspace(m, n)));
  detail::orthogonalize(x, m, n, how, workspace);
  return x;
}

TEST_F(NewtonSchulz, IsNearAPlainTwin) {
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{7, 40}, {33, 9}, {24, 24}, {1, 5}}) {
    const std::vector<float> x = drawn(rows * columns, 3);
    const Matrix expected = plain_newton_schulz(Matrix(x.begin(), x.end()), rows, columns, 5);
    const std::vector<float> exact = orthogonalized(x, rows, columns, {.steps = 5});
    const std::vector<float> rounded = orthogonalized(x, rows, columns, {.steps = 5, .bf16_products = true});
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(exact[i], expected[i], 2e-5) << rows << " x " << columns << " at " << i;
      ASSERT_NEAR(rounded[i], expected[i], 0.05) << rows << " x " << columns << " at " << i;
      ASSERT_EQ(rounded[i], static_cast<float>(BFloat16(rounded[i])));
    }
    EXPECT_NE(exact, rounded);
  }
}

/// The coefficients bring singular values into 0.68 to 1.13 and no closer (Jordan et al.).
TEST_F(NewtonSchulz, MovesSingularValuesCloseToOne) {
  const std::size_t rows = 12;
  const std::size_t columns = 100;
  const std::vector<float> x = orthogonalized(drawn(rows * columns, 4), rows, columns, {});
  const Matrix wide(x.begin(), x.end());
  const Matrix gram = product(wide, transposed(wide, rows, columns), rows, columns, rows);
  double trace = 0;
  for (std::size_t i = 0; i < rows; ++i) trace += gram[i * rows + i];
  EXPECT_NEAR(trace / rows, 0.85, 0.4);
  const std::vector<float> zeros = orthogonalized(std::vector<float>(40), 4, 10, {});
  EXPECT_EQ(zeros, std::vector<float>(40)) << "a matrix without gradient stays";
}

TEST_F(NewtonSchulz, SaysWhatToInstall) {
  test::expect_error(ErrorKind::usage, {"no BLAS", "libthere_is_none.so", "install OpenBLAS", "libopenblas0"},
                     [] { detail::load_blas("libthere_is_none.so"); });
  detail::load_blas();
}

const Muon muon_rule{.learning_rate = 0.02,
                     .momentum = 0.9,
                     .weight_decay = 0.1,
                     .others = {.learning_rate = 1e-2, .weight_decay = 0.05}};

/// One tensor of 8 + number rows, and 40 columns where it is a matrix; stored values are f32, all else is f64.
std::vector<float> twin_of(const ZeroTraining& job, int number, const Muon& muon, bool is_matrix) {
  const ParamLayout layout = ZeroTraining::layout_of_matrices();
  const auto count = static_cast<std::size_t>(layout.count(ParamId{number}));
  const auto rows = static_cast<std::size_t>(layout.shape(ParamId{number}).front());
  std::vector<float> p(count), first(count), second(count);
  for (std::size_t i = 0; i < count; ++i)
    p[i] = 0.1F * job.noise(0, 0, ParamId{number}, static_cast<std::int64_t>(i));
  for (int step = 0; step < job.steps; ++step) {
    const double rate = job.learning_rate(step);
    Matrix update(count);
    const AdamW& adam = muon.others;
    for (std::size_t i = 0; i < count; ++i) {
      double g = 0;
      for (int part = 0; part < job.parts; ++part)
        g += job.slope_at(0, step, part, ParamId{number}, static_cast<std::int64_t>(i));
      g /= job.parts;
      if (is_matrix) {
        first[i] = static_cast<float>(muon.momentum * first[i] + (1 - muon.momentum) * g);
        update[i] = (1 - muon.momentum) * g + muon.momentum * first[i];
        continue;
      }
      first[i] = static_cast<float>(adam.beta1 * first[i] + (1 - adam.beta1) * g);
      second[i] = static_cast<float>(adam.beta2 * second[i] + (1 - adam.beta2) * g * g);
      const double m = first[i] / (1 - std::pow(adam.beta1, step + 1));
      const double v = second[i] / (1 - std::pow(adam.beta2, step + 1));
      const double own_rate = rate * adam.learning_rate / muon.learning_rate;
      p[i] = static_cast<float>(p[i] * (1 - own_rate * adam.weight_decay) -
                                own_rate * m / (std::sqrt(v) + adam.epsilon));
    }
    if (!is_matrix) continue;
    const Matrix x = plain_newton_schulz(update, rows, 40, muon.ns_steps);
    const double factor = muon.adjust_lr == MuonRate::original
                              ? std::sqrt(std::max(1.0, static_cast<double>(rows) / 40))
                              : 0.2 * std::sqrt(std::max(static_cast<double>(rows), 40.0));
    for (std::size_t i = 0; i < count; ++i)
      p[i] = static_cast<float>(p[i] - rate * (factor * x[i] + muon.weight_decay * p[i]));
  }
  return p;
}

using IsMatrix = std::function<bool(int number)>;
void expect_near_twin(const ZeroTraining& job, const IsMatrix& is_matrix) {
  const std::vector<float> values = job.run().parameters;
  std::vector<float> expected;
  for (int i = 0; i < ZeroTraining::parameters; ++i) {
    const std::vector<float> one = twin_of(job, i, std::get<Muon>(job.optimizer), is_matrix(i));
    expected.insert(expected.end(), one.begin(), one.end());
  }
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 2e-6) << "at " << i;
}

TEST_F(Muons, IsThePublishedAlgorithm) {
  expect_near_twin(exact_training(muon_rule), [](int i) { return i % 2 == 0; });
  Muon other = muon_rule;
  other.adjust_lr = MuonRate::match_rms_adamw;
  other.ns_steps = 3;
  expect_near_twin(exact_training(other), [](int i) { return i % 2 == 0; });
}

TEST_F(Muons, HasTheSameBitsInEveryStageForAnyRanksAndBuckets) {
  expect_the_same_everywhere(exact_training(muon_rule));
  Muon rounded = muon_rule;
  rounded.bf16_products = true;
  ZeroTraining job = exact_training(rounded);
  job.stepping.clip_norm = 3.0;
  EXPECT_GT(job.run().norms.front(), 3) << "there should be something to clip";
  expect_the_same_everywhere(job);
}

TEST_F(Muons, SoHaveSixteenBitsWithEitherMaster) {
  for (const Master master : {Master::f32, Master::split}) {
    ZeroTraining job = exact_training(muon_rule);
    job.dtype = DataType::bf16;
    job.stepping = {.loss_scale = LossScalerOptions{.initial = 8}, .master = master};
    expect_the_same_everywhere(job);
  }
}

TEST_F(Muons, ShardsMayLieWithinGroupsOfRanks) {
  ZeroTraining job = exact_training(muon_rule);
  const ZeroTraining::Result reference = job.run();
  job.ranks = 4;
  job.sharding.shard_ranks = 2;
  EXPECT_TRUE(job.run() == reference);
}

TEST_F(Muons, GroupsSayWhatIsOrthogonalized) {
  ZeroTraining job = exact_training(muon_rule);
  job.stepping.groups =
      ParamGroups(ZeroTraining::layout_of_matrices(),
                  {{.name = "adamw", .params = test::param_ids({0, 2, 3}), .use_muon = false},
                   {.name = "muon", .params = test::param_ids({4, 6}), .use_muon = true},
                   {.name = "as named", .params = test::param_ids({1, 5, 7, 8, 9, 10, 11})}});
  expect_near_twin(job, [](int i) { return i % 2 == 0 && i > 2; });
  expect_the_same_everywhere(job);
}

TEST_F(Muons, FrozenMatricesAreLeftOut) {
  ZeroTraining job = exact_training(muon_rule);
  job.stepping.groups =
      ParamGroups(ZeroTraining::layout_of_matrices(),
                  {{.name = "frozen", .params = test::param_ids({0, 6}), .frozen = true},
                   {.name = "all", .params = test::param_ids({1, 2, 3, 4, 5, 7, 8, 9, 10, 11})}});
  job.sharding.frozen = job.stepping.groups->frozen();
  expect_the_same_everywhere(job);
}

TEST_F(Muons, IsRefusedWhereItCannotBe) {
  run_as_threads(2, [](Communicator comm) {
    ShardedParams params(comm, ZeroTraining::layout_of_matrices(), {.stage = 2});
    const auto refuses = [&](std::initializer_list<std::string> parts, const Optimizer& muon,
                             const ShardedOptimizerOptions& options = {}) {
      test::expect_error(ErrorKind::usage, parts, [&] { ShardedOptimizer(params, muon, options); });
    };
    refuses({"offloaded state", "Muon"}, muon_rule, {.offload = {.share = 1}});
    refuses({"Muon's learning_rate is 0", "in proportion"}, Muon{.learning_rate = 0});
    refuses({"ns_steps is 0", "1 to 20"}, Muon{.ns_steps = 0});
    refuses({"epsilon is 0"}, Muon{.others = {.epsilon = 0}});
    ParamGroup all{
        .name = "all", .params = test::param_ids({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), .use_muon = true};
    const auto groups = [&] {
      return ShardedOptimizerOptions{.groups = ParamGroups(params.layout(), {all})};
    };
    refuses({"group all has use_muon and parameter1, which is a vector", "another group"}, muon_rule,
            groups());
    refuses({"group all has use_muon, and a rule other than Muon has none"}, AdamW{}, groups());
    all.beta2 = 0.9;
    refuses({"group all has beta2, and Muon has none"}, muon_rule, groups());
    ShardedParams halves(comm, ZeroTraining::layout_of_matrices(DataType::f16), {.stage = 2});
    test::expect_error(ErrorKind::usage, {"Muon of parameters of f16", "bf16"},
                       [&] { ShardedOptimizer(halves, muon_rule); });
  });
}

TEST(MatrixOwners, KnowHiddenMatricesByShapeAndName) {
  const auto is_hidden = [](const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t one : shape) count *= one;
    return detail::is_hidden_matrix(
        ParamLayout(DataType::f32, {{.name = name, .count = count, .shape = shape}}), ParamId{0});
  };
  for (const char* name : {"block0.mlp.expand.weight", "w", "attention.heads.weight", "header"})
    EXPECT_TRUE(is_hidden(name, {4, 8})) << name;
  for (const char* name :
       {"embedding.tokens", "transformer.wte.weight", "wpe", "head.weight", "lm_head", "model.head"})
    EXPECT_FALSE(is_hidden(name, {4, 8})) << name;
  EXPECT_FALSE(is_hidden("w", {32}));
  EXPECT_TRUE(is_hidden("convolution", {4, 2, 3, 3}));
}

/// The hidden matrices of gpt-ref: 5 blocks of width 384.
ParamLayout gpt_ref() {
  std::vector<ParamSpec> specs;
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    specs.push_back({.name = name, .count = rows * columns, .shape = {rows, columns}});
  };
  add("embedding.tokens", 256, 384);
  for (int i = 0; i < 5; ++i) {
    const std::string block = "block" + std::to_string(i);
    add(block + ".attention.qkv.weight", 3 * 384, 384);
    add(block + ".attention.project.weight", 384, 384);
    add(block + ".mlp.expand.weight", 4 * 384, 384);
    add(block + ".mlp.project.weight", 384, 4 * 384);
  }
  add("head.weight", 256, 384);
  return ParamLayout(DataType::f32, specs);
}

TEST(MatrixOwners, MultiplyEquallyLong) {
  const ParamLayout layout = gpt_ref();
  const std::vector<ParamId> hidden = detail::hidden_matrices(layout);
  EXPECT_EQ(hidden.size(), 20U);
  for (const int ranks : {1, 2, 3, 4}) {
    const detail::MatrixOwners owners(layout, hidden, ranks);
    double sum = 0;
    for (const double cost : owners.costs()) sum += cost;
    for (const double cost : owners.costs()) EXPECT_NEAR(cost / (sum / ranks), 1, 0.1) << ranks << " ranks";
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t elements = 0;
      for (const auto& matrix : owners.matrices()) elements += matrix.owner == rank ? matrix.count() : 0;
      EXPECT_LE(elements, owners.owned_elements());
    }
    for (const auto& a : owners.matrices()) {
      for (const auto& b : owners.matrices()) {
        const bool apart = a.owner != b.owner || a.at + a.count() <= b.at || b.at + b.count() <= a.at;
        EXPECT_TRUE(apart || a.id == b.id) << "two matrices in one place";
      }
    }
  }
}

}  // namespace
}  // namespace weft::zero
