// What programs do with modules, gradients and optimizers beside backward() and step(): a row for each line of the table
// "What torch offers" of docs/libtorch.md. Each works as in one process, or is an error at the call.

#include <torch/autograd.h>
#include <torch/nn/utils.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>

#include "torch/libtorch/ranks.hpp"
#include "weft/torch/zero_optimizer.hpp"

namespace libtorch_tests {
namespace {

using weft::torch::DataParallel;
using weft::torch::DataParallelOptions;
using weft::torch::ZeroOptimizer;

/// `body` on two ranks, each with a Net; an exception that leaves it fails the test.
void on_two(const std::function<void(weft::Communicator, Net&)>& body) {
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    Net net;
    body(std::move(comm), net);
  });
}

/// Every rank gets an Error of weft, whose message has the parts.
void expect_refused(std::initializer_list<std::string> parts,
                    const std::function<void(weft::Communicator, Net&)>& body) {
  on_two([&](weft::Communicator comm, Net& net) {
    try {
      body(comm, net);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const weft::torch::Error& error) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
            << "no '" << part << "' in: " << error.what();
    }
  });
}

/// The gradients that the batches of two ranks have together, divided by two: one process, one batch after the other.
std::vector<at::Tensor> mean_gradients(Net& net, int first) {
  clear_gradients(*net, true);
  for (int rank = 0; rank < 2; ++rank) loss_of(net, first + rank).backward();
  for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().div_(2);
  return copies(gradients(*net));
}

void expect_close(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(torch::allclose(got[i], wanted[i], 1e-5, 1e-6))
        << i << ": " << (got[i] - wanted[i]).abs().max();
}

// What a step frees.

#ifdef __GLIBC__
TEST(FreedMemory, StaysWithTheProcessForTheNextStep) {
  on_two([](weft::Communicator comm, Net& net) { const DataParallel dp(std::move(comm), *net); });
  constexpr std::size_t block = std::size_t{1} << 20;
  constexpr int blocks = 24;
  std::vector<void*> all;
  all.reserve(blocks);  // what lay between blocks would end the heap's top
  // By itself, glibc takes them from mmap() first, and from its heap from then on.
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < blocks; ++i) {
      all.push_back(std::malloc(block));
      std::memset(all.back(), 1, block);
    }
    for (void* one : all) std::free(one);
    all.clear();
  }
  if (std::getenv("MALLOC_TRIM_THRESHOLD_") == nullptr) {
    EXPECT_GE(mallinfo2().keepcost, (blocks - 4) * block) << "glibc has given the top of its heap back";
  } else {  // torch_libtorch.malloc_setting sets it to less than a block
    EXPECT_LT(mallinfo2().keepcost, block) << "a setting of the environment does not hold";
  }
}
#endif

// A parameter belongs to one exchange.

/// A layout by hand that knows where parameters are.
weft::ParamLayout layout_of(const torch::nn::Module& module) {
  std::vector<weft::ParamSpec> specs;
  for (const auto& one : module.named_parameters())
    specs.push_back({one.key(), one.value().numel(), one.value().data_ptr()});
  return {weft::DataType::f32, std::move(specs)};
}

