#pragma once
// One side channel for two listeners: what is said of operations on host memory, and of those of a device. Each hears its own.

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/backend/backend.hpp"

namespace weft::detail {

class SideLanes {
 public:
  /// @param below lives longer
  explicit SideLanes(SideChannel& below) : below_(below) {}
  SideLanes(const SideLanes&) = delete;
  SideLanes& operator=(const SideLanes&) = delete;

  SideChannel& host() { return host_; }
  SideChannel& device() { return device_; }

 private:
  /// A message begins with its lane's letter.
  class Lane final : public SideChannel {
   public:
    Lane(SideLanes& all, char letter) : all_(all), letter_(letter) {}
    void post(const std::string& message) override { all_.below_.post(letter_ + message); }
    std::vector<Message> collect() override {
      const std::lock_guard lock(all_.mutex_);
      for (Message& message : all_.below_.collect()) {
        Lane& lane = message.body.starts_with(all_.device_.letter_) ? all_.device_ : all_.host_;
        message.body.erase(0, 1);
        lane.heard_.push_back(std::move(message));
      }
      return std::exchange(heard_, {});
    }

   private:
    SideLanes& all_;
    const char letter_;
    std::vector<Message> heard_{};  // and not collected
  };

  SideChannel& below_;
  std::mutex mutex_;
  Lane host_{*this, 'h'};
  Lane device_{*this, 'd'};
};

}  // namespace weft::detail
