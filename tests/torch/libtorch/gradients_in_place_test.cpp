// DataParallel with gradients_in_place: the bits are those of gradients that are copied, and memory is torch's.

#include <c10/core/CPUAllocator.h>
#include <torch/optim.h>

#include <set>
#include <thread>

#include "torch/libtorch/gradient_memory.hpp"
#include "torch/libtorch/ranks.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/torch/data_parallel.hpp"

namespace libtorch_tests {
namespace {

/// Two weights of 256 KiB, smaller ones, and one that ends within a cache line.
struct WideImpl : torch::nn::Module {
  WideImpl() {
    first = register_module("first", torch::nn::Linear(24, 256));
    second = register_module("second", torch::nn::Linear(256, 256));
    third = register_module("third", torch::nn::Linear(256, 261));
    head = register_module("head", torch::nn::Linear(torch::nn::LinearOptions(261, 253).bias(false)));
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor wide = torch::tanh(second(torch::tanh(first(x))));
    return with_third ? head(torch::tanh(third(wide))).pow(2).mean() : wide.pow(2).mean();
  }
  bool with_third = true;
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr}, head{nullptr};
};
TORCH_MODULE(Wide);

constexpr weft::ParamId large{2};  // second.weight

at::Tensor batch(int number) {
  return values({6, 24}, number);
}

weft::torch::DataParallelOptions in_place() {
  weft::torch::DataParallelOptions options;
  options.gradients_in_place = true;
  return options;
}

bool is_in_arena(weft::torch::DataParallel& dp, const at::Tensor& gradient, weft::ParamId id) {
  return dp.reducer().gradient(id).data() == gradient.data_ptr();
}

/// Whether torch's own allocator gave the memory.
bool is_torchs(const at::Tensor& tensor) {
  return tensor.storage().data_ptr().get_deleter() == c10::GetDefaultCPUAllocator()->raw_deleter();
}

/// The slow twin: one process accumulates the gradients of all ranks' batches, in rank order, and divides.
std::vector<at::Tensor> wide_trained_alone(int ranks, bool to_none) {
  compute_with_one_thread();
  Wide net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 4; ++step) {
    clear_gradients(*net, to_none);
    for (int rank = 0; rank < ranks; ++rank) net(batch(step * ranks + rank)).backward();
    for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().div_(ranks);
    optimizer.step();
  }
  return copies(net->parameters());
}

struct WideCase {
  int ranks;
  As as;
};

void PrintTo(const WideCase& one, std::ostream* out) {
  *out << one.ranks << (one.as == As::threads ? " threads" : " processes");
}

class TrainingInPlace : public testing::TestWithParam<WideCase> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TrainingInPlace,
                         testing::Values(WideCase{1, As::threads}, WideCase{2, As::threads},
                                         WideCase{1, As::processes}, WideCase{2, As::processes},
                                         WideCase{4, As::processes}),
                         [](const auto& one) {
                           return std::to_string(one.param.ranks) +
                                  (one.param.as == As::threads ? "_threads" : "_processes");
                         });

TEST_P(TrainingInPlace, IsBitwiseThatOfASingleProcessThatAccumulatesTheSameBatches) {
  for (const bool to_none : {true, false}) {
    const std::vector<at::Tensor> wanted = wide_trained_alone(GetParam().ranks, to_none);
    on_ranks(GetParam().ranks, GetParam().as, [&](weft::Communicator comm) {
      Wide net;
      weft::torch::DataParallel dp(comm, *net, in_place());
      torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (int step = 0; step < 4; ++step) {
        clear_gradients(*net, to_none);
        net(batch(step * dp.size() + dp.rank())).backward();
        EXPECT_FALSE(is_in_arena(dp, net->second->weight.grad(), large)) << "step " << step;
        EXPECT_TRUE(is_in_arena(dp, net->second->bias.grad(), weft::ParamId{3})) << "step " << step;
        optimizer.step();
      }
      expect_equal(net->parameters(), wanted);
    });
  }
}