/// All that exchanges a module's gradients, wrapped or by hand.
struct Exchange {
  const char* name;
  std::function<std::shared_ptr<void>(const weft::Communicator&, torch::nn::Module&)> make;
};
std::shared_ptr<void> zero_optimizer(const weft::Communicator& comm, torch::nn::Module& module, int stage) {
  return std::make_shared<ZeroOptimizer>(comm, module, torch::optim::SGDOptions(0.1),
                                         weft::torch::ZeroOptions{.stage = stage});
}
std::shared_ptr<void> sharded(const weft::Communicator& comm, torch::nn::Module& module, int stage) {
  return std::make_shared<weft::zero::ShardedParams>(comm, layout_of(module),
                                                     weft::zero::ShardedOptions{.stage = stage});
}
const std::vector<Exchange> exchanges = {
    {"DataParallel", [](const weft::Communicator& comm,
                        torch::nn::Module& module) { return std::make_shared<DataParallel>(comm, module); }},
    {"DataParallel",
     [](const weft::Communicator& comm, torch::nn::Module& module) {
       DataParallelOptions options;
       options.gradients_in_place = true;
       return std::make_shared<DataParallel>(comm, module, options);
     }},
    {"ZeroOptimizer", [](const weft::Communicator& comm,
                         torch::nn::Module& module) { return zero_optimizer(comm, module, 1); }},
    {"ZeroOptimizer", [](const weft::Communicator& comm,
                         torch::nn::Module& module) { return zero_optimizer(comm, module, 2); }},
    {"GradientReducer",
     [](const weft::Communicator& comm, torch::nn::Module& module) {
       return std::make_shared<weft::GradientReducer>(comm, layout_of(module));
     }},
    {"ShardedParams",
     [](const weft::Communicator& comm, torch::nn::Module& module) { return sharded(comm, module, 0); }},
    {"ShardedParams",
     [](const weft::Communicator& comm, torch::nn::Module& module) { return sharded(comm, module, 2); }},
    {"ShardedParams",
     [](const weft::Communicator& comm, torch::nn::Module& module) { return sharded(comm, module, 3); }}};

/// What `body` throws, of weft's or torch's kind.
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_in(const std::string& part, const std::string& message) {
  EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
}

TEST(Uses, EachPairOfExchangesOverAParameterIsRefusedInEitherOrder) {
  for (std::size_t one = 0; one < exchanges.size(); ++one) {
    for (std::size_t other = 0; other < exchanges.size(); ++other) {
      SCOPED_TRACE(testing::Message() << "row " << one << ", then row " << other);
      on_two([&](weft::Communicator comm, Net& net) {
        const weft::Communicator broken = *comm.split(0, comm.rank());
        const Exchange &first = exchanges[one], &second = exchanges[other];
        {
          const auto there = first.make(comm, *net);
          const std::string message = message_of([&] { second.make(broken, *net->head); });
          expect_in(std::string(second.name) + ": parameter weight belongs to ", message);
          expect_in(std::string(first.name) + " of this process, which still lives", message);
        }
        second.make(comm, *net->head);
      });
    }
  }
}

// A reducer by hand knows memory, which set_data() changes: whoever of the two comes second in using it is refused.
TEST(Uses, AReducerByHandOverMemoryThatAParameterGotLaterIsRefused) {
  expect_refused({"conv.weight belongs to a GradientReducer"}, [](weft::Communicator comm, Net& net) {
    const DataParallel dp(*comm.split(0, comm.rank()), *net);
    const at::Tensor later = net->conv->weight.detach().clone();
    net->conv->weight.set_data(later);
    const weft::GradientReducer reducer(
        comm, weft::ParamLayout(weft::DataType::f32, {{"later", later.numel(), later.data_ptr()}}));
    loss_of(net, 0).backward();
  });
  on_two([](weft::Communicator comm, Net& net) {
    const weft::Communicator broken = *comm.split(0, comm.rank());
    const DataParallel dp(comm, *net);
    const at::Tensor before = net->conv->weight.detach();
    net->conv->weight.set_data(before.clone());
    loss_of(net, 0).backward();
    const weft::GradientReducer free(
        comm, weft::ParamLayout(weft::DataType::f32, {{"before", before.numel(), before.data_ptr()}}));
    expect_in("conv.weight belongs to a DataParallel",
              message_of([&] { const weft::GradientReducer reducer(broken, layout_of(*net)); }));
  });
}

TEST(Uses, AModuleIsWrappedAgainOnceTheFirstHasEnded) {
  Net twin;
  const auto wanted = mean_gradients(twin, 0);
  on_two([&](weft::Communicator comm, Net& net) {
    for (int again = 0; again < 3; ++again) {
      const DataParallel dp(comm, *net);
      clear_gradients(*net, true);
      loss_of(net, comm.rank()).backward();
      expect_equal(gradients(*net), wanted);
    }
    { const ZeroOptimizer zero(comm, *net, torch::optim::SGDOptions(0.1)); }
    std::optional<DataParallel> dp;
    dp.emplace(comm, *net);
    dp.reset();
    dp.emplace(comm, *net);
    clear_gradients(*net, true);
    loss_of(net, comm.rank()).backward();
    expect_equal(gradients(*net), wanted);
  });
}

