#pragma once
// A communicator of one rank: what it asks the hub, and what ends its waits.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>

#include "collectives/nccl/api.hpp"
#include "fake_nccl/frames.hpp"
#include "fake_nccl/words.hpp"

namespace weft::fake_nccl {

using detail::nccl::Stream;

/// The hub at which a communicator's ranks meet, and its name there.
struct Team {
  Address hub;
  std::string name;
};

class Rank : public std::enable_shared_from_this<Rank> {
 public:
  /// Waits for all ranks. @param parent whose abort flag ends the wait, too (2.28.9: init.cc:2594)
  static Result connect(const Team& team, int size, int rank, const Rank* parent,
                        std::shared_ptr<Rank>& made);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::string& name() const { return team_.name; }
  const std::vector<Member>& members() const { return members_; }
  /// Whether all ranks are on one host.
  bool reaches_all() const;

  /// What a call is refused with, as ncclCommEnsureReady does (init.cc:373); a communicator in progress refuses all (init.cc:379).
  Result ready() const;
  /// What ncclCommGetAsyncError says: for some polls in progress, and then stores what later() was given.
  Result poll();
  /// As a communicator that is not blocking does (init.cc:2665, dev_runtime.cc:890).
  void later(std::function<void()> store);
  /// Waits while the test has this rank stuck.
  Result hold();

  /// In the caller's thread: waits until `needed` ranks have come to the same. @returns what they brought, by rank
  Result meet(const std::string& about, int needed, std::span<const std::byte> mine,
              std::vector<std::byte>* all = nullptr);
  /// The first collective connects all ranks, the first message between two those (group.cc:441, transport.cc:179). @returns what to wait
  /// for, unless they are connected
  std::optional<std::uint32_t> connect_collectives();
  std::optional<std::uint32_t> connect_message(int from, int to);
  Result wait_in_call(std::uint32_t request, const Rank* parent = nullptr,
                      std::vector<std::byte>* all = nullptr);

  /// Puts an operation on a stream. It waits there for ever where other ranks do not come, until it is aborted.
  using Operation = std::function<void(Rank&)>;
  Result enqueue(Stream stream, Operation operation);
  /// On the stream's thread. @returns nothing when it was aborted
  std::uint32_t ask(Header header, const std::string& text, std::span<const std::byte> bytes);
  std::optional<Frame> wait(std::uint32_t request);

  /// Who is told what this communicator does; null: nobody.
  Observed* observed() const { return observed_.get(); }

  int next_operation() { return operations_++; }
  int next_child() { return children_++; }
  int next_window() { return windows_++; }

  void abort();
  void revoke();
  void let_go_on();  ///< as ncclCommShrink does with its flag for aborting (init.cc:2650)
  /// Waits for what is on streams. @param leave_well whether others hear that this is no death
  void end(bool leave_well);

 private:
  Result state() const;
  bool is_stuck() const { return wishes().stuck == rank_; }
  Rank(Team team, int rank, std::shared_ptr<Connection> connection);
  void read();
  void withdraw(std::uint32_t request);
  std::uint32_t come_to(const std::string& about, int needed, std::span<const std::byte> mine);

  Team team_;
  int rank_;
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Observed> observed_;
  std::vector<Member> members_;
  std::atomic<int> operations_ = 0;
  std::atomic<int> children_ = 0;
  std::atomic<int> windows_ = 0;
  bool collectives_are_connected_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t requests_ = 0;
  std::map<std::uint32_t, std::optional<Frame>> answers_;
  std::map<std::pair<int, int>, bool> connected_;
  int on_streams_ = 0;
  bool aborted_ = false;
  bool revoked_ = false;
  bool somebody_is_lost_ = false;
  std::function<void()> store_;
  int polls_ = 0;
  const int generation_ = wishes().generation;
};

}  // namespace weft::fake_nccl
