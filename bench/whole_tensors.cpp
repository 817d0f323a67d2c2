// The step of rules that need whole tensors on the parameters of gpt-ref under ZeRO, beside AdamW's step and the
// products that Muon's owners do, alone. A step here is all that follows backward: gradients, ready at once, are reduced
// to shards, which are updated, and new parameters are gathered. Contestants take turns, round after round.
//
//   OPENBLAS_NUM_THREADS=1 weft-launch -n 4 bench_whole_tensors [ROUNDS] [STAGE]      default: 10 rounds, stage 2
//
// "products" multiplies random matrices of the sizes that the rank with most owns, as often as Newton and Schulz do,
// on all ranks at once: the time of a rank's share at the rate of the GEMM. All three products of a step are whole ones
// there, as they are published; Muon's step multiplies half of the two that are symmetric.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"
#include "zero/tensors/matrix_owners.hpp"
#include "zero/tensors/newton_schulz.hpp"

namespace {

using namespace weft;

ParamLayout gpt_ref() {
  constexpr std::int64_t width = 384;
  std::vector<ParamSpec> specs;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t one : shape) count *= one;
    specs.push_back({.name = name, .count = count, .shape = std::move(shape)});
  };
  const auto linear = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    add(name + ".weight", {outputs, inputs});
    add(name + ".bias", {outputs});
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".gain", {width});
    add(name + ".bias", {width});
  };
  add("embedding.tokens", {256, width});
  add("embedding.positions", {128, width});
  for (int i = 0; i < 5; ++i) {
    const std::string block = text("block", i);
    norm(block + ".attention.norm");
    linear(block + ".attention.qkv", 3 * width, width);
    linear(block + ".attention.project", width, width);
    norm(block + ".mlp.norm");
    linear(block + ".mlp.expand", 4 * width, width);
    linear(block + ".mlp.project", width, 4 * width);
  }
  norm("norm");
  add("head.weight", {256, width});
  return ParamLayout(DataType::f32, specs);
}

class Trained {
 public:
  Trained(const Communicator& comm, const ParamLayout& layout, int stage, const zero::Optimizer& rule)
      : params_(comm, layout, {.stage = stage}), optimizer_(start(params_), rule) {}

  void step() {
    const Stream compute;
    params_.begin_step();
    for (int i = params_.layout().parameters() - 1; i >= 0; --i) {
      const View gradient = params_.gradient(ParamId{i}, compute);
      for (std::size_t k = 0; k < gradient.as<float>().size(); ++k)
        gradient.as<float>()[k] = 1e-3F * static_cast<float>((k * 7919 + 13) % 101) - 0.05F;
      params_.mark_ready(ParamId{i}, compute);
    }
    optimizer_.step(compute);
    params_.gather_all(compute);
    Stream(compute).synchronize();
  }
  std::uint64_t wire_bytes() const { return params_.wire_bytes(); }

 private:
  static zero::ShardedParams& start(zero::ShardedParams& params) {
    for (int i = 0; i < params.layout().parameters(); ++i) {
      Buffer values = Buffer::on_host(DataType::f32, params.layout().count(ParamId{i}));
      for (std::size_t k = 0; k < values.as<float>().size(); ++k)
        values.as<float>()[k] = 1e-3F * static_cast<float>(k % 37) - 0.018F;
      params.load(ParamId{i}, values.view());
    }
    return params;
  }

  zero::ShardedParams params_;
  zero::ShardedOptimizer optimizer_;
};

/// The products of one rank's matrices, without anything else.
class Products {
 public:
  Products(const detail::MatrixOwners& owners, int steps) : steps_(steps) {
    const auto& costs = owners.costs();
    const auto most = static_cast<int>(std::ranges::max_element(costs) - costs.begin());
    for (const auto& matrix : owners.matrices()) {
      if (matrix.owner == most)
        sizes_.push_back({std::min(matrix.rows, matrix.columns), std::max(matrix.rows, matrix.columns)});
    }
    x_.assign(static_cast<std::size_t>(owners.workspace_elements()), 0.01F);
    gram_ = next_ = x_;
  }

