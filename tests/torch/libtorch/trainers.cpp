// Programs with weft::torch as others write them, each a mode, for tests/torch/libtorch/trainers_test.sh.
//   usage: torch_trainers MODE

#include <torch/torch.h>

#include <chrono>
#include <iostream>
#include <map>
#include <thread>

#include "weft/torch/zero_optimizer.hpp"

namespace {

using weft::torch::DataParallel;
using weft::torch::ZeroOptimizer;

weft::Communicator connected() {
  return weft::connect(weft::World::from_environment());
}

void wrapped_twice() {
  auto net = torch::nn::Linear(4, 1);
  const auto comm = connected();
  const DataParallel first(comm, *net);
  const DataParallel second(comm, *net);
}

void zero_clip() {
  auto net = torch::nn::Linear(4, 4);
  ZeroOptimizer optimizer(connected(), *net, torch::optim::SGDOptions(1.0));
  net(torch::full({2, 4}, 100.0)).pow(2).sum().backward();
  torch::nn::utils::clip_grad_norm_(net->parameters(), 1e-3);
  optimizer.step();
}

void networks() {
  auto g = torch::nn::Linear(4, 4), d = torch::nn::Linear(4, 4);
  DataParallel dp_g{connected(), *g};
  DataParallel dp_d{connected(), *d};
  for (int step = 0; step < 3; ++step) d(g(torch::ones({2, 4}))).sum().backward();
}

void load() {
  auto net = torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
  DataParallel dp(connected(), *net);
  std::stringstream saved;
  torch::save(net, saved);
  torch::load(net, saved);
  const auto real = net->forward(torch::randn({8, 4})).pow(2).mean();
  const auto fake = net->forward(torch::randn({8, 4})).pow(2).mean();
  real.backward();
  fake.backward();
}

void uneven() {
  auto net = torch::nn::Linear(4, 1);
  DataParallel dp(connected(), *net);
  for (int step = 0; step < 3 - dp.rank(); ++step) net(torch::ones({1, 4})).sum().backward();
}

const std::map<std::string, void (*)()> modes = {{"wrapped_twice", wrapped_twice},
                                                 {"zero_clip", zero_clip},
                                                 {"networks", networks},
                                                 {"load", load},
                                                 {"uneven", uneven}};

}  // namespace

int main(int argc, char** argv) try {
  torch::set_num_threads(1);
  const auto mode = modes.find(argc > 1 ? argv[1] : "");
  if (mode == modes.end()) {
    std::cerr << "torch_trainers: name a mode\n";
    return 42;
  }
  mode->second();
  std::cout << "ended well\n";
} catch (const weft::torch::Error& error) {
  std::cerr << error.what() << '\n';
  return weft::exit_code(error.kind());
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return weft::exit_code(error);
}
