#pragma once
// Ranks as threads, each with a device of a fake CUDA and the NCCL backend over a fake NCCL.

#include "collectives/communicator/communicator_state.hpp"
#include "collectives/nccl/nccl_backend.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "fake_nccl/threads.hpp"
#include "support/fake_cuda.hpp"

namespace weft::test {

inline Communicator connect_with_fakes(FakeNcclRanks& nccl, const std::shared_ptr<Store>& store, int rank,
                                       int ranks, std::chrono::nanoseconds timeout,
                                       std::shared_ptr<Trace> trace = nullptr,
                                       detail::Identity identity = {}) {
  auto rendezvous = make_store_rendezvous(store, "fakes", rank, ranks);
  auto host = detail::make_threads_backend(rendezvous, {timeout});
  auto backend = detail::make_nccl_backend(std::move(host), nccl.api(), rendezvous, Device::cuda(rank),
                                           {.timeout = timeout}, std::chrono::seconds(30));
  const Topology topology(std::vector<std::string>(static_cast<std::size_t>(ranks), "threads"));
  return detail::make_communicator(std::move(backend), rendezvous, topology, timeout, std::move(trace),
                                   std::move(identity));
}

/// Rethrows the first failure by rank, after all have ended.
inline void run_with_fakes(FakeNcclRanks& nccl, int ranks, const std::function<void(Communicator)>& body,
                           std::chrono::nanoseconds timeout = std::chrono::minutes(1)) {
  const auto store = make_memory_store();
  detail::on_threads(ranks, [&](int rank) { body(connect_with_fakes(nccl, store, rank, ranks, timeout)); });
}

}  // namespace weft::test