TEST(Uses, PartsOfAModuleMayHaveOneEach) {
  Net twin;
  const auto wanted = mean_gradients(twin, 0);
  on_two([&](weft::Communicator comm, Net& net) {
    const DataParallel conv(comm, *net->conv), first(comm, *net->first), second(comm, *net->second),
        head(comm, *net->head);
    loss_of(net, comm.rank()).backward();
    expect_equal(gradients(*net), wanted);
  });
}

// Parameters that the program changes.

std::string saved(Net& net) {
  std::ostringstream out;
  torch::save(net, out);
  return out.str();
}
void load(Net& net, const std::string& from) {
  std::istringstream in(from);
  torch::load(net, in);
}
void take_vector(Net& net, Net& from) {
  torch::nn::utils::vector_to_parameters(
      torch::nn::utils::parameters_to_vector(from->parameters()).detach().clone(), net->parameters());
}
void take_data(Net& net, Net& from) {
  for (std::size_t i = 0; i < from->parameters().size(); ++i)
    net->parameters()[i].set_data(from->parameters()[i].detach().clone());
}
void take_in_place(Net& net, Net& from) {
  const torch::NoGradGuard no_graph;
  for (std::size_t i = 0; i < from->parameters().size(); ++i)
    net->parameters()[i].copy_(from->parameters()[i]);
}
struct Way {
  const char* name;
  void (*take)(Net& net, Net& from);
};
const Way ways[] = {{"torch::load", [](Net& net, Net& from) { load(net, saved(from)); }},
                    {"vector_to_parameters", take_vector},
                    {"set_data", take_data},
                    {"copy_", take_in_place}};

TEST(Uses, ParametersThatAreLoadedOrSetAreTrainedOn) {
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    Net twin(7);
    torch::optim::SGD by_torch(twin->parameters(), 0.1);
    std::vector<at::Tensor> wanted;
    for (int step = 0; step < 3; ++step) {
      (void)mean_gradients(twin, 2 * step);
      by_torch.step();
    }
    on_two([&](weft::Communicator comm, Net& net) {
      Net other(7);
      DataParallel dp(comm, *net);
      loss_of(net, 9).backward();
      way.take(net, other);
      torch::optim::SGD optimizer(net->parameters(), 0.1);
      for (int step = 0; step < 3; ++step) {
        clear_gradients(*net, true);
        loss_of(net, 2 * step + comm.rank()).backward();
        optimizer.step();
      }
      expect_equal(net->parameters(), twin->parameters());
    });
    on_two([&](weft::Communicator comm, Net& net) {
      Net other(7);
      ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1));
      loss_of(net, 9).backward();
      optimizer.step();
      way.take(net, other);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        loss_of(net, 2 * step + comm.rank()).backward();
        optimizer.step();
      }
      expect_close(net->parameters(), twin->parameters());
    });
  }
}

TEST(Uses, WeightsAreClampedAfterEachStepAsInAWassersteinGan) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    on_two([&](weft::Communicator comm, Net& net) {
      net->to(type);
      ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.5));
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        net(values({6, 1, 8, 8}, step + comm.rank()).to(type)).sum().backward();
        optimizer.step();
        const torch::NoGradGuard no_graph;
        for (at::Tensor& parameter : net->parameters()) parameter.clamp_(-0.01, 0.01);
      }
      // The clamped values are what the next step starts from: no step of a rate of zero may bring others back.
      const auto before = copies(net->parameters());
      optimizer.param_groups().front().options().set_lr(0);
      net(values({6, 1, 8, 8}, 1).to(type)).sum().backward();
      optimizer.step();
      expect_equal(net->parameters(), before);
    });
  }
}

