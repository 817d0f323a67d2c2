#pragma once
// The fake NCCL (tests/fake_nccl) with a profiler: each communicator of a rank tells libnccl-profiler-weft.so of its operations, as NCCL of some release
// does. An operation's kernel has two channels; the GPU's clock is the steady clock.
//
//   FakeNcclRanks nccl(version_of(Release::v2_28));
//   nccl.observe(profiled(Release::v2_28));

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_nccl/threads.hpp"
#include "unit/tools/weft-report/profiler/calling_nccl.hpp"

namespace weft::profiler::test {

/// The first NCCL that asks for the interface.
inline int version_of(Release release) {
  using detail::nccl::version_code;
  switch (release) {
    case Release::v2_23:
      return version_code(2, 23, 4);
    case Release::v2_24:
      return version_code(2, 24, 3);
    case Release::v2_26:
      return version_code(2, 26, 2);
    case Release::v2_27:
      return version_code(2, 27, 3);
    case Release::v2_28:
      return version_code(2, 28, 3);
    case Release::v2_29:
      return version_code(2, 29, 2);
    case Release::v2_31:
      return version_code(2, 31, 2);
  }
  throw std::logic_error("no release");
}

/// Says of each event whether NCCL leaves it out.
using Loses = std::function<bool()>;

class ProfiledRank final : public fake_nccl::Observed {
 public:
  ProfiledRank(std::shared_ptr<const CallingNccl> nccl, const std::string& name, int ranks, int rank,
               Loses loses)
      : nccl_(std::move(nccl)),
        communicator_(*nccl_, {.hash = std::hash<std::string>{}(name), .ranks = ranks, .rank = rank}),
        loses_(std::move(loses)) {}

  void* enqueued(const fake_nccl::Enqueued& one) override {
    Task task{.handle = nullptr, .channels = channels};
    if (!lost()) {
      task = communicator_.enqueue({.function = one.function,
                                    .datatype = one.datatype,
                                    .count = one.count,
                                    .root = one.root,
                                    .channels = channels,
                                    .p2p = one.is_message});
    }
    const std::lock_guard lock(mutex_);
    return &operations_.emplace_back(Operation{.task = task, .parts = {}});
  }
  void began(void* operation) override {
    auto& one = *static_cast<Operation*>(operation);
    for (int channel = 0; channel < one.task.channels; ++channel) {
      if (!lost()) one.parts.push_back(communicator_.begin_part(one.task, channel, now()));
    }
  }
  void ended(void* operation) override {
    for (void* const part : static_cast<Operation*>(operation)->parts) {
      if (!lost()) communicator_.end_part(part, now());
    }
  }

 private:
  static constexpr int channels = 2;
  struct Operation {
    Task task;
    std::vector<void*> parts;
  };

  static std::uint64_t now() {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }
  bool lost() const { return loses_ && loses_(); }

  std::shared_ptr<const CallingNccl> nccl_;
  Communicator communicator_;
  Loses loses_;
  std::mutex mutex_;
  std::deque<Operation> operations_;  // their addresses stay
};

/// @throws std::runtime_error where the library is not found
inline fake_nccl::Observer profiled(Release release, Loses loses = {}) {
  auto nccl = std::make_shared<const CallingNccl>(release, "weft");
  if (!nccl->loaded()) throw std::runtime_error("libnccl-profiler-weft.so is not found");
  return [nccl, loses](const std::string& name, int ranks, int rank) {
    return std::make_shared<ProfiledRank>(nccl, name, ranks, rank, loses);
  };
}

}  // namespace weft::profiler::test
