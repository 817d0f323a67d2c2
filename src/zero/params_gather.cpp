// How parameters come to a rank before it uses them, and go.

#include "weft/core/copy.hpp"
#include "zero/params_state.hpp"

namespace weft::zero {
namespace {

/// Waits for gathers on a compute stream of the host. Another rank may wait for this one's part of a bucket
/// of gradients before it gets to the gather: in the trainer's thread those are carried on, too, which a
/// compute stream with a thread of its own leaves to it.
class Join final : public Task {
 public:
  Join(RecycledVector<Event> arrived, std::shared_ptr<detail::Wire> lanes, GradientReducer* reducer)
      : arrived_(std::move(arrived)), lanes_(std::move(lanes)), reducer_(reducer) {}
  bool advance() override {
    if (!begin_) begin_ = detail::Wire::Clock::now();
    lanes_->poll();
    if (reducer_ != nullptr) reducer_->poll();
    for (const Event& event : arrived_) {
      if (!event.done()) return false;
      if (const auto error = event.error()) std::rethrow_exception(error);
    }
    lanes_->lost(detail::Wire::Clock::now() - *begin_);
    return true;
  }
  void rest(std::chrono::microseconds at_most) override {
    for (const Event& event : arrived_) {
      if (!event.done()) return event.rest(at_most);
    }
  }

