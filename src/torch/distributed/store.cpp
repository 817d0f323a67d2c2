#include "torch/distributed/store.hpp"

#include <algorithm>
#include <thread>

#include "torch/distributed/signals.hpp"

namespace weft::distributed {

void TorchStore::set(const std::string& key, const std::string& value) {
  store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
}

bool TorchStore::has(const std::string& key) {
  return store_->check({key});
}

std::optional<std::string> TorchStore::get(const std::string& key, Deadline deadline) {
  constexpr std::chrono::milliseconds longest_pause{20};
  for (std::chrono::microseconds pause{100}; !has(key);
       pause = std::min<std::chrono::microseconds>(2 * pause, longest_pause)) {
    if (deadline.passed()) return std::nullopt;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
    run_signal_handlers();
  }
  const std::vector<std::uint8_t> value = store_->get(key);
  return std::string(value.begin(), value.end());
}

}  // namespace weft::distributed
