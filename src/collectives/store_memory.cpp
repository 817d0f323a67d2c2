#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

#include "store_detail.hpp"
#include "weft/collectives/store.hpp"

namespace weft {
namespace {

class MemoryStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    detail::check_entry(key, value.size());
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = values_.try_emplace(key, value);
    if (!fresh && entry->second != value) {
      throw Error(ErrorKind::usage, text("key '", key, "' was set before to another value"));
    }
    changed_.notify_all();
  }

  std::optional<std::string> get(const std::string& key, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    // Turns of an hour: the clock's largest time point, which means "never", overflows inside some libraries.
    while (true) {
      if (const auto found = values_.find(key); found != values_.end()) return found->second;
      if (deadline.passed()) return std::nullopt;
      changed_.wait_until(lock, std::min(deadline.end(), Deadline::Clock::now() + std::chrono::hours(1)));
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

}  // namespace weft
