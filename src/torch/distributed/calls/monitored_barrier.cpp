// A barrier that says which ranks did not come, and leaves the group intact: ranks meet in torch's store.

#include <thread>

#include "torch/distributed/backend.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/store.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/text.hpp"

namespace weft::distributed {
namespace {

/// Waits for the key in small steps, so that other threads use the store meanwhile.
bool comes(TorchStore& store, const std::string& key, const Deadline& deadline) {
  std::chrono::microseconds pause{50};
  while (!store.has(key)) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(5000));
  }
  return true;
}

}  // namespace

// Rank 0 looks for all, and tells all what it found.
void TorchBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const std::chrono::milliseconds timeout = options.timeout.count() < 0 ? group_->timeout() : options.timeout;
  const Deadline deadline = Deadline::in(timeout);
  const std::string keys = text("monitored_barrier/", ++monitored_, "/");
  const std::string verdict = keys + "verdict";
  const auto fail = [](const std::string& line) { std::rethrow_exception(backend_error(line)); };
  if (getRank() != 0) {
    store_->set(keys + std::to_string(getRank()), "here");
    // Rank 0 says at its own deadline who is missing.
    if (!comes(*store_, verdict, Deadline::in(timeout + std::min(timeout, std::chrono::milliseconds(2000)))))
      fail(text("[Rank ", getRank(), "]: weft: rank 0 failed to pass monitoredBarrier in ", timeout.count(),
                " ms"));
    const std::string said = store_->get(verdict, deadline).value_or("");
    if (!said.empty()) fail(text("[Rank ", getRank(), "]: weft: ", said));
    return;
  }
  if (deadline.passed())
    fail(text("[Rank 0]: weft: Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms"));
  std::vector<int> missing;
  for (int rank = 1; rank < getSize(); ++rank) {
    if (comes(*store_, keys + std::to_string(rank), deadline)) continue;
    missing.push_back(rank);
    if (!wait_for_all) break;
  }
  if (missing.empty()) return store_->set(verdict, "");
  std::string names = text(missing.size() > 1 ? "Ranks " : "Rank ", missing.front());
  for (std::size_t i = 1; i < missing.size(); ++i) names += text(", ", missing[i]);
  const std::string line = text(names, " failed to pass monitoredBarrier in ", timeout.count(), " ms");
  store_->set(verdict, line);
  fail("[Rank 0]: weft: " + line);
}

}  // namespace weft::distributed
