// A transformer block that learns to say the next byte of licences.

#include <torch/data/samplers.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <cstdio>

#include "text.hpp"

constexpr std::int64_t width = 64, context = 64;

struct ModelImpl : torch::nn::Module {
  ModelImpl() {
    bytes = register_module("bytes", torch::nn::Embedding(256, width));
    places = register_module("places", torch::nn::Embedding(context, width));
    block = register_module(
        "block",
        torch::nn::TransformerEncoderLayer(
            torch::nn::TransformerEncoderLayerOptions(width, 4).dim_feedforward(4 * width).dropout(0)));
    head = register_module("head", torch::nn::Linear(width, 256));
    later = register_buffer("later", torch::full({context, context}, -1e9).triu(1));
  }
  at::Tensor forward(const at::Tensor& text) {  // {context, batch}
    const at::Tensor x = bytes(text) + places(torch::arange(context)).unsqueeze(1);
    return head(block(x, later));
  }
  torch::nn::Embedding bytes{nullptr}, places{nullptr};
  torch::nn::TransformerEncoderLayer block{nullptr};
  torch::nn::Linear head{nullptr};
  at::Tensor later;
};
TORCH_MODULE(Model);

int main() {
  torch::manual_seed(1);
  const at::Tensor pieces = torch::cat(licences()).unfold(0, context + 1, context);  // {pieces, context + 1}
  Model model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  torch::data::samplers::RandomSampler sampler(pieces.size(0));
  int step = 0;
  while (const auto batch = sampler.next(16)) {
    const at::Tensor text =
        pieces.index_select(0, torch::tensor(std::vector<std::int64_t>(batch->begin(), batch->end()))).t();
    optimizer.zero_grad();
    const at::Tensor said = model(text.slice(0, 0, context));
    const at::Tensor loss =
        torch::nn::functional::cross_entropy(said.reshape({-1, 256}), text.slice(0, 1).reshape({-1}));
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) std::printf("step %d loss %.3f\n", step, loss.item<double>());
    if (++step == 101) break;
  }
  std::printf(
      "parameters %.9e\n",
      torch::nn::utils::parameters_to_vector(model->parameters()).to(torch::kDouble).sum().item<double>());
}
