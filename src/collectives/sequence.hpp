#pragma once
// Tasks that follow each other as one.

#include <functional>
#include <memory>
#include <vector>

#include "weft/core/buffer.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

/// Tasks one after the other, each made when the one before is complete.
class Sequence final : public Task {
 public:
  using Step = std::function<std::unique_ptr<Task>()>;

  /// @param memory that the steps use
  Sequence(std::vector<Step> steps, std::shared_ptr<Buffer> memory)
      : steps_(std::move(steps)), memory_(std::move(memory)) {}

  bool advance() override {
    for (; next_ < steps_.size() || current_; current_.reset()) {
      if (!current_) current_ = steps_[next_++]();
      if (current_ && !current_->advance()) return false;
    }
    return true;
  }
  void rest(std::chrono::microseconds at_most) override {
    if (current_) current_->rest(at_most);
  }

 private:
  std::vector<Step> steps_;
  std::shared_ptr<Buffer> memory_;
  std::size_t next_ = 0;
  std::unique_ptr<Task> current_;
};

}  // namespace weft::detail
