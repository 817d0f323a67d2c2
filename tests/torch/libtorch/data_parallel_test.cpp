#include "weft/torch/data_parallel.hpp"

#include <torch/optim.h>
#include <torch/serialize.h>

#include <map>
#include <sstream>

#include "torch/libtorch/ranks.hpp"
#include "weft/compression/hook_named.hpp"

namespace libtorch_tests {
namespace {

constexpr int steps = 5;

std::unique_ptr<torch::optim::Optimizer> optimizer_named(const std::string& name, Net& net) {
  if (name == "adamw")
    return std::make_unique<torch::optim::AdamW>(net->parameters(), torch::optim::AdamWOptions(0.01));
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

/// The slow twin: one process accumulates the gradients of all ranks' batches, in rank order, and divides.
std::vector<at::Tensor> trained_alone(int ranks, const std::string& optimizer_name) {
  compute_with_one_thread();
  Net net;
  const auto optimizer = optimizer_named(optimizer_name, net);
  for (int step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    for (int rank = 0; rank < ranks; ++rank) loss_of(net, step * ranks + rank).backward();
    for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().div_(ranks);
    optimizer->step();
  }
  return copies(net->parameters());
}

struct Case {
  int ranks;
  As as;
  const char* optimizer;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.optimizer << " on " << one.ranks << (one.as == As::threads ? " threads" : " processes");
}

class Training : public testing::TestWithParam<Case> {};

TEST_P(Training, IsBitwiseThatOfASingleProcessThatAccumulatesTheSameBatches) {
  const auto [ranks, as, name] = GetParam();
  const std::vector<at::Tensor> wanted = trained_alone(ranks, name);
  for (const bool small_buckets : {false, true}) {
    on_ranks(ranks, as, [&, name = name](weft::Communicator comm) {
      Net net;
      weft::torch::DataParallelOptions options;
      if (small_buckets) options.buckets = weft::BucketBytes{4096};
      weft::torch::DataParallel dp(comm, *net, options);
      const auto optimizer = optimizer_named(name, net);
      for (int step = 0; step < steps; ++step) {
        optimizer->zero_grad();
        loss_of(net, step * dp.size() + dp.rank()).backward();
        optimizer->step();
      }
      expect_equal(net->parameters(), wanted);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Training,
                         testing::Values(Case{1, As::threads, "sgd"}, Case{2, As::threads, "sgd"},
                                         Case{4, As::threads, "sgd"}, Case{2, As::threads, "adamw"},
                                         Case{1, As::processes, "sgd"}, Case{2, As::processes, "sgd"},
                                         Case{4, As::processes, "sgd"}, Case{4, As::processes, "adamw"}),
                         [](const auto& one) {
                           return std::string(one.param.optimizer) + "_" + std::to_string(one.param.ranks) +
                                  (one.param.as == As::threads ? "_threads" : "_processes");
                         });

TEST(DataParallel, StartsFromTheParametersAndBuffersOfRankZero) {
  on_ranks(3, As::threads, [](weft::Communicator comm) {
    const auto make = [](int rank) {
      Net net(10. * rank);
      net->conv->bias.set_requires_grad(false);
      net->register_buffer("mask", torch::full({5}, rank == 0, torch::kBool));
      net->register_buffer("count", torch::full({}, rank, torch::kLong));
      net->register_buffer("columns", values({4, 6}, rank).t());
      return net;
    };
    Net net = make(comm.rank());
    const weft::torch::DataParallel dp(comm, *net);
    const Net wanted = make(0);
    expect_equal(net->parameters(), wanted->parameters());
    expect_equal(net->buffers(), wanted->buffers());
  });
}

TEST(DataParallel, ComparesInitialValuesWhereItIsAskedTo) {
  EXPECT_THROW(on_ranks(2, As::threads,
                        [](weft::Communicator comm) {
                          Net net(comm.rank());
                          weft::torch::DataParallelOptions options;
                          options.initial_values = weft::InitialValues::compare;
                          weft::torch::DataParallel dp(comm, *net, options);
                        }),
               weft::torch::Error);
}

TEST(DataParallel, GradientsAreViewsOfTheReducersMemoryAgainAfterEachZeroGrad) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    Net net;
    at::Tensor kept;
    {
      weft::torch::DataParallel dp(comm, *net);
      const void* place = dp.reducer().gradient(weft::ParamId{0}).data();
      for (const bool to_none : {true, false, true, true}) {
        clear_gradients(*net, to_none);
        loss_of(net, comm.rank()).backward();
        EXPECT_EQ(net->conv->weight.grad().data_ptr(), place);
        EXPECT_EQ(net->conv->weight.grad().sizes(), net->conv->weight.sizes());
      }
      kept = net->conv->weight.grad();
    }
    // Outlives DataParallel, its hooks and its communicator's last other owner.
    EXPECT_TRUE(torch::isfinite(kept).all().item<bool>());
    clear_gradients(*net, true);
    loss_of(net, 0).backward();
    EXPECT_NE(net->conv->weight.grad().data_ptr(), kept.data_ptr());
  });
}

TEST(DataParallel, PassesUnderNoSyncAccumulateAloneAndAreAveragedWithTheLast) {
  std::vector<at::Tensor> wanted;
  compute_with_one_thread();
  for (int rank = 0; rank < 2; ++rank) {
    Net net;
    for (int pass = 0; pass < 3; ++pass) loss_of(net, 3 * rank + pass).backward();
    for (std::size_t i = 0; i < net->parameters().size(); ++i) {
      const at::Tensor gradient = net->parameters()[i].grad();
      if (rank == 0)
        wanted.push_back(gradient.clone());
      else
        wanted[i].add_(gradient).div_(2);
    }
  }
  for (const bool to_none : {true, false}) {
    on_ranks(2, As::threads, [&](weft::Communicator comm) {
      Net net;
      weft::torch::DataParallel dp(comm, *net);
      for (int step = 0; step < 2; ++step) {
        clear_gradients(*net, to_none);
        {
          const auto alone = dp.no_sync();
          const std::uint64_t sent = comm.wire_bytes();
          for (int pass = 0; pass < 2; ++pass) loss_of(net, 3 * comm.rank() + pass).backward();
          EXPECT_EQ(comm.wire_bytes(), sent);
        }
        loss_of(net, 3 * comm.rank() + 2).backward();
        expect_equal(gradients(*net), wanted);
      }
    });
  }
}

TEST(DataParallel, WithoutZeroGradAMeanStaysAndTheNextIsAdded) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    Net net;
    const weft::torch::DataParallel dp(comm, *net);
    loss_of(net, comm.rank()).backward();
    const std::vector<at::Tensor> once = copies(gradients(*net));
    loss_of(net, comm.rank()).backward();
    for (std::size_t i = 0; i < once.size(); ++i)
      EXPECT_TRUE(torch::allclose(gradients(*net)[i], 2 * once[i]));
  });
}

