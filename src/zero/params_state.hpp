#pragma once
// What stands behind ShardedParams: memory, and the lanes on which parameters come.

#include <memory>
#include <optional>
#include <vector>

#include "gradient/wire.hpp"
#include "weft/zero/sharded_params.hpp"
#include "zero/group_slots.hpp"
#include "zero/params_plan.hpp"

namespace weft::zero {

class ShardedParams::State {
 public:
  /// What this rank updates of a bucket.
  struct Part {
    std::int64_t begin = 0;     ///< in the flat space
    std::int64_t state_at = 0;  ///< in buffers of state_elements()
    View parameters;
    View gradient;  ///< the means, after a step
  };

  State(Communicator comm, const ParamLayout& layout, ShardedOptions options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const Stage& stage() const { return stage_; }
  const ParamLayout& layout() const { return reducer_->layout(); }
  GradientReducer& reducer() { return *reducer_; }
  /// Of the ranks that share.
  const Communicator& comm() const { return comm_; }
  /// And of those that keep replicas of the same.
  const Communicator& all() const { return all_; }
  int groups() const { return static_cast<int>(groups_.size()); }
  int group_of(ParamId id) const;

  void load(ParamId id, ConstView values);
  Buffer whole(ParamId id);
  void gather(int group, const Stream& compute);
  void release(int group, const Stream& compute) noexcept;
  View at(int group, ParamId id) const;
  void gather_all(const Stream& compute);
  View gradient(ParamId id, const Stream& compute);

  // What the optimizer asks.
  std::int64_t state_elements() const;
  Part part(const Bucket& bucket);
  /// Of the plan at hand: they cover everything that this rank updates.
  const std::vector<Bucket>& buckets() const { return reducer_->plan().buckets(); }
  /// Nothing is held, and `compute` has waited for all that is on its way: then parts may change.
  /// @throws Error (usage) when a group is held
  void settle(const Stream& compute);
  /// This rank's part is new when `compute` gets here: from now on it goes to the others.
  /// @param offloaded done when so is what was updated elsewhere; until then its gradients are read, too
  void updated(const Bucket& bucket, const Stream& compute, const Event& offloaded = {});
  /// All parts are.
  void all_updated();
  /// Carries on what waited for an update elsewhere. Any thread may.
  void carry_on() { lanes_->poll(); }

  double exposed_seconds() const { return reducer_->exposed_seconds() + lanes_->lost_seconds(); }
  std::uint64_t wire_bytes() const;
  std::int64_t held_bytes() const;
  std::int64_t host_bytes() const;
  /// Parts of gradients lie where the host reaches them.
  bool has_gradients_on_host() const { return options_.offload_gradients; }

 private:
  struct Group {
    ParamId first{};
    std::int64_t begin = 0;  // of the flat space
    std::int64_t count = 0;
    std::vector<std::size_t> buckets{};  // where anything is sharded
    View memory{};                       // where it is whole for good; empty where it is gathered into slots
    RecycledVector<Event> arrived{};     // there
    RecycledVector<Event> offloaded{};   // updates elsewhere, which read its gradients
    int slot = -1;                       // as gathered last
    bool held = false;
  };
  struct Slot {
    View memory;
    RecycledVector<Event> arrived{};
    Event released{};
  };

  void share_out(const ParamLayout& layout, const detail::ParamsPlan& plan);
  void place_groups(const detail::ParamsPlan& plan);
  void make_slots(const detail::ParamsPlan& plan);
  bool is_whole(std::size_t bucket) const { return !groups_[group_of_bucket_[bucket]].memory.empty(); }
  /// This rank's part of a bucket's parameters.
  View own_part(std::size_t bucket);
  void fetch(int group, Slot& slot);
  void fetch_ahead();
  void wait(const RecycledVector<Event>& arrived, Stream compute);
  std::string name_of(int group) const;
  [[noreturn]] void refuse_more(int group) const;

  Communicator all_;
  Communicator comm_;                     // that share
  std::optional<Communicator> replicas_;  // that keep the same part
  Communicator gathers_;  // on a device its own: NCCL carries out a communicator's operations in turn
  ShardedOptions options_;
  Stage stage_;
  std::optional<detail::ShardPlan> shards_;  // where anything is sharded
  std::unique_ptr<GradientReducer> reducer_;
  std::shared_ptr<detail::Wire> lanes_;
  Stream own_;  // for loading
  Buffer whole_;
  Buffer shard_memory_;
  View shard_;  // as the device has it
  Buffer slot_memory_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_bucket_;
  std::vector<std::int64_t> shard_at_;  // by bucket
  std::vector<Event> updated_;          // by bucket
  std::vector<Event> offloaded_;        // by bucket, the rest of it
  std::optional<detail::GroupSlots> slots_;
  std::vector<Slot> slot_;
};

}  // namespace weft::zero
