#include "weft/torch/zero_optimizer.hpp"

#include <torch/optim.h>
#include <torch/serialize.h>

#include <sstream>

#include "torch/libtorch/ranks.hpp"
#include "weft/compression/hook_named.hpp"

namespace libtorch_tests {
namespace {

using weft::torch::ZeroOptimizer;
using weft::torch::ZeroOptions;

/// One rank's training; all ranks' batches are the same whatever their number is: 4 a step.
std::vector<at::Tensor> trained(weft::Communicator comm, const torch::optim::OptimizerOptions& rule,
                                ZeroOptions options) {
  Net net(comm.rank());  // rank 0's counts
  ZeroOptimizer optimizer(comm, *net, rule, options);
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    loss_of(net, step * comm.size() + comm.rank()).backward();
    EXPECT_THROW((void)net->conv->weight.grad().sum(), weft::torch::Error);
    optimizer.param_groups().front().options().set_lr(0.01 / (1 + step));
    optimizer.step();
  }
  return copies(net->parameters());
}

/// The slow twin: torch's optimizer, one process, all ranks' batches.
template <class Optimizer, class Options>
std::vector<at::Tensor> trained_by_torch(int ranks, const Options& rule) {
  compute_with_one_thread();
  Net net(0);
  Optimizer optimizer(net->parameters(), rule);
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    for (int rank = 0; rank < ranks; ++rank) loss_of(net, step * ranks + rank).backward();
    for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().div_(ranks);
    optimizer.param_groups().front().options().set_lr(0.01 / (1 + step));
    optimizer.step();
  }
  return copies(net->parameters());
}

/// Stages, buckets, threads and processes give the same bits, within rounding of torch's.
template <class Optimizer, class Options>
void expect_like_torch(const Options& rule) {
  for (const int ranks : {1, 2, 4}) {
    const std::vector<at::Tensor> wanted = trained_by_torch<Optimizer>(ranks, rule);
    std::vector<at::Tensor> first;
    for (const int stage : {1, 2}) {
      for (const std::optional<std::size_t> bucket_bytes :
           {std::optional<std::size_t>(), std::optional<std::size_t>(2048)}) {
        on_ranks(ranks, As::threads, [&](weft::Communicator comm) {
          const auto got = trained(comm, rule, {.stage = stage, .bucket_bytes = bucket_bytes});
          static std::mutex mutex;
          const std::lock_guard lock(mutex);
          if (first.empty()) first = got;
          expect_equal(got, first);
        });
      }
    }
    on_ranks(ranks, As::processes,
             [&](weft::Communicator comm) { expect_equal(trained(comm, rule, {}), first); });
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(torch::allclose(first[i], wanted[i], 1e-4, 1e-6))
          << "parameter " << i << " on " << ranks << " ranks: " << (first[i] - wanted[i]).abs().max();
  }
}

TEST(ZeroOptimizer, TrainsLikeAdamW) {
  expect_like_torch<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).weight_decay(0.1));
}

TEST(ZeroOptimizer, TrainsLikeAdam) {
  expect_like_torch<torch::optim::Adam>(torch::optim::AdamOptions(0.01).weight_decay(0.1).betas({0.8, 0.99}));
}

TEST(ZeroOptimizer, TrainsLikeSgd) {
  expect_like_torch<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
}

TEST(ZeroOptimizer, KeepsAPartOfTheState) {
  std::vector<std::int64_t> bytes;
  for (const int ranks : {1, 4}) {
    on_ranks(ranks, As::threads, [&](weft::Communicator comm) {
      Net net;
      ZeroOptimizer optimizer(comm, *net, torch::optim::AdamWOptions(0.01));
      if (comm.rank() == 0) bytes.push_back(optimizer.sharded().state_bytes());
    });
  }
  EXPECT_LT(bytes[1], bytes[0] / 3);
}

TEST(ZeroOptimizer, PassesUnderNoSyncAddUp) {
  compute_with_one_thread();
  Net twin;
  torch::optim::SGD by_torch(twin->parameters(), 0.1);
  for (int pass = 0; pass < 4; ++pass) loss_of(twin, pass).backward();
  for (at::Tensor& parameter : twin->parameters()) parameter.mutable_grad().div_(2);
  by_torch.step();
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1));
    {
      const auto alone = optimizer.no_sync();
      loss_of(net, 2 * comm.rank()).backward();
      EXPECT_TRUE(net->conv->weight.grad().defined());
    }
    loss_of(net, 2 * comm.rank() + 1).backward();
    optimizer.step();
    for (std::size_t i = 0; i < twin->parameters().size(); ++i)
      EXPECT_TRUE(torch::allclose(net->parameters()[i], twin->parameters()[i], 1e-5, 1e-7)) << i;
  });
}