TEST(DataParallel, AParameterThatOnlyOneRankUsesHasItsShareEverywhere) {
  Net alone;
  compute_with_one_thread();
  loss_of(alone, 1).backward();
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    const weft::torch::DataParallel dp(comm, *net);
    net->with_second = comm.rank() == 1;
    for (int step = 0; step < 2; ++step) {
      for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().reset();
      loss_of(net, comm.rank()).backward();
      EXPECT_TRUE(torch::equal(net->second->weight.grad(), alone->second->weight.grad() / 2));
    }
  });
}

TEST(DataParallel, AParameterThatNoRankUsesKeepsNoGradient) {
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    const weft::torch::DataParallel dp(comm, *net);
    net->with_second = false;
    loss_of(net, comm.rank()).backward();
    EXPECT_FALSE(net->second->weight.grad().defined());
    EXPECT_TRUE(net->first->weight.grad().defined());
  });
}

TEST(DataParallel, AParameterThatOnlyPassesUnderNoSyncUsedIsAveraged) {
  Net twin;
  compute_with_one_thread();
  std::vector<at::Tensor> of_rank;
  for (int rank = 0; rank < 2; ++rank) {
    twin->zero_grad();
    loss_of(twin, rank).backward();
    of_rank.push_back(twin->second->weight.grad().clone());
  }
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallel dp(comm, *net);
    {
      const auto alone = dp.no_sync();
      loss_of(net, comm.rank()).backward();
    }
    net->with_second = false;
    loss_of(net, comm.rank()).backward();
    EXPECT_TRUE(torch::equal(net->second->weight.grad(), (of_rank[0] + of_rank[1]) / 2));
  });
}

struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 3).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(3));
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& images) { return norm(conv(images)).pow(2).mean(); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};
TORCH_MODULE(Normed);

TEST(DataParallel, BuffersAreThoseOfRankZeroAfterEachBackward) {
  compute_with_one_thread();
  Normed twin;
  for (int step = 0; step < 3; ++step) static_cast<void>(twin(values({4, 1, 8, 8}, 2 * step)));
  for (const bool broadcasts : {true, false}) {
    on_ranks(2, As::threads, [&](weft::Communicator comm) {
      Normed net;
      weft::torch::DataParallelOptions options;
      options.broadcast_buffers = broadcasts;
      const weft::torch::DataParallel dp(comm, *net, options);
      for (int step = 0; step < 3; ++step) net(values({4, 1, 8, 8}, 2 * step + comm.rank())).backward();
      if (broadcasts || comm.rank() == 0) {
        expect_equal(net->buffers(), twin->buffers());
      } else {
        EXPECT_FALSE(torch::equal(net->norm->running_mean, twin->norm->running_mean));
      }
    });
  }
}