// The heap keeps what is freed: a pass takes the memory that the pass before had.
TEST(GradientsInPlace, MemoryOfGradientsComesBack) {
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide net;
    const weft::torch::DataParallel dp(comm, *net, in_place());
    EXPECT_EQ(net->second->weight.nbytes(), weft::torch::detail::GradientMemory::large)
        << "just large enough";
    std::set<const void*> places;
    for (int step = 0; step < 20; ++step) {
      clear_gradients(*net, true);
      net(batch(step)).backward();
      places.insert(net->second->weight.grad().data_ptr());
      EXPECT_FALSE(is_torchs(net->second->weight.grad()));
    }
    EXPECT_LE(places.size(), 4U);
  });
}

TEST(GradientsInPlace, AGradientThatIsKeptStaysAsItIsAndOutlivesDataParallel) {
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide net;
    at::Tensor kept, copy;
    {
      const weft::torch::DataParallel dp(comm, *net, in_place());
      net(batch(comm.rank())).backward();
      kept = net->second->weight.grad();
      copy = kept.clone();
      clear_gradients(*net, true);
      net(batch(9)).backward();
      EXPECT_FALSE(torch::equal(net->second->weight.grad(), kept));
    }
    EXPECT_TRUE(torch::equal(kept, copy));
    clear_gradients(*net, true);
    net(batch(0)).backward();
    EXPECT_TRUE(is_torchs(net->second->weight.grad())) << "nobody asks any more";
    kept.reset();
    const torch::NoGradGuard no_graph;
    EXPECT_TRUE(is_torchs(at::empty({256, 256})));
  });
}

TEST(GradientsInPlace, PassesUnderNoSyncAccumulateInPlaceToo) {
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide copied, net;
    weft::torch::DataParallel twin(comm, *copied);
    weft::torch::DataParallel dp(comm, *net, in_place());
    for (int step = 0; step < 2; ++step) {
      for (auto& [one, module] : {std::pair{&twin, &copied}, std::pair{&dp, &net}}) {
        clear_gradients(**module, true);
        {
          const auto alone = one->no_sync();
          (*module)(batch(2 * step + comm.rank())).backward();
        }
        (*module)->with_third = step == 0;  // in the second step only the first pass reaches its parameters
        (*module)(batch(7 + comm.rank())).backward();
        (*module)->with_third = true;
      }
      expect_equal(gradients(*net), gradients(*copied));
      EXPECT_FALSE(is_in_arena(dp, net->second->weight.grad(), large));
    }
  });
}

/// The gradients of both parameters are one piece of memory: that of a sum goes to both summands.
struct SumImpl : torch::nn::Module {
  SumImpl() {
    square = register_parameter("square", values({256, 256}, 1));
    line = register_parameter("line", values({256 * 256}, 2));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor sum = square + line.view({256, 256});
    sum.register_hook([this](const at::Tensor& gradient) {
      if (looks) seen = gradient;
    });
    return torch::mm(x, sum).pow(2).sum();
  }
  bool looks = false;
  at::Tensor square, line, seen;
};
TORCH_MODULE(Sum);

TEST(GradientsInPlace, GradientsThatShareMemoryAreReducedOnceEach) {
  compute_with_one_thread();
  Sum twin;
  std::vector<at::Tensor> wanted;
  for (int rank = 0; rank < 2; ++rank) {
    clear_gradients(*twin, true);
    twin(values({3, 256}, rank)).backward();
    if (rank == 0) {
      wanted = copies(gradients(*twin));
    } else {
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i].add_(gradients(*twin)[i]).div_(2);
    }
  }
  on_ranks(2, As::processes, [&](weft::Communicator comm) {
    Sum net;
    const weft::torch::DataParallel dp(comm, *net, in_place());
    for (int step = 0; step < 3; ++step) {
      net->looks = step == 1;
      clear_gradients(*net, true);
      net(values({3, 256}, comm.rank())).backward();
      expect_equal(gradients(*net), wanted);
    }
    EXPECT_FALSE(torch::equal(net->seen, wanted[0])) << "what a hook has kept is this rank's";
  });
}

