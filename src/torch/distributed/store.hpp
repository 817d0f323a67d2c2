#pragma once
// torch's store as weft's: the ranks of a group meet where torch keeps the group's keys.
//
// The keys are those of the group alone, since torch puts its name before each. `check` and `set` go through
// at once; `get` asks again and again, so that other users of the same connection, and signal handlers, have their turn.

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "weft/collectives/store.hpp"

namespace weft::distributed {

class TorchStore final : public Store {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Deadline deadline) override;
  /// Whether the key is set; does not wait.
  bool has(const std::string& key);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace weft::distributed
