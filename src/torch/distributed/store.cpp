#include "torch/distributed/store.hpp"

#include <algorithm>

namespace weft::distributed {

void TorchStore::set(const std::string& key, const std::string& value) {
  store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
}

bool TorchStore::has(const std::string& key) {
  return store_->check({key});
}

std::optional<std::string> TorchStore::get(const std::string& key, Deadline deadline) {
  if (!has(key)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
    if (left.count() <= 0) return std::nullopt;
    // torch takes none as for ever, and keeps the milliseconds in 32 bits.
    constexpr std::chrono::milliseconds longest = std::chrono::hours(24);
    try {
      store_->wait({key}, std::min(left, longest));
    } catch (const c10::Error&) {
      // Each store has its own error for a time that is up. A connection that is lost is told by has().
      if (!has(key)) return std::nullopt;
    }
  }
  const std::vector<std::uint8_t> value = store_->get(key);
  return std::string(value.begin(), value.end());
}

}  // namespace weft::distributed