TEST(GradientsInPlace, WhoeverLooksAtTorchsGradientKeepsIt) {
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide net;
    weft::torch::DataParallel dp(comm, *net, in_place());
    at::Tensor seen;
    net->second->weight.register_hook([&](const at::Tensor& gradient) { seen = gradient.view({-1}); });
    net(batch(comm.rank())).backward();
    EXPECT_TRUE(is_in_arena(dp, net->second->weight.grad(), large)) << "it is copied";
    EXPECT_FALSE(torch::equal(seen.view({256, 256}), net->second->weight.grad()));
  });
}

TEST(GradientsInPlace, AHookThatKeepsAddressesCopiesThem) {
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide net;
    auto options = in_place();
    options.hook = weft::power_sgd({.rank = 4});
    weft::torch::DataParallel dp(comm, *net, options);
    net(batch(comm.rank())).backward();
    EXPECT_TRUE(is_in_arena(dp, net->second->weight.grad(), large));
    const torch::NoGradGuard no_graph;
    EXPECT_TRUE(is_torchs(at::empty({256, 256}))) << "no allocator for nothing";
  });
}

TEST(GradientsInPlace, OthersThanGradientsOfThisThreadAreTorchs) {
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide net;
    const weft::torch::DataParallel dp(comm, *net, in_place());
    EXPECT_TRUE(is_torchs(at::empty({256, 256}))) << "a forward pass";
    const torch::NoGradGuard no_graph;
    EXPECT_FALSE(is_torchs(at::empty({256, 256})));
    EXPECT_TRUE(is_torchs(at::empty({256, 255}))) << "another size";
    EXPECT_TRUE(is_torchs(at::empty({24, 256}))) << "a small one";
    std::thread([] {
      const torch::NoGradGuard also_here;
      EXPECT_TRUE(is_torchs(at::empty({256, 256})));
    }).join();
    at::Tensor inherited = at::ones({256, 256});
    const pid_t child = fork();
    if (child == 0) {
      const bool right = is_torchs(at::empty({256, 256})) && inherited.sum().item<float>() == 256 * 256;
      inherited.reset();
      _exit(right ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  });
}

TEST(GradientsInPlace, AProgramsOwnAllocatorIsLeftInPlace) {
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide copied, net;
    const weft::torch::DataParallel twin(comm, *copied);
    weft::torch::DataParallel dp(comm, *net, in_place());
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator());  // after weft's
    copied(batch(comm.rank())).backward();
    net(batch(comm.rank())).backward();
    EXPECT_TRUE(is_in_arena(dp, net->second->weight.grad(), large)) << "it is copied";
    expect_equal(gradients(*net), gradients(*copied));
  });
}

TEST(GradientsInPlace, AFullHeapIsAnErrorThatSaysSo) {
  EXPECT_EQ(setenv("WEFT_HEAP_BYTES", "8388608", 1), 0);
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide net;
    const weft::torch::DataParallel dp(comm, *net, in_place());
    const torch::NoGradGuard no_graph;
    std::vector<at::Tensor> many;
    try {
      for (int i = 0; i < 64; ++i) many.push_back(at::empty({256, 256}));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("WEFT_HEAP_BYTES"), std::string::npos) << error.what();
    }
  });
  EXPECT_EQ(unsetenv("WEFT_HEAP_BYTES"), 0);
}

TEST(GradientsInPlace, APassThatFailsOnOneRankFailsOnAll) {
  on_ranks(2, As::processes, [](weft::Communicator comm) {
    Wide net;
    const weft::torch::DataParallel dp(comm, *net, in_place());
    if (comm.rank() == 1)
      net->first->weight.register_hook([](const at::Tensor& gradient) -> at::Tensor {
        throw std::runtime_error("a hook of the program");
        return gradient;
      });
    EXPECT_THROW(net(batch(0)).backward(), std::exception);
    clear_gradients(*net, true);
    const torch::NoGradGuard no_graph;
    EXPECT_EQ(at::ones({256, 256}).sum().item<float>(), 256 * 256) << "torch goes on";
  });
}

}  // namespace
}  // namespace libtorch_tests
