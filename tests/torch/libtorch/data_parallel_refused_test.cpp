// What DataParallel refuses, as the error that LibTorch's users catch.

#include <torch/optim.h>

#include "torch/libtorch/ranks.hpp"
#include "weft/torch/data_parallel.hpp"

namespace libtorch_tests {
namespace {

/// Every rank gets a c10::Error that is one of weft, and whose message has `parts`.
void expect_refused(int ranks, std::initializer_list<std::string> parts,
                    const std::function<void(weft::Communicator)>& body,
                    weft::ErrorKind kind = weft::ErrorKind::usage) {
  on_ranks(ranks, As::threads, [&](weft::Communicator comm) {
    const int rank = comm.rank();
    try {
      body(comm);
      ADD_FAILURE() << "rank " << rank << ": nothing was thrown";
    } catch (const c10::Error& error) {
      const auto* const ours = dynamic_cast<const weft::torch::Error*>(&error);
      ASSERT_NE(ours, nullptr) << error.what();
      const std::string message = error.what();
      for (const std::string& part : parts)
        EXPECT_NE(message.find(part), std::string::npos)
            << "rank " << rank << ": no '" << part << "' in: " << message;
      EXPECT_EQ(message, ours->cause().what());
      if (rank != 0) return;
      EXPECT_EQ(weft::name(ours->kind()), std::string(weft::name(kind))) << message;
    }
  });
}

struct Empty : torch::nn::Module {};

TEST(Refused, AModuleWithoutParameters) {
  expect_refused(2, {"the module has no parameters"}, [](weft::Communicator comm) {
    Empty empty;
    weft::torch::DataParallel dp(comm, empty);
  });
}

TEST(Refused, AModuleWhoseParametersAreAllFrozen) {
  expect_refused(1, {"all 8 parameters of the module are frozen"}, [](weft::Communicator comm) {
    Net net;
    for (at::Tensor& parameter : net->parameters()) parameter.set_requires_grad(false);
    weft::torch::DataParallel dp(comm, *net);
  });
}

TEST(Refused, ParametersOnTwoDevices) {
  expect_refused(2, {"parameter there is on meta", "train on the CPU"}, [](weft::Communicator comm) {
    Net net;
    net->register_parameter("there", torch::empty({3}, torch::kMeta));
    weft::torch::DataParallel dp(comm, *net);
  });
}

TEST(Refused, ParametersOfTwoTypes) {
  expect_refused(2, {"parameter double is Double and conv.weight Float", "one type"},
                 [](weft::Communicator comm) {
                   Net net;
                   net->register_parameter("double", torch::zeros({3}, torch::kDouble));
                   weft::torch::DataParallel dp(comm, *net);
                 });
}

TEST(Refused, ComplexParameters) {
  expect_refused(1, {"parameter z is of type ComplexFloat"}, [](weft::Communicator comm) {
    Empty empty;
    empty.register_parameter("z", torch::zeros({3}, torch::kComplexFloat));
    weft::torch::DataParallel dp(comm, empty);
  });
}

struct SparseImpl : torch::nn::Module {
  SparseImpl() {
    words = register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true)));
    fill(*this, 1);
  }
  torch::nn::Embedding words{nullptr};
};
TORCH_MODULE(Sparse);

TEST(Refused, SparseGradients) {
  expect_refused(2, {"the gradient of words.weight is sparse", "sparse(false)"}, [](weft::Communicator comm) {
    Sparse net;
    weft::torch::DataParallel dp(comm, *net);
    net->words(torch::arange(5)).sum().backward();
  });
}

TEST(Refused, ParametersAddedAfterWrapping) {
  expect_refused(2, {"parameter late was added after the module was wrapped"}, [](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallel dp(comm, *net);
    loss_of(net, 0).backward();
    net->register_parameter("late", torch::zeros({3}));
    loss_of(net, 0).backward();
  });
}

