#include "common/late_warnings.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/core/log.hpp"

namespace weft::tool {
namespace {

constexpr std::chrono::seconds wait_for_an_error{1};

/// Lives as long as the process: other threads may log until its end.
class LateWarnings {
 public:
  void add(std::string_view line) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
    if (!std::exchange(is_served_, true)) std::thread([this] { serve(); }).detach();
    is_there_.notify_one();
  }
  void print() {
    const std::lock_guard lock(mutex_);
    for (const std::string& line : std::exchange(lines_, {})) log::print(log::Level::warn, line);
  }

 private:
  [[noreturn]] void serve() {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        is_there_.wait(lock, [this] { return !lines_.empty(); });
      }
      std::this_thread::sleep_for(wait_for_an_error);
      print();
    }
  }

  std::mutex mutex_;
  std::condition_variable is_there_;
  std::vector<std::string> lines_;
  bool is_served_ = false;
};

LateWarnings& late_warnings() {
  static auto* const all = new LateWarnings;
  return *all;
}

}  // namespace

void delay_warnings() {
  log::set_sink([](log::Level level, std::string_view line) {
    if (level == log::Level::warn) return late_warnings().add(line);
    log::print(level, line);
  });
}

void print_warnings() {
  late_warnings().print();
}

}  // namespace weft::tool
