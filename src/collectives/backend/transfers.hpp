#pragma once
// The messages of a Group, and what its Work can say of them while they are under way.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/collectives/work.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/text.hpp"
#include "weft/core/view.hpp"

namespace weft::detail {

/// What a Work asks of its operation. Any thread may ask.
class UnderWay {
 public:
  virtual ~UnderWay() = default;
  UnderWay() = default;
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  /// "rank 1 (its last collective is #3)": for whom it waits, where that can be seen; else empty
  virtual std::string late() const = 0;
  /// Whose message the n-th receive from any rank took; none while there is none.
  virtual std::optional<int> source(std::size_t /*receive*/) const { return std::nullopt; }
};

inline constexpr int any_source = -1;

/// What messages a backend carries between host memory; those of a device's memory have neither tags nor any source.
struct MessageLimits {
  std::uint32_t largest_tag = 0;
  bool any_source = false;  ///< whether a receive may leave the sender open
};

/// One message of a Group: `in` is received into, or `out` is sent.
struct Transfer {
  ConstView out;
  View in;
  int peer = 0;  ///< of a receive it may be any_source
  bool sends = false;
  std::uint32_t tag = 0;

  std::int64_t count() const { return sends ? out.count() : in.count(); }
  DataType dtype() const { return sends ? out.dtype() : in.dtype(); }
  Device device() const { return sends ? out.device() : in.device(); }
  std::size_t size_bytes() const { return sends ? out.size_bytes() : in.size_bytes(); }
  /// "rank 1 to send 10 f32 (tag 5)": what it waits for
  std::string awaited() const {
    const std::string rank = peer == detail::any_source ? "any rank" : text("rank ", peer);
    return text(rank, sends ? " to receive " : " to send ", count(), ' ', dtype(), with_tag());
  }
  std::string with_tag() const { return tag == 0 ? "" : text(" (tag ", tag, ")"); }
};

/// Which messages of a group are done: the task that moves them says so.
class GroupProgress {
 public:
  explicit GroupProgress(const std::vector<Transfer>& transfers) : all_(transfers.size()) {
    for (std::size_t i = 0; i < transfers.size(); ++i) all_[i].transfer = transfers[i];
  }

  /// @param source of the message that a receive took
  void done(std::size_t index, int source) {
    all_[index].source.store(source, std::memory_order_relaxed);
    all_[index].is_done.store(true, std::memory_order_relaxed);
  }
  std::optional<int> source(std::size_t receive) const {
    for (const One& one : all_) {
      if (one.transfer.sends || one.transfer.peer != any_source || receive-- > 0) continue;
      const int source = one.source.load(std::memory_order_relaxed);
      return source == any_source ? std::nullopt : std::optional(source);
    }
    return std::nullopt;
  }
  /// "rank 1 to send 10 f32, rank 2 to receive 4 i32, and 3 more"
  std::string missing() const {
    constexpr int most = 8;
    std::string names;
    int count = 0;
    for (const One& one : all_) {
      if (one.is_done.load(std::memory_order_relaxed) || ++count > most) continue;
      names += (names.empty() ? "" : ", ") + one.transfer.awaited();
    }
    return count > most ? text(names, ", and ", count - most, " more") : names;
  }

 private:
  struct One {
    Transfer transfer{};
    std::atomic<bool> is_done{false};
    std::atomic<int> source{any_source};
  };
  RecycledVector<One> all_;
};

struct Transfers {
  std::vector<Transfer> all;
  std::chrono::nanoseconds timeout{};         ///< 0: the backend's own
  std::shared_ptr<GroupProgress> progress{};  ///< null for a step of another operation
};

}  // namespace weft::detail
