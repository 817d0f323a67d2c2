// mlp-8x1024 of bench/reference.json in LibTorch: a step with DataParallel, with gradients copied and in place, beside
// one without communication, in turn in one run. Start it on every rank, with WEFT_RANK and so on, weft-launch or mpirun:
//   OMP_NUM_THREADS=1 weft-launch -n 2 build/torch/bin/bench_libtorch [ROUNDS] [HOOK]

#include <torch/nn.h>
#include <torch/optim.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
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

double part(std::vector<double> values, double of) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * of)];
}

double median(const std::vector<double>& values) {
  return part(values, 0.5);
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What runs beside the others, in turn: its time is that of the slowest rank, and its CPU time this rank's.
class Turns {
 public:
  explicit Turns(weft::Communicator comm) : comm_(std::move(comm)) {}
  const std::vector<double>& seconds() const { return seconds_; }
  const std::vector<double>& cpu() const { return cpu_; }

  template <class Body>
  void take(bool counts, Body body) {
    comm_.barrier(stream_);
    stream_.synchronize();
    const double cpu = cpu_seconds();
    const auto begin = std::chrono::steady_clock::now();
    body();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double cpu_used = cpu_seconds() - cpu;
    comm_.all_reduce(weft::View(std::span(&seconds, 1)), weft::ReduceOp::max, stream_);
    stream_.synchronize();
    if (!counts) return;
    seconds_.push_back(seconds);
    cpu_.push_back(cpu_used);
  }

 private:
  weft::Communicator comm_;
  weft::Stream stream_;
  std::vector<double> seconds_;
  std::vector<double> cpu_;
};

class Trainer : public Turns {
 public:
  using Turns::Turns;
  torch::nn::Sequential& net() { return net_; }

  void step(bool counts) {
    take(counts, [this] {
      optimizer_.zero_grad();
      torch::mse_loss(net_->forward(in_), out_).backward();
      optimizer_.step();
    });
  }

 private:
  torch::nn::Sequential net_ = mlp();
  torch::optim::SGD optimizer_{net_->parameters(), 0.01};
  at::Tensor in_ = torch::randn({32, 1024});
  at::Tensor out_ = torch::randn({32, 1024});
};

/// The gradients' bytes, reduced in place and one after the other. Where every core computes, nothing hides that
/// time; but a step may find gradients in the cache, and memory that the heap kept costs no page faults.
class Exchange : public Turns {
 public:
  explicit Exchange(const weft::Communicator& comm) : Turns(comm), comm_(comm) {
    for (int layer = 0; layer < 8; ++layer)
      gradients_.push_back(comm_.allocate(weft::DataType::f32, 1024 * 1024 + 1024));
  }
  void run(bool counts) {
    take(counts, [this] {
      for (weft::Buffer& one : gradients_) comm_.all_reduce(one.view(), weft::ReduceOp::avg, stream_);
      stream_.synchronize();
    });
  }

 private:
  weft::Communicator comm_;
  weft::Stream stream_;
  std::vector<weft::Buffer> gradients_;
};

/// Rounds differ as the machine does; the two steps of a round hardly.
void print(const char* name, const Trainer& alone, const Trainer& other) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < alone.seconds().size(); ++i)
    ratios.push_back(alone.seconds()[i] / other.seconds()[i]);
  std::cout << name << ": " << 1e3 * median(other.seconds()) << " ms, speed "
            << median(alone.seconds()) / median(other.seconds())
            << " of that without communication; of rounds, median " << median(ratios) << ", quarters "
            << part(ratios, 0.25) << " and " << part(ratios, 0.75) << "; CPU time "
            << 1e3 * median(other.cpu()) << " ms, " << median(alone.cpu()) / median(other.cpu()) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  try {
    const auto comm = weft::connect(weft::World::from_environment());
    torch::manual_seed(comm.rank());
    weft::torch::DataParallelOptions options;
    if (argc > 2) options.hook = weft::hook_named(argv[2], 0);
    Trainer alone(comm);
    Trainer copied(comm);
    const weft::torch::DataParallel by_copy(comm, *copied.net(), options);
    options.gradients_in_place = true;
    if (argc > 2) options.hook = weft::hook_named(argv[2], 0);
    Trainer in_place(comm);
    const weft::torch::DataParallel by_place(comm, *in_place.net(), options);
    Exchange exchange(comm);
    for (int round = -8; round < rounds; ++round) {  // the first eight plan buckets, and warm up
      alone.step(round >= 0);
      copied.step(round >= 0);
      in_place.step(round >= 0);
      exchange.run(round >= 0);
    }
    if (comm.rank() == 0) {
      std::cout << "mlp-8x1024, " << comm.size() << " ranks, " << comm.backend() << ": no communication "
                << 1e3 * median(alone.seconds()) << " ms, CPU time " << 1e3 * median(alone.cpu()) << " ms\n";
      print("DataParallel", alone, copied);
      print("DataParallel, gradients in place", alone, in_place);
      const double reduced = median(exchange.seconds());
      std::cout << "the reduction alone: " << 1e3 * reduced << " ms; a step and then that: speed "
                << median(alone.seconds()) / (median(alone.seconds()) + reduced) << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << weft::message_of(error) << '\n';
    return 1;
  }
  return 0;
}