TEST(ZeroOptimizer, AParameterWithoutAGradientCountsAsZero) {
  for (const int stage : {1, 2}) {
    on_ranks(2, As::threads, [&](weft::Communicator comm) {
      Net net;
      const at::Tensor before = net->second->weight.detach().clone();
      ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.5).weight_decay(0.5), {.stage = stage});
      net->with_second = false;
      loss_of(net, comm.rank()).backward();
      optimizer.step();
      EXPECT_TRUE(torch::allclose(net->second->weight, 0.75 * before));
    });
  }
}

TEST(ZeroOptimizer, ClipsByTheNormOfAllGradients) {
  compute_with_one_thread();
  Net twin;
  loss_of(twin, 0).backward();
  const double norm = torch::nn::utils::clip_grad_norm_(twin->parameters(), 0.01);
  ASSERT_GT(norm, 0.01);
  torch::optim::SGD(twin->parameters(), 1.0).step();
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(1.0), {.clip_norm = 0.01});
    optimizer.step([&] {
      const at::Tensor loss = loss_of(net, 0);
      loss.backward();
      return loss;
    });
    for (std::size_t i = 0; i < twin->parameters().size(); ++i)
      EXPECT_TRUE(torch::allclose(net->parameters()[i], twin->parameters()[i], 1e-4, 1e-6)) << i;
  });
}

TEST(ZeroOptimizer, ParametersOutliveIt) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    Net net;
    {
      ZeroOptimizer optimizer(comm, *net, torch::optim::AdamWOptions(0.01),
                              {.hook = weft::hook_named("fp16")});
      loss_of(net, comm.rank()).backward();
      optimizer.step();
    }
    std::ostringstream out;
    torch::save(net, out);
    Net loaded(5);
    std::istringstream in(out.str());
    torch::load(loaded, in);
    expect_equal(loaded->parameters(), net->parameters());
    loss_of(net, 0).backward();
    EXPECT_TRUE(net->conv->weight.grad().defined());
  });
}

void expect_refused(const std::string& part, const std::function<void(weft::Communicator, Net&)>& body) {
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    try {
      body(comm, net);
      ADD_FAILURE() << "nothing was thrown: " << part;
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  });
}

TEST(ZeroOptimizer, RefusesWhatItDoesNotDo) {
  const auto made_with = [](const torch::optim::OptimizerOptions& rule, int stage = 2) {
    const std::shared_ptr<torch::optim::OptimizerOptions> kept = rule.clone();
    return [kept, stage](weft::Communicator comm, Net& net) {
      ZeroOptimizer(comm, *net, *kept, {.stage = stage});
    };
  };
  expect_refused("amsgrad", made_with(torch::optim::AdamWOptions(0.1).amsgrad(true)));
  expect_refused("dampening 0.5", made_with(torch::optim::SGDOptions(0.1).dampening(0.5)));
  expect_refused("nesterov", made_with(torch::optim::SGDOptions(0.1).momentum(0.5).nesterov(true)));
  expect_refused("options that are not", made_with(torch::optim::AdagradOptions(0.1)));
  expect_refused("stage 3", made_with(torch::optim::AdamWOptions(0.1), 3));
  expect_refused("frozen", [&](weft::Communicator comm, Net& net) {
    for (at::Tensor& parameter : net->parameters()) parameter.set_requires_grad(false);
    ZeroOptimizer(comm, *net, torch::optim::SGDOptions(0.1));
  });
  expect_refused("two backward passes before step()", [](weft::Communicator comm, Net& net) {
    const ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1));
    loss_of(net, 0).backward();
    loss_of(net, 0).backward();
  });
  expect_refused("step() without a backward pass", [](weft::Communicator comm, Net& net) {
    ZeroOptimizer(comm, *net, torch::optim::SGDOptions(0.1)).step();
  });
  expect_refused("a constant of the rule was changed", [](weft::Communicator comm, Net& net) {
    ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1));
    loss_of(net, 0).backward();
    static_cast<torch::optim::SGDOptions&>(optimizer.param_groups().front().options()).weight_decay(0.1);
    optimizer.step();
  });
  expect_refused("torch::save of sharded state", [](weft::Communicator comm, Net& net) {
    const ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1));
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
  });
}

}  // namespace
}  // namespace libtorch_tests
