#pragma once
// The implementation of ShardedParams: its memory (params_state.cpp), and the gathers of parameters
// (params_gather.cpp).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/diagnosis/counters.hpp"
#include "collectives/diagnosis/used_by_one.hpp"
#include "core/streams/stream_stopwatch.hpp"
#include "gradient/reducer/parameter_claim.hpp"
#include "gradient/reducer/wire.hpp"
#include "weft/zero/sharded_params.hpp"
#include "zero/params/gather_buffers.hpp"
#include "zero/plan/params_plan.hpp"
#include "zero/plan/trained_params.hpp"

namespace weft::zero {

class ShardedParams::State {
 public:
  /// The part of a bucket that this rank updates.
  struct Part {
    std::int64_t begin = 0;     ///< in the flat space
    std::int64_t state_at = 0;  ///< offset in buffers of state_elements()
    View parameters;
    View gradient;  ///< averaged, after the reduction
  };

  State(Communicator comm, const ParamLayout& layout, ShardedOptions options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// For the time of a public call. @throws Error (usage), also on the other ranks, while another thread is in one
  detail::OneThread::Turn turn(const char* call) { return users_.enter(call); }
  const Stage& stage() const { return stage_; }
  /// The layout of trained parameters; buckets, shards and optimizer state are in it.
  const ParamLayout& layout() const { return reducer_->layout(); }
  /// All parameters. The ParamIds below are the model's.
  const detail::TrainedParams& model() const { return model_; }
  GradientReducer& reducer() { return *reducer_; }
  /// The ranks that state is sharded over.
  const Communicator& comm() const { return comm_; }
  /// All ranks: the ranks of comm() and, in hybrid sharding, the ranks that hold replicas.
  const Communicator& all() const { return all_; }
  bool has_replicas() const { return replicas_.has_value(); }
  int units() const { return static_cast<int>(units_.size()); }
  int unit_of(ParamId id) const;

  void load(ParamId id, ConstView values);
  Buffer whole(ParamId id);
  void begin_step(Exchange exchange);
  void finish_step(const Stream& compute);
  void gather(int unit, const Stream& compute);
  void release(int unit, const Stream& compute) noexcept;
  View at(int unit, ParamId id) const;
  void gather_all(const Stream& compute);
  View gradient(ParamId id, const Stream& compute);
  void mark_ready(ParamId id, const Stream& compute);

  // For ShardedOptimizer.
  std::int64_t state_elements() const;
  Part part(const Bucket& bucket);
  /// The buckets of the present plan. They cover all elements that this rank updates.
  const std::vector<Bucket>& buckets() const { return reducer_->plan().buckets(); }
  /// Makes `compute` wait for all gathers and updates under way, so that this rank's parts may change.
  /// @throws Error (usage) when a unit is held
  void settle(const Stream& compute);
  /// This rank's part of the bucket is updated when `compute` gets here. Starts to gather it where parameters
  /// are replicated.
  /// @param offloaded done when the offloaded part is updated too; until then its gradients are read
  void updated(const Bucket& bucket, const Stream& compute, const Event& offloaded = {});
  /// All buckets are updated: drops the gather buffers' contents and prefetches.
  void all_updated();
  /// Whether this rank saves its state: of the ranks with the same state, one does.
  bool saves() const { return all_.rank() < comm_.size(); }
  /// Frozen parameters: their layout, and where they lie; none if nothing is frozen.
  const std::optional<ParamLayout>& frozen_layout() const { return model_.frozen(); }
  View frozen_memory() const { return frozen_; }
  /// All ranks have loaded the same checkpoint: there is nothing to compare.
  void restored() {
    loaded_ = {};
    alike_ = true;
  }
  /// Progresses gathers that waited for an offloaded update. Any thread may call it.
  void progress() { wire_->poll(); }

  double exposed_seconds() const { return reducer_->exposed_seconds() + wire_->exposed_seconds(); }
  std::uint64_t wire_bytes() const;
  std::int64_t held_bytes() const;
  std::int64_t host_bytes() const;
  /// Whether this rank's gradients lie in host memory.
  bool has_gradients_on_host() const { return options_.offload_gradients; }

 private:
  struct Unit {
    ParamId first{};
    std::int64_t begin = 0;  // in the flat space; a unit may have nothing but frozen parameters
    std::int64_t count = 0;
    std::vector<std::size_t> buckets{};  // empty if nothing is sharded
    bool is_whole = true;                // or gathered into gather buffers
    View memory{};                       // of a replicated unit
    RecycledVector<Event> arrived{};     // gathers into `memory`
    RecycledVector<Event> offloaded{};   // offloaded updates, which read the unit's gradients
    int buffer = -1;                     // that it was gathered into last
    bool held = false;
  };
  struct GatherBuffer {
    View memory;
    RecycledVector<Event> arrived{};  // gathers into it
    Event released{};                 // the compute stream has left it
  };

  void set(ParamId id, ConstView values);
  void expect_alike();
  /// Where a frozen parameter lies.
  View frozen(ParamId id) const;
  void make_shards(const detail::ParamsPlan& plan);
  void place_units(const detail::ParamsPlan& plan, const std::vector<std::size_t>& numbers);
  void make_gather_buffers(const detail::ParamsPlan& plan);
  bool is_whole(std::size_t bucket) const { return units_[unit_of_bucket_[bucket]].is_whole; }
  /// This rank's part of a bucket's parameters.
  View own_part(std::size_t bucket);
  void fetch(int unit, GatherBuffer& buffer);
  void prefetch();
  /// @param offloaded updates on the host that hold up `arrived`: the time for them is a stall
  void wait(const RecycledVector<Event>& arrived, const RecycledVector<Event>& offloaded, Stream compute);
  /// Adds what has been waited for to the communicator's meter.
  void count_waits();
  std::string name_of(int unit) const;
  [[noreturn]] void refuse_more(int unit) const;

  detail::UsedByOne users_;
  Communicator all_;
  Communicator comm_;                     // ranks that state is sharded over
  std::optional<Communicator> replicas_;  // hybrid sharding: ranks that keep the same part
  Communicator gathers_;  // on a device a communicator of its own: NCCL runs the operations of one in turn
  ShardedOptions options_;
  Stage stage_;
  detail::TrainedParams model_;
  detail::ParameterClaim claim_;
  std::optional<detail::ShardPlan> shards_;  // nullopt in stage 0
  std::unique_ptr<GradientReducer> reducer_;
  std::shared_ptr<detail::Wire> wire_;
  std::shared_ptr<detail::Counters> counters_;
  detail::Growth exposed_;          // seconds
  detail::StreamStopwatch stalls_;  // of compute streams of a device
  detail::Growth stalled_;          // seconds
  Stream own_;                      // for loading
  /// By parameter, a line about the values that were loaded, until ranks have compared them.
  std::vector<std::string> loaded_;
  bool alike_ = false;  // whether they have
  Exchange exchange_ = Exchange::now;
  Buffer whole_;          // replicated units
  Buffer frozen_memory_;  // of frozen parameters, which every rank has whole
  View frozen_;
  Buffer shard_memory_;
  View shard_;  // as the device addresses it
  Buffer gather_memory_;
  std::vector<Unit> units_;
  std::vector<std::size_t> unit_of_bucket_;
  std::vector<std::int64_t> shard_at_;  // by bucket
  std::vector<Event> updated_;          // by bucket
  std::vector<Event> offloaded_;        // by bucket, the offloaded part
  std::optional<detail::GatherBuffers> buffers_;
  std::vector<GatherBuffer> buffer_;
};

}  // namespace weft::zero
