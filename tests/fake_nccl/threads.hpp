#pragma once
// The fake for ranks that are threads of one process, over the fake CUDA of the unit tests: loaded without a library, and at a test's
// command.

#include <memory>

#include "fake_nccl/words.hpp"

namespace weft::test {

/// Puts the process's fake in its first state; one at a time.
class FakeNcclRanks {
 public:
  explicit FakeNcclRanks(int version = detail::nccl::version_code(2, 28, 9));
  ~FakeNcclRanks();
  FakeNcclRanks(const FakeNcclRanks&) = delete;
  FakeNcclRanks& operator=(const FakeNcclRanks&) = delete;

  std::shared_ptr<const detail::nccl::Api> api();

  /// What every call of this function answers from now on; success ends it.
  void refuse(const std::string& function, detail::nccl::Result answer);
  /// The collectives of a rank in the order in which they came: communicator and number.
  std::vector<std::pair<std::string, int>> handed_over(int rank);
  /// Is told what communicators do that are made from now on, until this object goes.
  void observe(fake_nccl::Observer observer);
  /// What a rank's communicators report as their asynchronous state from now on.
  void fail(int rank, detail::nccl::Result state);

 private:
  fake_nccl::Wishes& wishes_ = fake_nccl::wishes();

 public:
  std::atomic<bool>& non_blocking = wishes_.non_blocking;
  std::atomic<int>& stuck = wishes_.stuck;
  std::atomic<bool>& reachable = wishes_.reachable;
  std::atomic<int>& registered = wishes_.registered;
  std::atomic<int>& windows = wishes_.windows;
  std::atomic<int>& communicators = wishes_.communicators;
  std::atomic<int>& blocks = wishes_.blocks;
};

}  // namespace weft::test
