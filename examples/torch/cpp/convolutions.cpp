// A convolutional network that tells licences apart: each image is 32 lines of 32 bytes of one of them.

#include <torch/data/samplers.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <cstdio>

#include "text.hpp"

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t classes) {
    using torch::nn::Conv2dOptions;
    first = register_module("first", torch::nn::Conv2d(Conv2dOptions(1, 16, 5).stride(2)));
    norm = register_module("norm", torch::nn::BatchNorm2d(16));
    second = register_module("second", torch::nn::Conv2d(Conv2dOptions(16, 32, 3).stride(2)));
    head = register_module("head", torch::nn::Linear(32 * 36, classes));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = torch::relu(norm(first(images)));
    return head(torch::relu(second(x)).flatten(1));
  }
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

int main() {
  torch::manual_seed(1);
  std::vector<at::Tensor> images, labels;
  const std::vector<at::Tensor> texts = licences();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::int64_t count = texts[i].numel() / 1024;
    images.push_back(texts[i].slice(0, 0, count * 1024).reshape({count, 1, 32, 32}).to(torch::kFloat) / 128 -
                     0.5);
    labels.push_back(torch::full({count}, static_cast<std::int64_t>(i), torch::kLong));
  }
  const at::Tensor image = torch::cat(images), label = torch::cat(labels);

  Net net(static_cast<std::int64_t>(texts.size()));
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(2e-3));
  torch::data::samplers::RandomSampler sampler(image.size(0));
  for (int epoch = 0; epoch < 8; ++epoch) {
    sampler.reset();
    double sum = 0;
    int batches = 0;
    while (const auto batch = sampler.next(16)) {
      const at::Tensor chosen = torch::tensor(std::vector<std::int64_t>(batch->begin(), batch->end()));
      optimizer.zero_grad();
      const at::Tensor loss = torch::nn::functional::cross_entropy(net(image.index_select(0, chosen)),
                                                                   label.index_select(0, chosen));
      loss.backward();
      optimizer.step();
      sum += loss.item<double>();
      ++batches;
    }
    std::printf("epoch %d loss %.3f\n", epoch, sum / batches);
  }
  std::printf(
      "parameters %.9e\n",
      torch::nn::utils::parameters_to_vector(net->parameters()).to(torch::kDouble).sum().item<double>());
}
