#include "collectives/bootstrap/lookout.hpp"

#include "core/streams/interruption.hpp"

namespace weft::detail {

namespace {
constexpr std::chrono::milliseconds between_questions{100};
}

Lookout::~Lookout() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Lookout::check() {
  Interruption::look();
  if (!thread_.joinable()) {
    if (moment_.passed()) thread_ = std::thread([this] { ask(); });
    return;
  }
  const std::lock_guard lock(mutex_);
  if (found_) throw Error(*found_);
}

void Lookout::ask() {
  std::unique_lock lock(mutex_);
  while (!is_over_ && !found_) {
    lock.unlock();
    std::optional<Error> found;
    try {
      found = rendezvous_.called_off();
    } catch (const Error& error) {
      found = error;
    }
    lock.lock();
    found_ = found;
    if (!found_) changed_.wait_for(lock, between_questions, [this] { return is_over_; });
  }
}

}  // namespace weft::detail