  void multiply() {
    for (const auto& [m, n] : sizes_) {
      for (int step = 0; step < steps_; ++step) {
        detail::multiply({.m = m, .n = m, .k = n, .b_transposed = true}, x_.data(), x_.data(), gram_.data());
        detail::multiply({.m = m, .n = m, .k = m}, gram_.data(), gram_.data(), next_.data());
        detail::multiply({.m = m, .n = n, .k = m}, gram_.data(), x_.data(), next_.data());
      }
    }
  }
  double operations() const {
    double sum = 0;
    for (const auto& [m, n] : sizes_) sum += steps_ * static_cast<double>(4 * m * m * n + 2 * m * m * m);
    return sum;
  }

 private:
  struct Size {
    std::int64_t m, n;
  };
  int steps_;
  std::vector<Size> sizes_;
  std::vector<float> x_, gram_, next_;
};

int run(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  const int stage = argc > 2 ? std::atoi(argv[2]) : 2;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: bench_whole_tensors [ROUNDS] [STAGE], 1 or more rounds\n");
    return 42;
  }
  Communicator comm = connect(World::from_environment());
  comm.slow_after(std::chrono::minutes(1));
  const ParamLayout layout = gpt_ref();
  const detail::MatrixOwners owners(layout, detail::hidden_matrices(layout), comm.size());
  const zero::Muon muon;
  Trained by_adamw(comm, layout, stage, zero::AdamW{});
  Trained by_muon(comm, layout, stage, muon);
  Trained by_lamb(comm, layout, stage, zero::Lamb{});
  Trained by_lars(comm, layout, stage, zero::Lars{});
  Products products(owners, muon.ns_steps);
  const auto together = [&comm](const auto& work) {
    return [&comm, &work](int) {
      comm.barrier(Stream()).wait();
      work();
      comm.barrier(Stream()).wait();
    };
  };
  const auto step_of = [](Trained& one) { return [&one] { one.step(); }; };
  const auto adamw_step = step_of(by_adamw), muon_step = step_of(by_muon), lamb_step = step_of(by_lamb),
             lars_step = step_of(by_lars);
  const auto multiply = [&products] { products.multiply(); };
  std::vector<bench::Case> cases{{"AdamW", together(adamw_step)},
                                 {"products", together(multiply)},
                                 {"Muon", together(muon_step)},
                                 {"LAMB", together(lamb_step)},
                                 {"LARS", together(lars_step)}};
  bench::in_turn(cases, rounds);
  const std::uint64_t before = by_muon.wire_bytes();
  by_muon.step();
  const double sent = static_cast<double>(by_muon.wire_bytes() - before) * 1e-6;
  if (comm.rank() != 0) return 0;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < cases[0].seconds.size(); ++i)
    ratios.push_back(cases[2].seconds[i] / (1.1 * cases[0].seconds[i] + cases[1].seconds[i]));
  for (bench::Case& one : cases) {
    const double middle = bench::median(one.seconds);
    std::printf("%-10s %8.1f ms (%.1f to %.1f)\n", one.name.c_str(), middle * 1e3, one.seconds.front() * 1e3,
                one.seconds.back() * 1e3);
  }
  const double mean = [&] {
    double sum = 0;
    for (const double cost : owners.costs()) sum += cost;
    return sum / comm.size();
  }();
  const double middle = bench::median(ratios);
  std::printf("GEMM       %8.1f Gflop/s a rank, all at once\n",
              products.operations() / cases[1].seconds[cases[1].seconds.size() / 2] * 1e-9);
  std::printf("Muon's step is %.3f (%.3f to %.3f) of 1.1 x AdamW's + a rank's products, by round\n", middle,
              ratios.front(), ratios.back());
  std::printf("owners: %.3f to %.3f of the mean; Muon's step sends %.1f MB a rank\n",
              std::ranges::min(owners.costs()) / mean, std::ranges::max(owners.costs()) / mean, sent);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