TEST(Uses, AnAverageOfWeightsIsKeptInAClone) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    torch::nn::Sequential net(torch::nn::Linear(3, 2));
    fill(*net, 1);
    DataParallel dp(comm, *net);
    const auto average = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const auto images = torch::full({1, 3}, comm.rank() + 1.0);
    net->forward(images).sum().backward();
    optimizer.step();
    {
      const torch::NoGradGuard no_graph;
      for (std::size_t i = 0; i < average->parameters().size(); ++i)
        average->parameters()[i].lerp_(net->parameters()[i], 0.1);
    }
    average->forward(images).sum().backward();  // not exchanged
    EXPECT_EQ(net->parameters()[0].grad()[0][0].item<float>(), 1.5F);
    EXPECT_EQ(average->parameters()[0].grad()[0][0].item<float>(), static_cast<float>(comm.rank() + 1));
  });
}

// Gradients that the program holds.

TEST(Uses, GradientsMayLieInOneTensorOfTheProgram) {
  Net twin;
  const auto wanted = mean_gradients(twin, 0);
  on_two([&](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    const at::Tensor flat = torch::zeros({torch::nn::utils::parameters_to_vector(net->parameters()).numel()});
    std::int64_t at = 0;
    for (at::Tensor& parameter : net->parameters()) {
      parameter.mutable_grad() = flat.slice(0, at, at + parameter.numel()).view_as(parameter);
      at += parameter.numel();
    }
    for (int step = 0; step < 3; ++step) {
      flat.zero_();
      loss_of(net, comm.rank()).backward();
      expect_equal(gradients(*net), wanted);
      EXPECT_TRUE(torch::equal(flat, torch::nn::utils::parameters_to_vector(wanted)));
      flat.mul_(2);  // what the program does to its tensor, `.grad` shows
      EXPECT_TRUE(torch::equal(net->conv->weight.grad(), 2 * wanted[0]));
    }
  });
  expect_refused({"the gradient of head.bias lies in a larger tensor of the program's", "clip_norm"},
                 [](weft::Communicator comm, Net& net) {
                   ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1));
                   net->head->bias.mutable_grad() = torch::zeros({100}).slice(0, 10, 15);
                   loss_of(net, 0).backward();
                 });
}

TEST(Uses, AGradientThatTheProgramKeepsGetsTheMean) {
  Net twin;
  const auto wanted = mean_gradients(twin, 0);
  on_two([&](weft::Communicator comm, Net& net) {
    std::vector<at::Tensor> kept;
    for (at::Tensor& parameter : net->parameters()) {
      parameter.mutable_grad() = torch::zeros_like(parameter);
      kept.push_back(parameter.grad());
    }
    DataParallel dp(comm, *net);
    loss_of(net, comm.rank()).backward();
    expect_equal(kept, wanted);
    expect_equal(gradients(*net), wanted);
  });
}

TEST(Uses, ClippingIsThatOfTheMeans) {
  Net twin;
  (void)mean_gradients(twin, 0);
  torch::nn::utils::clip_grad_norm_(twin->parameters(), 0.05);
  torch::nn::utils::clip_grad_value_(twin->parameters(), 0.001);
  on_two([&](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    loss_of(net, comm.rank()).backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 0.05);
    torch::nn::utils::clip_grad_value_(net->parameters(), 0.001);
    expect_equal(gradients(*net), gradients(*twin));
  });
}

