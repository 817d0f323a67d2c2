// mlp-8x1024 of bench/reference.json in LibTorch: a step with DataParallel beside one without communication, in turn in
// one run. Start it on every rank, with WEFT_RANK and so on, weft-launch or mpirun:
//   OMP_NUM_THREADS=1 weft-launch -n 2 build/torch/bin/bench_libtorch [ROUNDS] [HOOK]

#include <torch/nn.h>
#include <torch/optim.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <weft/compression/hook_named.hpp>
#include <weft/torch/data_parallel.hpp>

namespace {

torch::nn::Sequential mlp() {
  torch::nn::Sequential net;
  for (int layer = 0; layer < 8; ++layer) {
    net->push_back(torch::nn::Linear(1024, 1024));
    if (layer < 7) net->push_back(torch::nn::ReLU());
  }
  return net;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Trains beside the others; a step's time is that of the slowest rank.
class Trainer {
 public:
  explicit Trainer(weft::Communicator comm) : comm_(std::move(comm)) {}
  torch::nn::Sequential& net() { return net_; }
  const std::vector<double>& seconds() const { return seconds_; }

  void step(bool counts) {
    comm_.barrier(stream_);
    stream_.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    optimizer_.zero_grad();
    torch::mse_loss(net_->forward(in_), out_).backward();
    optimizer_.step();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    comm_.all_reduce(weft::View(std::span(&seconds, 1)), weft::ReduceOp::max, stream_);
    stream_.synchronize();
    if (counts) seconds_.push_back(seconds);
  }

 private:
  weft::Communicator comm_;
  weft::Stream stream_;
  torch::nn::Sequential net_ = mlp();
  torch::optim::SGD optimizer_{net_->parameters(), 0.01};
  at::Tensor in_ = torch::randn({32, 1024});
  at::Tensor out_ = torch::randn({32, 1024});
  std::vector<double> seconds_;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  try {
    const auto comm = weft::connect(weft::World::from_environment());
    torch::manual_seed(comm.rank());
    Trainer alone(comm);
    Trainer parallel(comm);
    weft::torch::DataParallelOptions options;
    if (argc > 2) options.hook = weft::hook_named(argv[2], 0);
    const weft::torch::DataParallel dp(comm, *parallel.net(), options);
    for (int round = -8; round < rounds; ++round) {  // the first eight plan buckets, and warm up
      alone.step(round >= 0);
      parallel.step(round >= 0);
    }
    std::vector<double> ratios;
    for (std::size_t i = 0; i < alone.seconds().size(); ++i)
      ratios.push_back(alone.seconds()[i] / parallel.seconds()[i]);
    if (comm.rank() == 0)
      std::cout << "mlp-8x1024, " << comm.size() << " ranks, " << comm.backend() << ": no communication "
                << 1e3 * median(alone.seconds()) << " ms, DataParallel " << 1e3 * median(parallel.seconds())
                << " ms, speed " << median(alone.seconds()) / median(parallel.seconds())
                << " of that without communication (median of rounds " << median(ratios) << ")\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
