#pragma once
// A process group: one communicator of weft, which one thread at a time issues to.
//
// Calls are issued in their order. A work with further steps holds up those after it until its last step is
// issued. A closed group refuses calls; what is under way goes on. A group with a lane is for the tensors of one
// device (device/): its works have one step, and nothing is held up.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/memory/per_process.hpp"
#include "torch/distributed/device/lane.hpp"
#include "torch/distributed/work.hpp"
#include "weft/collectives/store.hpp"

namespace weft::distributed {

class DeviceWork;
class Progress;

/// A group as torch knows it.
struct GroupName {
  std::string name;
  std::vector<std::int64_t> ranks;  ///< of the world; may be empty, where they are the same
  bool is_pair = false;             ///< two ranks of a group, for messages between them

  /// The name of the pair of its ranks `low` and `high`.
  GroupName pair(int low, int high) const;
};

/// This rank's place among those that connect.
struct Membership {
  std::shared_ptr<Store> store;
  std::string key;  ///< of this communicator alone
  int rank = 0;
  int size = 1;
  Device device;
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  /// Collective; blocks until all are there. @throws torch's errors; naming the ranks that are missing
  static std::shared_ptr<Group> connect(const Membership& member, GroupName name,
                                        std::chrono::milliseconds timeout);
  /// @param lane null for host tensors
  Group(Communicator comm, GroupName name, std::chrono::milliseconds timeout,
        std::shared_ptr<Progress> progress, std::unique_ptr<Lane> lane);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_.load(); }
  void timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  const GroupName& name() const { return name_; }
  Lane* lane() const { return lane_.get(); }
  std::int64_t rank_of_world(int rank) const {
    return name_.ranks.empty() ? rank : name_.ranks.at(static_cast<std::size_t>(rank));
  }
  /// What carries the data.
  const std::string& backend() const { return backend_; }
  Progress& progress() const { return *progress_; }
  /// Memory that the ranks of this node reach without a copy. It holds what was there before, as torch's own does: FSDP2 asks for
  /// some in every step, which would otherwise be zeroed, and its pages be given back, each time.
  Buffer allocate(std::int64_t bytes);

  /// Issues its first step, or queues it. @throws as torch's errors what weft refuses in the call
  void start(const TorchWorkPtr& work);
  /// Hands all over at once, to a device; their messages progress together.
  void start_together(const std::vector<c10::intrusive_ptr<DeviceWork>>& works);
  /// @throws an error of torch's where it is closed, or not here
  void expect_open() const;
  /// @throws an error of torch's in a child that was forked since, which names the process and the rank whose group it is
  void expect_here() const;
  /// False in such a child.
  bool is_here() const { return size_ == 1 || origin_.is_here(); }
  /// Calls it with the communicator, once all that was called before is issued. It may block, and issue what all
  /// ranks issue there; other calls wait meanwhile, so it is for what happens once. Throws as start()
  void in_order(const std::function<void(Communicator&)>& call);
  /// Collectives that were called so far.
  std::uint64_t sequence() const { return sequence_.load(); }
  /// Calls of every kind that were started so far.
  std::uint64_t operations() const { return operations_.load(); }
  /// What weft throws, for users of torch.
  std::exception_ptr as_torch_error(const std::exception_ptr& error) const;

  /// Ends all that is under way with an error, on the other ranks, too.
  void abort();
  void give_up(const Error& error);
  /// No calls any more. Waits for what is under way, for `at_most` at the longest, and then ends it. The other ranks hear that this one has left, though
  /// torch may keep the group for longer, as DDP does.
  /// @param exception that ends the program, as they are told; empty: none
  void close(std::chrono::milliseconds at_most, const std::string& exception);

  // For works.
  /// A signal handler of Python has ended a wait: the program will not wait for what is under way when it closes the group.
  void was_interrupted() { was_interrupted_ = true; }
  // They do not block. False: not now.
  bool go_on(TorchWork& work);                 ///< issues its next step
  bool leave_queue(TorchWork& work);           ///< it has failed
  void drive_first(const TorchWork& waiting);  ///< of the queue, which `waiting` stands in
  void one_is_over();

  // For Progress: a mark of its round.
  std::uint64_t held_up = 0;

 private:
  void issue_waiting();
  std::optional<Communicator> communicator();
  void leave();
  void hand_over(const std::vector<c10::intrusive_ptr<DeviceWork>>& works);

  const detail::Origin origin_;
  const int rank_;
  const int size_;
  const std::string backend_;
  const GroupName name_;
  std::atomic<std::chrono::milliseconds> timeout_;
  const std::shared_ptr<Progress> progress_;
  const std::unique_ptr<Lane> lane_;
  const Stream stream_;

  mutable std::mutex mutex_;
  std::mutex leaving_;  ///< with that of calls, where it is taken, held for the changes of comm_
  std::optional<Communicator> comm_;  ///< until the group is closed
  std::deque<TorchWorkPtr> queue_;    ///< the first has further steps, the others are not issued
  std::atomic<bool> is_closed_ = false;
  std::atomic<bool> was_interrupted_ = false;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<int> under_way_{0};
};

}  // namespace weft::distributed
