// Communicators of one process: of one rank, and of threads as ranks.

#include "collectives/communicator/communicator_state.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "weft/core/error.hpp"

namespace weft {

Communicator self() {
  auto rendezvous = make_store_rendezvous(make_memory_store(), "self", 0, 1);
  const auto timeout = std::chrono::minutes(1);
  return detail::make_communicator(detail::make_threads_backend(rendezvous, {.timeout = timeout}), rendezvous,
                                   Topology({"self"}), timeout, nullptr);
}

void run_as_threads(int ranks, const std::function<void(Communicator)>& body, const ThreadRanks& options) {
  if (ranks < 1)
    throw Error(ErrorKind::usage, text("run_as_threads with ", ranks, " ranks"), "at least 1 is needed");
  const auto store = make_memory_store();
  detail::on_threads(ranks, [&](int rank) {
    auto rendezvous = make_store_rendezvous(store, "threads", rank, ranks);
    auto backend = detail::make_threads_backend(rendezvous, {options.timeout, options.shared_memory});
    const Topology topology(std::vector<std::string>(static_cast<std::size_t>(ranks), "threads"));
    body(detail::make_communicator(backend, rendezvous, topology, options.timeout, options.trace));
  });
}

}  // namespace weft