std::string saved(const Net& net) {
  std::ostringstream out;
  torch::save(net, out);
  return out.str();
}

TEST(DataParallel, LeavesTheStateDictAsItWas) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    Net net;
    const std::string before = saved(net);
    {
      const weft::torch::DataParallel dp(comm, *net);
      EXPECT_EQ(saved(net), before);
      loss_of(net, comm.rank()).backward();
      EXPECT_EQ(saved(net), before);
    }
    EXPECT_EQ(saved(net), before);
  });
}

struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    in = register_module("in", torch::nn::Linear(torch::nn::LinearOptions(7, 7).bias(false)));
    out = register_module("out", torch::nn::Linear(torch::nn::LinearOptions(7, 7).bias(false)));
    out->weight = out->register_parameter("tied", in->weight);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) {
    return torch::nn::functional::linear(torch::tanh(in(x)), in->weight).pow(2).sum() + 0 * out->weight.sum();
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
};
TORCH_MODULE(Tied);

TEST(DataParallel, AParameterOfTwoLayersIsReducedOnce) {
  compute_with_one_thread();
  Tied twin;
  for (int rank = 0; rank < 2; ++rank) twin(values({3, 7}, rank)).backward();
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Tied net;
    const weft::torch::DataParallel dp(comm, *net);
    net(values({3, 7}, comm.rank())).backward();
    EXPECT_TRUE(torch::equal(net->in->weight.grad(), twin->in->weight.grad() / 2));
  });
}

TEST(DataParallel, GradientsHaveTheStridesOfTheirParameters) {
  compute_with_one_thread();
  Net twin;
  for (int rank = 0; rank < 2; ++rank) loss_of(twin, rank).backward();
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    {
      const torch::NoGradGuard no_graph;
      net->first->weight.set_data(net->first->weight.t().contiguous().t());  // columns lie together
    }
    const weft::torch::DataParallel dp(comm, *net);
    for (int step = 0; step < 2; ++step) {
      for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().reset();
      loss_of(net, comm.rank()).backward();
      EXPECT_EQ(net->first->weight.grad().strides(), net->first->weight.strides());
      EXPECT_TRUE(torch::allclose(net->first->weight.grad(), twin->first->weight.grad() / 2));
    }
  });
}

TEST(DataParallel, CodecsReduceGradientsAndRanksStayEqual) {
  const std::map<std::string, double> errors = {{"fp16", 1e-3}, {"bf16", 1e-2}, {"powersgd:4", 1.0}};
  compute_with_one_thread();
  Net twin;
  for (int rank = 0; rank < 2; ++rank) loss_of(twin, rank).backward();
  for (const auto& [code, error] : errors) {
    std::vector<std::vector<at::Tensor>> got(2);
    on_ranks(2, As::threads, [&, code = code](weft::Communicator comm) {
      Net net;
      weft::torch::DataParallelOptions options;
      options.hook = weft::hook_named(code, 0);
      const weft::torch::DataParallel dp(comm, *net, options);
      loss_of(net, comm.rank()).backward();
      got[static_cast<std::size_t>(comm.rank())] = copies(gradients(*net));
    });
    expect_equal(got[0], got[1]);
    const at::Tensor wanted = twin->first->weight.grad() / 2;
    EXPECT_LT((got[0][2] - wanted).norm().item<double>(), error * wanted.norm().item<double>()) << code;
    EXPECT_GT(got[0][2].norm().item<double>(), 0) << code;
  }
}

TEST(DataParallel, RanksWithoutBatchesJoinTheOthersSteps) {
  std::vector<std::vector<at::Tensor>> trained(2);
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallelOptions options;
    options.uneven = weft::Uneven::mean_of_the_rest;
    weft::torch::DataParallel dp(comm, *net, options);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    for (int step = 0; step < 2 + 3 * comm.rank(); ++step) {
      optimizer.zero_grad();
      loss_of(net, 7 * comm.rank() + step).backward();
      optimizer.step();
    }
    dp.join([&] { optimizer.step(); });
    trained[static_cast<std::size_t>(comm.rank())] = copies(net->parameters());
  });
  expect_equal(trained[0], trained[1]);
}

TEST(DataParallel, Moves) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallel first(comm, *net);
    weft::torch::DataParallel second = std::move(first);
    loss_of(net, comm.rank()).backward();
    EXPECT_EQ(second.size(), 2);
  });
}

}  // namespace
}  // namespace libtorch_tests
