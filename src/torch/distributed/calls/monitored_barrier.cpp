// A barrier that says which ranks did not come, and leaves the group intact: ranks meet in torch's store.

#include <thread>

#include "torch/distributed/backend.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/signals.hpp"
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
    run_signal_handlers();
    pause = std::min(2 * pause, std::chrono::microseconds(5000));
  }
  return true;
}

/// What a rank's key says.
constexpr const char *here = "here", *gave_up = "gave up";

/// How long a rank that has something to do may wait for a processor, on a machine with many others.
constexpr std::chrono::milliseconds until_scheduled = std::chrono::seconds(10);

/// "Ranks 1, 2 failed to pass monitoredBarrier in 500 ms"; nothing where none is missing.
std::string missing_line(const std::vector<int>& missing, std::chrono::milliseconds timeout) {
  if (missing.empty()) return "";
  std::string names = text(missing.size() > 1 ? "Ranks " : "Rank ", missing.front());
  for (std::size_t i = 1; i < missing.size(); ++i) names += text(", ", missing[i]);
  return text(names, " failed to pass monitoredBarrier in ", timeout.count(), " ms");
}

}  // namespace

// Rank 0 looks for all, and tells all what it found. A rank that came and does not pass says so in gloo's words,
// which programs look for, and then what rank 0 found.
void TorchBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  group_->expect_here();
  const std::chrono::milliseconds timeout = options.timeout.count() < 0 ? group_->timeout() : options.timeout;
  const Deadline deadline = Deadline::in(timeout);
  const std::string keys = text("monitored_barrier/", ++monitored_, "/");
  const std::string own = keys + std::to_string(getRank());
  const std::string verdict = keys + "verdict";
  const auto fail = [this](const std::string& line) {
    std::rethrow_exception(backend_error(text("[Rank ", getRank(), "]: weft: ", line)));
  };
  store_->set(own, here);
  if (getRank() == 0) {
    const std::string line = deadline.passed()
                                 ? text("Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms")
                                 : missing_line(find_missing(keys, deadline, wait_for_all), timeout);
    store_->set(verdict, line);
    if (!line.empty()) fail(line);
    return;
  }
  const std::string came =
      text("Rank ", getRank(),
           " successfully reached monitoredBarrier, but received errors while waiting for "
           "send/recv from rank 0: ");
  if (!comes(*store_, keys + "0", deadline)) {
    store_->set(own, gave_up);
    fail(came + missing_line({0}, timeout));
  }
  // Rank 0 may have come at the last moment, and says at its own deadline who is missing: not this rank's.
  const auto until_told = timeout + until_scheduled;
  if (!comes(*store_, verdict, Deadline::in(until_told)))
    fail(text(came, "rank 0 came, and has not said for ", until_told.count(),
              " ms whether all did; look at its log"));
  const std::string said = store_->get(verdict, Deadline::in(until_scheduled)).value_or("");
  if (!said.empty()) fail(came + said);
}

std::vector<int> TorchBackend::find_missing(const std::string& keys, const Deadline& deadline, bool all) {
  std::vector<int> missing;
  for (int rank = 1; rank < getSize() && (all || missing.empty()); ++rank) {
    const std::string key = keys + std::to_string(rank);
    if (!comes(*store_, key, deadline) || store_->get(key, deadline) == gave_up) missing.push_back(rank);
  }
  return missing;
}

}  // namespace weft::distributed
