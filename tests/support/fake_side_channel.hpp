#pragma once
// A side channel of ranks that are objects of one process.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "weft/core/error.hpp"

namespace weft::test {

using detail::SideChannel;

/// What all ranks have posted, and how much of it each has collected.
struct Mailbox {
  std::mutex mutex;
  std::vector<SideChannel::Message> messages;
};

class FakeSideChannel final : public SideChannel {
 public:
  FakeSideChannel(std::shared_ptr<Mailbox> mailbox, int rank) : mailbox_(std::move(mailbox)), rank_(rank) {}

  void post(const std::string& word) override {
    const std::lock_guard lock(mailbox_->mutex);
    if (refuses) throw Error(ErrorKind::system, "the side_channel is gone");
    mailbox_->messages.push_back({rank_, word});
  }
  std::vector<Message> collect() override {
    const std::lock_guard lock(mailbox_->mutex);
    std::vector<Message> fresh;
    for (; collected_ < mailbox_->messages.size(); ++collected_) {
      if (mailbox_->messages[collected_].rank != rank_) fresh.push_back(mailbox_->messages[collected_]);
    }
    return fresh;
  }
  std::vector<std::string> posted() const {
    const std::lock_guard lock(mailbox_->mutex);
    std::vector<std::string> mine;
    for (const Message& message : mailbox_->messages) {
      if (message.rank == rank_) mine.push_back(message.body);
    }
    return mine;
  }

  bool refuses = false;

 private:
  std::shared_ptr<Mailbox> mailbox_;
  int rank_;
  std::size_t collected_ = 0;
};

}  // namespace weft::test