TEST(Uses, UnderZeroOptimizerWhatReadsOrChangesGradientsIsRefused) {
  const auto after_backward = [](const std::function<void(Net&)>& use) {
    return [use](weft::Communicator comm, Net& net) {
      ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1));
      loss_of(net, 0).backward();
      use(net);
    };
  };
  const auto refused = [&](const std::function<void(Net&)>& use) {
    expect_refused({"conv.weight", "clip_norm", "ZeroOptimizer"}, after_backward(use));
  };
  refused([](Net& net) { torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0); });
  refused([](Net& net) { torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0, INFINITY); });
  refused([](Net& net) { torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0, 0); });
  refused([](Net& net) { torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0, 1.0, true); });
  refused([](Net& net) { torch::nn::utils::clip_grad_value_(net->parameters(), 1.0); });
  refused([](Net& net) { (void)net->conv->weight.grad().norm().item<double>(); });
  refused([](Net& net) { (void)net->conv->weight.grad().pow(2).sum(); });
  refused([](Net& net) { (void)(net->conv->weight.grad() * 2); });
  refused([](Net& net) { net->conv->weight.mutable_grad().div_(2); });
  refused([](Net& net) { net->conv->weight.mutable_grad() += 1; });
  refused([](Net& net) { (void)net->conv->weight.grad().clone(); });
  refused([](Net& net) { (void)torch::isfinite(net->conv->weight.grad()).all(); });
  refused([](Net& net) { torch::zeros_like(net->conv->weight).copy_(net->conv->weight.grad()); });
  refused([](Net& net) { (void)torch::stack({net->conv->weight.grad(), net->conv->weight.grad()}); });
  refused([](Net& net) { (void)(net->conv->weight.detach() - net->conv->weight.grad()); });
  refused([](Net& net) { (void)torch::nn::utils::parameters_to_vector({net->conv->weight.grad()}); });
  refused([](Net& net) { (void)net->conv->weight.grad().to(torch::kDouble); });
  refused([](Net& net) { std::ostringstream() << net->conv->weight.grad(); });
}

TEST(Uses, UnderZeroOptimizerAGradientHasAShapeAndZeroGradTakesItAway) {
  on_two([](weft::Communicator comm, Net& net) {
    ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1));
    loss_of(net, comm.rank()).backward();
    EXPECT_EQ(net->conv->weight.grad().sizes(), net->conv->weight.sizes());
    EXPECT_EQ(net->conv->weight.grad().scalar_type(), torch::kFloat);
    optimizer.step();
    for (int way = 0; way < 3; ++way) {
      if (way == 0) optimizer.zero_grad();
      if (way == 1) net->zero_grad();
      if (way == 2) clear_gradients(*net, false);  // as zero_grad() of LibTorch 1.13
      loss_of(net, comm.rank()).backward();
      optimizer.step();
    }
  });
}

TEST(Uses, AStepIsLeftOutOnAllRanks) {
  for (const bool to_none : {true, false}) {
    for (const int stage : {1, 2}) {
      Net twin;
      torch::optim::SGD by_torch(twin->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (const int step : {0, 2, 3}) {
        (void)mean_gradients(twin, 2 * step);
        by_torch.step();
      }
      on_two([&](weft::Communicator comm, Net& net) {
        ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(0.1).momentum(0.9), {.stage = stage});
        for (int step = 0; step < 4; ++step) {
          clear_gradients(*net, to_none);
          loss_of(net, 2 * step + comm.rank()).backward();
          if (step != 1) optimizer.step();
        }
        expect_close(net->parameters(), twin->parameters());
      });
    }
  }
}

TEST(Uses, RanksHaveOneLearningRate) {
  expect_refused({"learning rate", "rank 1"}, [](weft::Communicator comm, Net& net) {
    ZeroOptimizer optimizer(comm, *net, torch::optim::SGDOptions(comm.rank() == 0 ? 0.1 : 0.2));
    loss_of(net, 0).backward();
    optimizer.step();
    throw weft::torch::Error(weft::Error(weft::ErrorKind::usage, "nothing was noticed"));
  });
}

// Passes.

TEST(Uses, TwoForwardsThenTwoBackwardsWithBatchNorm) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
    fill(*net, 1);
    const auto mask = torch::ones({4});
    DataParallel dp(comm, *net);
    for (int step = 0; step < 3; ++step) {
      const auto real = net->forward(values({8, 4}, 1 + comm.rank())).pow(2).sum();
      const auto fake = net->forward(values({8, 4}, 5 + comm.rank())).pow(2).sum();
      real.backward();
      fake.backward();
    }
    const auto buffers = net->buffers();
    std::vector<float> all(2);
    const float own = buffers[0][0].item<float>();
    weft::Stream stream;
    comm.all_gather(weft::ConstView(std::span(&own, 1)), weft::View(std::span(all)), stream).wait();
    EXPECT_EQ(all[0], all[1]);
  });
}

