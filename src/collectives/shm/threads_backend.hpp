#pragma once
// Ranks that are threads of one process: the shared-memory code of `host`, where thread sanitizers see all of
// it. One thread alone is the backend `self`.

#include <functional>

#include "collectives/backend/backend.hpp"

namespace weft::detail {

struct ThreadsOptions {
  std::chrono::nanoseconds timeout;
  bool shared_memory = true;  ///< false: no rank reaches another's buffers, all data is staged
};

/// Runs `body` on so many threads at once. Rethrows the first failure by rank, after all have ended.
void on_threads(int ranks, const std::function<void(int rank)>& body);

/// Collective over `rendezvous`, whose ranks are threads of this process.
std::shared_ptr<Backend> make_threads_backend(const std::shared_ptr<Rendezvous>& rendezvous,
                                              const ThreadsOptions& options);

}  // namespace weft::detail