 private:
  RecycledVector<Event> arrived_;
  std::shared_ptr<detail::Wire> lanes_;
  GradientReducer* reducer_;
  std::optional<detail::Wire::Clock::time_point> begin_;
};

}  // namespace

void ShardedParams::State::gather(int group, const Stream& compute) {
  if (group < 0 || group >= groups())
    throw Error(ErrorKind::usage, text("group ", group, " of ", groups()), {}, {comm_.rank(), "gather", 0});
  Group& one = groups_[static_cast<std::size_t>(group)];
  if (one.held) {
    throw Error(ErrorKind::usage, text(name_of(group), " is gathered twice"),
                "let go of what gather() returned before gathering it again", {comm_.rank(), "gather", 0});
  }
  if (one.memory.empty()) {
    const auto held = slots_->hold(group);
    if (!held) refuse_more(group);
    one.slot = held->slot;
    Slot& slot = slot_[static_cast<std::size_t>(held->slot)];
    if (!held->is_there) fetch(group, slot);
    one.held = true;
    wait(slot.arrived, compute);
    fetch_ahead();
  } else {
    one.held = true;
    wait(one.arrived, compute);
  }
}

// Called by destructors: what cannot be fetched ahead now is refused when it is asked for.
void ShardedParams::State::release(int group, const Stream& compute) noexcept {
  Group& one = groups_[static_cast<std::size_t>(group)];
  one.held = false;
  if (!one.memory.empty()) return;
  try {
    slot_[static_cast<std::size_t>(one.slot)].released = compute.record();
    slots_->release(group);
    fetch_ahead();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the communicator is broken, and says so at its next use
  }
}

void ShardedParams::State::gather_all(const Stream& compute) {
  for (int group = 0; group < groups(); ++group) {
    Group& one = groups_[static_cast<std::size_t>(group)];
    if (one.memory.empty()) {
      throw Error(ErrorKind::usage, "gather_all in stage 3, which never has all parameters",
                  "gather a group before it is used", {comm_.rank(), "gather_all", 0});
    }
    wait(one.arrived, compute);
  }
}

View ShardedParams::State::gradient(ParamId id, const Stream& compute) {
  auto& offloaded = groups_[static_cast<std::size_t>(group_of(id))].offloaded;
  std::erase_if(offloaded, [](const Event& event) { return event.done() && !event.error(); });
  wait(offloaded, compute);
  return reducer_->gradient(id, compute);
}

View ShardedParams::State::at(int group, ParamId id) const {
  if (group_of(id) != group) {
    throw Error(ErrorKind::usage,
                text(layout().name(id), " is not of ", name_of(group), ", which was gathered"),
                text("gather group ", group_of(id)));
  }
  const Group& one = groups_[static_cast<std::size_t>(group)];
  const View memory = one.memory.empty() ? slot_[static_cast<std::size_t>(one.slot)].memory : one.memory;
  return memory.slice(layout().offset(id) - one.begin, layout().count(id));
}

Buffer ShardedParams::State::whole(ParamId id) {
  const int group = group_of(id);
  Buffer values = Buffer::on_host(layout().dtype(), layout().count(id));
  gather(group, own_);
  copy(values.view(), at(group, id), own_);
  own_.synchronize();
  release(group, own_);
  return values;
}

// Into a slot that the compute stream has left, and that nothing fetched before still comes to.
void ShardedParams::State::fetch(int group, Slot& slot) {
  const Group& one = groups_[static_cast<std::size_t>(group)];
  RecycledVector<Event> arrived;
  for (const std::size_t bucket : one.buckets) {
    Stream lane = lanes_->lane(bucket);
    lane.wait(slot.released);
    for (const Event& before : slot.arrived) lane.wait(before);
    lane.wait(updated_[bucket]);
    lane.wait(offloaded_[bucket]);
    const Bucket& range = shards_->plan().buckets()[bucket];
    const View whole = slot.memory.slice(range.begin - one.begin, range.count());
    View mine = own_part(bucket);
    if (options_.offload_parameters) {
      const View above = whole.slice(comm_.rank() * mine.count(), mine.count());
      copy(above, mine, lane);
      mine = above;
    }
    gathers_.all_gather(mine, whole, lane);
    arrived.push_back(lane.record());
  }
  slot.arrived = std::move(arrived);
}

void ShardedParams::State::fetch_ahead() {
  while (const auto place = slots_->ahead())
    fetch(place->group, slot_[static_cast<std::size_t>(place->slot)]);
}

void ShardedParams::State::wait(const RecycledVector<Event>& arrived, Stream compute) {
  if (arrived.empty()) return;
  if (compute.device().is_host()) {
    compute.submit(std::make_unique<Join>(arrived, lanes_, compute.is_inline() ? reducer_.get() : nullptr));
    if (compute.is_inline()) compute.synchronize();
    return;
  }
  lanes_->on_device().start(compute);
  for (const Event& event : arrived) compute.wait(event);
  lanes_->on_device().stop(compute);
}

void ShardedParams::State::settle(const Stream& compute) {
  for (int group = 0; group < groups(); ++group) {
    if (!groups_[static_cast<std::size_t>(group)].held) continue;
    throw Error(ErrorKind::usage, text(name_of(group), " is still held when the optimizer steps"),
                "let go of what gather() returned when its layer is done", {comm_.rank(), "step", 0});
  }
  for (Group& group : groups_) {
    wait(std::exchange(group.arrived, {}), compute);
    wait(std::exchange(group.offloaded, {}), compute);
  }
  for (Slot& slot : slot_) wait(std::exchange(slot.arrived, {}), compute);
}

void ShardedParams::State::updated(const Bucket& bucket, const Stream& compute, const Event& offloaded) {
  for (Group& group : groups_) {
    if (offloaded.done() && !offloaded.error()) break;
    if (group.begin >= bucket.end || group.begin + group.count <= bucket.begin) continue;
    group.offloaded.push_back(offloaded);
    if (!shards_) group.arrived.push_back(offloaded);
  }
  if (!shards_) return;
  const std::size_t number = shards_->number(bucket);
  if (!is_whole(number)) {
    updated_[number] = compute.record();
    offloaded_[number] = offloaded;
    return;
  }
  Group& group = groups_[group_of_bucket_[number]];
  Stream lane = lanes_->lane(number);
  lane.wait(compute.record());
  lane.wait(offloaded);
  gathers_.all_gather(own_part(number), group.memory.slice(bucket.begin - group.begin, bucket.count()), lane);
  group.arrived.push_back(lane.record());
}

void ShardedParams::State::all_updated() {
  if (!slots_) return;
  slots_->forget();
  fetch_ahead();
}

std::string ShardedParams::State::name_of(int group) const {
  return text("group ", group, " (from ", layout().name(groups_[static_cast<std::size_t>(group)].first), ")");
}

void ShardedParams::State::refuse_more(int group) const {
  std::string held;
  for (const int other : slots_->held()) held += (held.empty() ? "" : ", ") + name_of(other);
  throw Error(ErrorKind::usage,
              text(name_of(group), " is gathered while all ", slot_.size(), " slots are held: ", held),
              "let groups go when they are used, or set held_groups to as many as are needed at once",
              {comm_.rank(), "gather", 0});
}

}  // namespace weft::zero
