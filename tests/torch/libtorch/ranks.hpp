#pragma once
// Ranks for tests with torch: as threads, whose autograd passes run beside each other in one engine, and as
// processes, as users have them.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/nn.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <iostream>

#include "weft/collectives/communicator.hpp"

namespace libtorch_tests {

enum class As { threads, processes };

/// One thread a rank computes: whatever the number of ranks is, kernels give the same bits.
inline void compute_with_one_thread() {
  at::set_num_threads(1);
}
/// Also where a test computes before its ranks begin.
inline const bool computes_with_one_thread = (compute_with_one_thread(), true);

inline int one_process(int rank, int ranks, const std::string& meeting,
                       const std::function<void(weft::Communicator)>& body) {
  try {
    weft::WorldOptions options;
    options.rank = rank;
    options.size = ranks;
    options.rendezvous = "file://" + meeting;
    options.timeout = std::chrono::seconds(60);
    body(weft::connect(weft::World::from_environment(options)));
  } catch (const std::exception& error) {
    std::cerr << "rank " << rank << ": " << error.what() << '\n';
    return 1;
  }
  return testing::Test::HasFailure() ? 1 : 0;
}

/// Runs `body` on every rank. A failed expectation of any rank fails the test.
inline void on_ranks(int ranks, As as, const std::function<void(weft::Communicator)>& body) {
  compute_with_one_thread();
  if (as == As::threads) {
    weft::run_as_threads(ranks, [&](weft::Communicator comm) {
      compute_with_one_thread();
      body(std::move(comm));
    });
    return;
  }
  std::string folder = std::filesystem::temp_directory_path() / "weft_libtorch_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const int status = one_process(rank, ranks, folder + "/meeting", body);
      std::cout.flush();
      std::cerr.flush();
      _exit(status);
    }
    children.push_back(child);
  }
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[rank], &status, 0), children[rank]);
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
  std::filesystem::remove_all(folder);
}

/// Values that look drawn and are the same everywhere: no generator, which ranks that are threads would share.
inline at::Tensor values(at::IntArrayRef shape, double seed) {
  std::int64_t count = 1;
  for (const std::int64_t one : shape) count *= one;
  return torch::sin(torch::arange(count, torch::kFloat) * (1.7 + 0.13 * seed) + seed).reshape(shape);
}

inline void fill(torch::nn::Module& module, double seed) {
  const torch::NoGradGuard no_graph;
  double number = seed;
  for (at::Tensor& parameter : module.parameters())
    parameter.copy_(values(parameter.sizes(), number++) * 0.2);
}

inline std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) all.push_back(tensor.detach().clone());
  return all;
}

inline std::vector<at::Tensor> gradients(const torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : module.parameters()) all.push_back(parameter.grad());
  return all;
}

/// What zero_grad(set_to_none) does in torch 2; that of 1.13 has no such argument.
inline void clear_gradients(torch::nn::Module& module, bool to_none) {
  for (at::Tensor& parameter : module.parameters()) {
    if (!parameter.grad().defined()) continue;
    if (to_none) {
      parameter.mutable_grad().reset();
    } else {
      parameter.mutable_grad().zero_();
    }
  }
}

/// Bitwise. Undefined tensors equal undefined ones.
inline void expect_equal(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), wanted[i].defined()) << "tensor " << i;
    if (!got[i].defined()) continue;
    EXPECT_TRUE(torch::equal(got[i], wanted[i]))
        << "tensor " << i << ", largest difference " << (got[i] - wanted[i]).abs().max();
  }
}

/// A convolution and three linear layers, of sizes that fill no cache line.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(double seed = 1) {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 3)));
    first = register_module("first", torch::nn::Linear(3 * 36, 37));
    second = register_module("second", torch::nn::Linear(37, 19));
    head = register_module("head", torch::nn::Linear(19, 5));
    fill(*this, seed);
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = torch::relu(conv(images)).flatten(1);
    x = torch::relu(first(x));
    if (with_second) return head(torch::relu(second(x)));
    return head(x.slice(1, 0, 19));
  }
  bool with_second = true;
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr}, head{nullptr};
};
TORCH_MODULE(Net);

/// The loss of a batch of 6 images; `number` says which.
inline at::Tensor loss_of(Net& net, int number) {
  const at::Tensor images = values({6, 1, 8, 8}, 10 + number);
  const at::Tensor targets = (torch::arange(6, torch::kLong) * (number + 3)).remainder(5);
  return torch::nn::functional::cross_entropy(net(images), targets);
}

}  // namespace libtorch_tests