/// A mask that is a buffer and that every graph holds.
struct MaskedImpl : torch::nn::Module {
  MaskedImpl() {
    weight = register_parameter("weight", torch::ones({4}));
    mask = register_buffer("mask", torch::arange(4, torch::kFloat));
  }
  at::Tensor forward(const at::Tensor& x) { return x * weight * mask; }
  at::Tensor weight, mask;
};
TORCH_MODULE(Masked);

TEST(Uses, BuffersThatDoNotChangeAreNotWrittenTo) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    Masked net;
    DataParallel dp(comm, *net);
    const auto one = net(torch::ones({4})).sum(), other = net(torch::ones({4})).sum();
    one.backward();
    other.backward();
    EXPECT_TRUE(torch::equal(net->weight.grad(), 2 * torch::arange(4, torch::kFloat)));
  });
}

TEST(Uses, GradientsOfGradientsComeFromAutogradGrad) {
  Net twin;
  const auto penalty = [](Net& net, int number) {  // of a WGAN-GP
    at::Tensor images = values({6, 1, 8, 8}, 10 + number).requires_grad_();
    const auto inner = torch::autograd::grad({net(images).sum()}, {images}, {}, true, true);
    return inner[0].pow(2).sum();
  };
  for (int rank = 0; rank < 2; ++rank) penalty(twin, rank).backward();
  for (at::Tensor& parameter : twin->parameters())
    if (parameter.grad().defined()) parameter.mutable_grad().div_(2);
  on_two([&](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    penalty(net, comm.rank()).backward();
    expect_equal(gradients(*net), gradients(*twin));
    const auto own =
        torch::autograd::grad({loss_of(net, comm.rank())}, net->parameters());  // exchanges nothing
    EXPECT_EQ(own.size(), net->parameters().size());
    expect_equal(gradients(*net), gradients(*twin));
  });
  expect_refused({"has a graph (create_graph)", "autograd::grad"}, [](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    loss_of(net, 0).backward({}, true, true);
  });
}

TEST(Uses, AGraphThatIsRetainedIsGoneThroughTwice) {
  Net twin;
  const auto wanted = mean_gradients(twin, 0);
  on_two([&](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    const auto loss = loss_of(net, comm.rank());
    loss.backward({}, true);
    clear_gradients(*net, true);
    loss.backward();
    expect_equal(gradients(*net), wanted);
  });
}

TEST(Uses, AnExceptionBetweenForwardAndBackwardIsTheProgramsOwn) {
  Net twin;
  const auto wanted = mean_gradients(twin, 0);
  on_two([&](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    try {
      const auto loss = loss_of(net, 3);
      throw std::runtime_error("a bad batch");
    } catch (const std::runtime_error&) {
    }
    loss_of(net, comm.rank()).backward();
    expect_equal(gradients(*net), wanted);
  });
}

TEST(Uses, OneRankEvaluatesAlone) {
  on_two([](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    for (int step = 0; step < 3; ++step) {
      if (comm.rank() == 0) {
        const torch::NoGradGuard no_graph;
        net->eval();
        (void)loss_of(net, 5).item<double>();
        net->train();
      }
      loss_of(net, comm.rank()).backward();
    }
  });
}

// Modules and optimizers.

TEST(Uses, TwoOptimizersShareAModule) {
  Net twin;
  const auto with = [](Net& net, const std::function<void()>& gradients) {
    torch::optim::SGD body({net->conv->weight, net->conv->bias, net->first->weight, net->first->bias}, 0.1);
    torch::optim::AdamW head({net->second->weight, net->second->bias, net->head->weight, net->head->bias},
                             0.01);
    for (int step = 0; step < 3; ++step) {
      gradients();
      body.step();
      head.step();
      body.zero_grad();
      head.zero_grad();
    }
  };
  with(twin, [&] { (void)mean_gradients(twin, 0); });
  on_two([&](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    with(net, [&] { loss_of(net, comm.rank()).backward(); });
    expect_equal(net->parameters(), twin->parameters());
  });
}

