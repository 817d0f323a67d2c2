#pragma once
// Has the names of weft that the patched programs use, and exchanges gradients in another way, when backward() has run. With
// STAND_IN_REFERENCE ranks are threads of one process, of which one runs at a time (reference.cpp): sums in the order of ranks.
// Else as TRIAL_EXCHANGE says:
//   none  not at all
//   meet  an MPI_Barrier alone: what ranks wait for each other is no cost of an exchange
//   mpi   an MPI_Allreduce for each parameter
//   gloo  c10d's all_reduce for each parameter, all begun before the first is waited for, as dist-mnist does it

#include <torch/csrc/autograd/engine.h>
#include <torch/nn/module.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>
#ifndef STAND_IN_REFERENCE
#include <mpi.h>
#endif
#ifdef USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

namespace weft {

inline int of_environment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

inline bool exchanges_by(const std::string& way) {
  const char* of = std::getenv("TRIAL_EXCHANGE");
  return of != nullptr && of == way;
}

#ifdef STAND_IN_REFERENCE
int reference_rank();
int reference_ranks();
/// Gradients, then buffers, of all ranks become what they are after an exchange.
void reference_exchange(const ::torch::nn::Module& module, bool gradients);
#endif

struct World {
  static World from_environment() { return {}; }
};
struct Communicator {
#ifdef STAND_IN_REFERENCE
  int rank() const {
    return reference_rank();
  }
  int size() const {
    return reference_ranks();
  }
#else
  int rank() const {
    return of_environment("OMPI_COMM_WORLD_RANK", 0);
  }
  int size() const {
    return of_environment("OMPI_COMM_WORLD_SIZE", 1);
  }
#endif
};
inline Communicator connect(const World&) {
#ifndef STAND_IN_REFERENCE
  int begun = exchanges_by("mpi") || exchanges_by("meet") ? 0 : 1;
  if (begun) return {};
  MPI_Initialized(&begun);
  if (!begun) {
    MPI_Init(nullptr, nullptr);
    std::atexit([] { MPI_Finalize(); });
  }
#endif
  return {};
}
enum class Uneven { refuse, mean_of_all, mean_of_the_rest };

namespace torch {

struct DataParallelOptions {
  Uneven uneven = Uneven::refuse;
};

class DataParallel {
  struct State {
    ::torch::nn::Module& module;
    Communicator comm;
    bool on = true, in_pass = false;
#ifdef USE_C10D_GLOO
    std::shared_ptr<c10d::ProcessGroupGloo> group = exchanges_by("gloo") ? make_group(comm) : nullptr;

    static std::shared_ptr<c10d::ProcessGroupGloo> make_group(const Communicator& comm) {
      static int made = 0;
      auto options = c10d::ProcessGroupGloo::Options::create();
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
      const std::string file = std::string(std::getenv("TRIAL_STORE")) + std::to_string(made++);
      auto store = c10::make_intrusive<c10d::FileStore>(file, comm.size());
      return std::make_shared<c10d::ProcessGroupGloo>(store, comm.rank(), comm.size(), options);
    }
#endif

    void exchange() {
      in_pass = false;
      const ::torch::NoGradGuard no_graph;
#ifndef STAND_IN_REFERENCE
      if (exchanges_by("meet")) MPI_Barrier(MPI_COMM_WORLD);
      for (const at::Tensor& one : module.parameters()) {
        if (!exchanges_by("mpi")) break;
        at::Tensor gradient = one.grad();
        MPI_Allreduce(MPI_IN_PLACE, gradient.data_ptr(), static_cast<int>(gradient.numel()), MPI_FLOAT,
                      MPI_SUM, MPI_COMM_WORLD);
        gradient.div_(comm.size());
      }
#endif
#ifdef USE_C10D_GLOO
      if (group == nullptr) return;
      std::vector<std::vector<at::Tensor>> gradients;
      for (const at::Tensor& one : module.parameters()) gradients.push_back({one.grad()});
      std::vector<decltype(group->allreduce(gradients[0], c10d::AllreduceOptions()))> works;
      for (auto& one : gradients) works.push_back(group->allreduce(one, c10d::AllreduceOptions()));
      for (auto& work : works) work->wait();
      for (auto& one : gradients) one[0].div_(comm.size());
#endif
#ifdef STAND_IN_REFERENCE
      reference_exchange(module, true);
#endif
    }
  };

 public:
  DataParallel(Communicator comm, ::torch::nn::Module& module, DataParallelOptions = {})
      : state_(std::make_shared<State>(State{module, comm})) {
#ifdef STAND_IN_REFERENCE
    reference_exchange(module, false);
#endif
#ifndef STAND_IN_REFERENCE
    if (exchanges_by("none")) return;
#endif
    for (const at::Tensor& one : module.parameters()) {
      one.register_hook([state = state_.get()](const at::Tensor&) {
        if (!state->on || state->in_pass) return;
        state->in_pass = true;
        ::torch::autograd::Engine::get_default_engine().queue_callback([state] { state->exchange(); });
      });
    }
  }
  DataParallel(const DataParallel&) = delete;
  int rank() const {
    return state_->comm.rank();
  }
  int size() const {
    return state_->comm.size();
  }
  auto no_sync() {
    state_->on = false;
    return std::shared_ptr<void>(nullptr, [state = state_](void*) { state->on = true; });
  }
  template <class Each>
  void join(Each&&) {}

 private:
  std::shared_ptr<State> state_;
};

}  // namespace torch
}  // namespace weft
