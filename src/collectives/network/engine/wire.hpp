#pragma once
// One rank's end of a group of ranks, over any transport (Peers): what a communicator between nodes stands on. It is used while enter() is held,
// by any thread unless any_thread() says otherwise.

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/network/engine/peers.hpp"

namespace weft::detail {

class GroupWire {
 public:
  /// @param timeout for the ranks of a split to meet
  GroupWire(RankGroup group, std::chrono::nanoseconds timeout)
      : group_(std::move(group)), timeout_(timeout) {}
  GroupWire(const GroupWire&) = delete;
  GroupWire& operator=(const GroupWire&) = delete;
  /// The wire of all ranks. Collective over `rendezvous`, which is theirs. @throws Error as Peers::begin_group() does
  static std::shared_ptr<GroupWire> of_all(const std::shared_ptr<Peers>& all,
                                           const std::shared_ptr<Rendezvous>& rendezvous, Deadline deadline,
                                           std::chrono::nanoseconds timeout);
  /// The wire of some of its ranks, who meet at `rendezvous`, in that order. Collective.
  std::shared_ptr<GroupWire> split(const std::vector<int>& members,
                                   const std::shared_ptr<Rendezvous>& rendezvous) const;

  /// "MPI"
  std::string name() const { return group_.all->name(); }
  int rank() const { return group_.rank; }
  int size() const { return static_cast<int>(group_.ranks.size()); }
  int largest_tag() const { return group_.largest_tag; }
  bool any_thread() const { return group_.all->any_thread(); }
  std::unique_lock<std::mutex> enter() { return group_.all->enter(); }
  /// The wire lives longer.
  std::shared_ptr<Messages> messages() const { return make_recycled<Messages>(group_); }
  /// Enters by itself. Lives as long as the wire.
  SideChannel& side_channel() { return side_channel_; }
  /// Enters by itself. The ranks that are gone, and how, as far as the transport knows.
  std::vector<std::pair<int, std::string>> losses();
  /// Entered. Whether a rank that is gone has said goodbye before: it ended without an error.
  bool has_left(int rank) const { return group_.all->has_left(group_.in_transport(rank)); }
  /// Not entered, when a look has found nothing: lets a rank that shares this core run, where looks cost system calls anyway.
  void give_way();
  /// Not entered: returns when something may have come, after `at_most` at the latest.
  void rest(std::chrono::microseconds at_most) { group_.all->rest(at_most); }
  /// The transport's own way to carry out a collective. @throws Error (usage) where it has none
  std::unique_ptr<Task> own_collective(const Operation& operation, std::chrono::nanoseconds timeout) {
    return group_.all->own_collective(group_, operation, timeout);
  }
  /// This rank takes part no longer, by an error.
  void give_up() noexcept { group_.all->give_up(); }

 private:
  class Notes final : public SideChannel {
   public:
    explicit Notes(const RankGroup& group) : group_(group) {}
    void post(const std::string& message) override;
    std::vector<Message> collect() override;

   private:
    const RankGroup& group_;
  };

  static std::shared_ptr<GroupWire> of(RankGroup group, const std::shared_ptr<Rendezvous>& rendezvous,
                                       Deadline deadline, std::chrono::nanoseconds timeout);

  const RankGroup group_;
  const std::chrono::nanoseconds timeout_;
  Notes side_channel_{group_};
};

}  // namespace weft::detail