TEST(Uses, GroupsOfParametersHaveOptionsOfTheirOwn) {
  Net twin;
  const auto trained = [](Net& net, const std::function<void()>& gradients) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector{net->conv->weight, net->first->weight},
                        std::make_unique<torch::optim::AdamWOptions>(0.01));
    groups.emplace_back(std::vector{net->conv->bias, net->first->bias},
                        std::make_unique<torch::optim::AdamWOptions>(0.1));
    torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions(0.01));
    for (int step = 0; step < 2; ++step) {
      gradients();
      optimizer.step();
      if (step == 0) optimizer.add_param_group(torch::optim::OptimizerParamGroup({net->head->weight}));
      net->zero_grad();
    }
  };
  trained(twin, [&] { (void)mean_gradients(twin, 0); });
  on_two([&](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    trained(net, [&] { loss_of(net, comm.rank()).backward(); });
    expect_equal(net->parameters(), twin->parameters());
  });
  expect_refused({"parameter groups were added"}, [](weft::Communicator comm, Net& net) {
    ZeroOptimizer optimizer(comm, *net, torch::optim::AdamWOptions(0.1));
    optimizer.add_param_group(torch::optim::OptimizerParamGroup({torch::ones({3})}));
    loss_of(net, 0).backward();
    optimizer.step();
  });
}

TEST(Uses, EveryOptimizerOfTorchStepsAlikeOnAllRanks) {
  using torch::optim::Optimizer;
  const std::vector<std::function<std::unique_ptr<Optimizer>(Net&)>> all = {
      [](Net& net) { return std::make_unique<torch::optim::Adagrad>(net->parameters(), 0.01); },
      [](Net& net) {
        return std::make_unique<torch::optim::Adam>(net->parameters(),
                                                    torch::optim::AdamOptions(0.01).amsgrad(true));
      },
      [](Net& net) { return std::make_unique<torch::optim::AdamW>(net->parameters(), 0.01); },
      [](Net& net) {
        return std::make_unique<torch::optim::RMSprop>(net->parameters(),
                                                       torch::optim::RMSpropOptions(0.001).centered(true));
      },
      [](Net& net) {
        return std::make_unique<torch::optim::SGD>(
            net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true));
      }};
  for (std::size_t which = 0; which < all.size(); ++which) {
    SCOPED_TRACE(which);
    Net twin;
    const auto by_torch = all[which](twin);
    for (int step = 0; step < 3; ++step) {
      (void)mean_gradients(twin, 2 * step);
      by_torch->step();
    }
    on_two([&](weft::Communicator comm, Net& net) {
      DataParallel dp(comm, *net);
      const auto optimizer = all[which](net);
      for (int step = 0; step < 3; ++step) {
        optimizer->zero_grad();
        loss_of(net, 2 * step + comm.rank()).backward();
        optimizer->step();
        std::ostringstream out;
        torch::save(*optimizer, out);  // and goes on from it
        std::istringstream in(out.str());
        torch::load(*optimizer, in);
      }
      expect_equal(net->parameters(), twin->parameters());
    });
  }
}

TEST(Uses, LbfgsGoesOnWhereItsClosureGivesTheMeanLoss) {
  on_two([](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    torch::optim::LBFGS optimizer(net->parameters(),
                                  torch::optim::LBFGSOptions(0.1).max_iter(4).line_search_fn("strong_wolfe"));
    weft::Stream stream;
    const auto closure = [&] {
      net->zero_grad();
      at::Tensor loss = loss_of(net, comm.rank());
      loss.backward();
      auto mean = loss.item<float>();
      comm.all_reduce(weft::View(std::span(&mean, 1)), weft::ReduceOp::avg, stream).wait();
      return torch::full({}, mean);
    };
    for (int step = 0; step < 2; ++step) optimizer.step(closure);
    const at::Tensor own = torch::nn::utils::parameters_to_vector(net->parameters()).detach();
    at::Tensor all = torch::zeros({2, own.numel()});
    comm.all_gather(
            weft::ConstView(
                std::span<const float>(own.data_ptr<float>(), static_cast<std::size_t>(own.numel()))),
            weft::View(std::span<float>(all.data_ptr<float>(), static_cast<std::size_t>(all.numel()))),
            stream)
        .wait();
    EXPECT_TRUE(torch::equal(all[0], all[1]));
  });
}

