#pragma once
// torch's store as weft's: the ranks of a group meet where torch keeps the group's keys.
//
// Torch puts the group's name before the keys, and keeps them when processes are started again: torchrun's agent, too. So ranks first agree
// on which attempt this is (collectives/bootstrap/attempt.hpp), and what they write from then on is that attempt's alone.
// No call waits in torch's store, which would hold up other users of the same connection and signal handlers, and write a warning for each
// wait that was in vain.

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "collectives/bootstrap/attempt.hpp"
#include "weft/collectives/store.hpp"

namespace weft::distributed {

/// As it is: what is set again is replaced.
class WordsOfTorch final : public detail::KeptStore {
 public:
  explicit WordsOfTorch(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  void put(const std::string& key, const std::string& value) override;
  std::optional<std::string> look(const std::string& key) override;
  bool has(const std::string& key);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

class TorchStore final : public Store {
 public:
  /// Collective; blocks until all ranks are there. @throws as join_attempt
  TorchStore(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Deadline deadline);

  void set(const std::string& key, const std::string& value) override;
  /// @throws Error (peer_lost) when rank 0 has begun another attempt meanwhile
  std::optional<std::string> get(const std::string& key, Deadline deadline) override;
  /// Whether the key is set; does not wait.
  bool has(const std::string& key);

 private:
  std::string of_attempt(const std::string& key) const { return attempt_ + '/' + key; }

  WordsOfTorch words_;
  const int rank_;
  const int size_;
  const std::string attempt_;
};

}  // namespace weft::distributed