TEST(Refused, ParametersFrozenAfterWrapping) {
  expect_refused(2, {"parameter first.bias was frozen after the module was wrapped"},
                 [](weft::Communicator comm) {
                   Net net;
                   weft::torch::DataParallel dp(comm, *net);
                   if (comm.rank() == 0)
                     net->first->bias.set_requires_grad(false);  // the other rank reads why
                   loss_of(net, 0).backward();
                 });
}

TEST(Refused, ParametersUnfrozenAfterWrapping) {
  expect_refused(1, {"parameter first.bias was unfrozen after the module was wrapped"},
                 [](weft::Communicator comm) {
                   Net net;
                   net->first->bias.set_requires_grad(false);
                   weft::torch::DataParallel dp(comm, *net);
                   net->first->bias.set_requires_grad(true);
                   loss_of(net, 0).backward();
                 });
}

TEST(Refused, AModuleConvertedAfterWrapping) {
  expect_refused(1, {"was converted to another type or device after the module was wrapped"},
                 [](weft::Communicator comm) {
                   Net net;
                   weft::torch::DataParallel dp(comm, *net);
                   net->to(torch::kDouble);
                   net(values({6, 1, 8, 8}, 1).to(torch::kDouble)).sum().backward();
                 });
}

TEST(Refused, ACommunicatorThatIsClosed) {
  expect_refused(2, {"rank 0 is done"}, [](weft::Communicator comm) {
    if (comm.rank() == 0) comm.give_up(weft::Error(weft::ErrorKind::usage, "rank 0 is done"));
    Net net;
    weft::torch::DataParallel dp(comm, *net);
  });
}

TEST(Refused, ACommunicatorThatClosesBetweenSteps) {
  expect_refused(2, {"rank 0 is done"}, [](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallel dp(comm, *net);
    loss_of(net, 0).backward();
    if (comm.rank() == 0) comm.give_up(weft::Error(weft::ErrorKind::usage, "rank 0 is done"));
    loss_of(net, 0).backward();
  });
}

TEST(Refused, OtherModulesOnOtherRanks) {
  expect_refused(
      2, {"rank"},
      [](weft::Communicator comm) {
        Net net;
        if (comm.rank() == 1) net->register_parameter("more", torch::zeros({3}));
        weft::torch::DataParallel dp(comm, *net);
      },
      weft::ErrorKind::mismatch);
}

TEST(Refused, UnusedParametersWhereItIsAskedTo) {
  expect_refused(2, {"second.weight"}, [](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallelOptions options;
    options.unused = weft::Unused::refuse;
    weft::torch::DataParallel dp(comm, *net, options);
    net->with_second = false;
    loss_of(net, 0).backward();
  });
}

TEST(Refused, AStaticGraph) {
  expect_refused(1, {"as_in_first_step", "Unused::find"}, [](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallelOptions options;
    options.unused = weft::Unused::as_in_first_step;
    weft::torch::DataParallel dp(comm, *net, options);
  });
}

TEST(Refused, NoSyncTwice) {
  expect_refused(1, {"no_sync() while another one lives"}, [](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallel dp(comm, *net);
    const auto alone = dp.no_sync();
    const auto again = dp.no_sync();
  });
}

/// Fails in backward, after the layers above have their gradients.
struct Faulty : torch::autograd::Function<Faulty> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& /*gradients*/) {
    throw std::runtime_error("no memory for it");
  }
};

TEST(Refused, WhereBackwardThrowsOnOneRankTheOthersReadIt) {
  on_ranks(2, As::threads, [](weft::Communicator comm) {
    Net net;
    weft::torch::DataParallel dp(comm, *net);
    const auto backward = [&] {
      at::Tensor x = torch::relu(net->conv(values({6, 1, 8, 8}, 1))).flatten(1);
      if (comm.rank() == 1) x = Faulty::apply(x);
      net->head(net->second(net->first(x))).sum().backward();
    };
    if (comm.rank() == 1) {
      EXPECT_THROW(backward(), std::runtime_error);
      EXPECT_THROW(loss_of(net, 0).backward(), weft::torch::Error);
      return;
    }
    try {
      backward();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const weft::torch::Error& error) {
      EXPECT_NE(std::string(error.what()).find("backward ended with an exception"), std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace libtorch_tests