TEST(Uses, ParametersWithoutElementsAreLeftOut) {
  const auto make = [] {
    torch::nn::Module module;
    module.register_parameter("w", torch::ones({4}));
    module.register_parameter("empty", torch::ones({0, 3}));
    return module;
  };
  on_ranks(2, As::threads, [&](weft::Communicator comm) {
    torch::nn::Module module = make(), other = make();
    DataParallel dp(comm, module);
    const auto parameters = module.named_parameters();
    ((parameters["w"] * (comm.rank() + 1)).sum() + parameters["empty"].sum()).backward();
    EXPECT_TRUE(torch::equal(parameters["w"].grad(), torch::full({4}, 1.5)));
    EXPECT_EQ(parameters["empty"].grad().numel(), 0);
    ZeroOptimizer optimizer(comm, other, torch::optim::SGDOptions(1.0));
    const auto others = other.named_parameters();
    ((others["w"] * (comm.rank() + 1)).sum() + others["empty"].sum()).backward();
    optimizer.step();
    EXPECT_TRUE(torch::equal(others["w"], torch::full({4}, -0.5)));
  });
}

TEST(Uses, ALayerThatIsFrozenLateIsNamed) {
  expect_refused({"conv.weight was frozen", "make a new one"}, [](weft::Communicator comm, Net& net) {
    DataParallel dp(comm, *net);
    net->conv->weight.set_requires_grad(false);
    loss_of(net, 0).backward();
  });
  on_two([](weft::Communicator comm, Net& net) {  // as the message says
    std::optional<DataParallel> dp;
    dp.emplace(comm, *net);
    loss_of(net, comm.rank()).backward();
    net->conv->weight.set_requires_grad(false);
    dp.reset();
    dp.emplace(comm, *net);
    loss_of(net, comm.rank()).backward();
  });
}

/// Counts what is sent: D takes part in the steps of both networks.
TEST(Uses, AGanExchangesTheGradientsOfEachNetworkOnceAStep) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    torch::nn::Sequential generator(torch::nn::Linear(4, 16), torch::nn::ReLU(), torch::nn::Linear(16, 8));
    torch::nn::Sequential judge(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                                torch::nn::Linear(16, 1));
    fill(*generator, 1);
    fill(*judge, 2);
    DataParallelOptions options;
    options.broadcast_buffers = false;
    DataParallel g(comm, *generator, options), d(comm, *judge, options);
    torch::optim::SGD g_step(generator->parameters(), 0.1), d_step(judge->parameters(), 0.1);
    for (int step = 0; step < 3; ++step) {
      const std::uint64_t before = comm.wire_bytes();
      const at::Tensor noise = values({6, 4}, step + comm.rank());
      judge->zero_grad();
      const at::Tensor fake = generator->forward(noise);
      {
        const auto alone = d.no_sync();
        judge->forward(values({6, 8}, step + comm.rank())).mean().backward();
      }
      (-judge->forward(fake.detach()).mean()).backward();
      d_step.step();
      generator->zero_grad();
      {
        const auto alone = d.no_sync();
        judge->forward(fake).mean().backward();
      }
      g_step.step();
      if (step == 0) continue;
      std::int64_t elements = 0;
      for (const auto* network : {&generator, &judge}) {
        for (const at::Tensor& one : (*network)->parameters()) elements += (one.numel() + 15) / 16 * 16;
      }
      // What one rank of two sends for a mean of so many bytes, and a byte a parameter that says whether it was used.
      EXPECT_LT(comm.wire_bytes() - before, static_cast<std::uint64_t>(4 * elements) + 1024);
    }
  });
}

}  // namespace
}  // namespace libtorch_tests
