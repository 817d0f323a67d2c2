// Gather, release and prefetch of groups.
//
// Stage 3, a gather of a group: find a slot (group_slots.hpp); if the group is not in it, enqueue one
// all-gather for each of its buckets, behind the slot's last use and the bucket's update; make the compute
// stream wait; prefetch. A gather receives (N - 1) / N of the group's bytes, and nothing where the group is
// still in its slot. Stages 0 to 2: updated() enqueues the all-gather of each bucket after the optimizer's
// step, and a gather only waits for it.

#include "weft/core/copy.hpp"
#include "zero/params/params_state.hpp"

namespace weft::zero {
namespace {

/// Makes a host compute stream wait for gathers, and progresses them meanwhile. Another rank may need this
/// rank's part of a gradient bucket before it reaches the gather, so an inline stream also polls the reducer.
/// A compute stream with a thread of its own leaves that to the trainer's thread.
class GatherWait final : public Task {
 public:
  GatherWait(RecycledVector<Event> arrived, std::shared_ptr<detail::Wire> wire, GradientReducer* reducer)
      : arrived_(std::move(arrived)), wire_(std::move(wire)), reducer_(reducer) {}
  bool advance() override {
    if (!begin_) begin_ = detail::Wire::Clock::now();
    wire_->poll();
    if (reducer_ != nullptr) reducer_->poll();
    for (const Event& event : arrived_) {
      if (!event.done()) return false;
      if (const auto error = event.error()) std::rethrow_exception(error);
    }
    wire_->add_exposed(detail::Wire::Clock::now() - *begin_);
    return true;
  }
  void rest(std::chrono::microseconds at_most) override {
    for (const Event& event : arrived_) {
      if (!event.done()) return event.rest(at_most);
    }
  }

 private:
  RecycledVector<Event> arrived_;
  std::shared_ptr<detail::Wire> wire_;
  GradientReducer* reducer_;
  std::optional<detail::Wire::Clock::time_point> begin_;
};

}  // namespace

void ShardedParams::State::gather(int group, const Stream& compute) {
  expect_alike();
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
    if (!held->is_gathered) fetch(group, slot);
    one.held = true;
    wait(slot.arrived, compute);
    prefetch();
  } else {
    one.held = true;
    wait(one.arrived, compute);
  }
}

// Destructors call this, so it must not throw: a prefetch that fails here fails again at the next gather.
void ShardedParams::State::release(int group, const Stream& compute) noexcept {
  Group& one = groups_[static_cast<std::size_t>(group)];
  one.held = false;
  if (!one.memory.empty()) return;
  try {
    slot_[static_cast<std::size_t>(one.slot)].released = compute.record();
    slots_->release(group);
    prefetch();
  } catch (...) {  // NOLINT(bugprone-empty-catch): a broken communicator throws at its next use
  }
}

void ShardedParams::State::gather_all(const Stream& compute) {
  expect_alike();
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

// Gathers into a slot after the compute stream has left it and earlier gathers into it are done.
void ShardedParams::State::fetch(int group, Slot& slot) {
  const Group& one = groups_[static_cast<std::size_t>(group)];
  RecycledVector<Event> arrived;
  for (const std::size_t bucket : one.buckets) {
    Stream stream = wire_->lane(bucket);
    stream.wait(slot.released);
    for (const Event& before : slot.arrived) stream.wait(before);
    stream.wait(updated_[bucket]);
    stream.wait(offloaded_[bucket]);
    const Bucket& range = shards_->plan().buckets()[bucket];
    const View whole = slot.memory.slice(range.begin - one.begin, range.count());
    View mine = own_part(bucket);
    if (options_.offload_parameters) {
      const View above = whole.slice(comm_.rank() * mine.count(), mine.count());
      copy(above, mine, stream);
      mine = above;
    }
    gathers_.all_gather(mine, whole, stream);
    arrived.push_back(stream.record());
  }
  slot.arrived = std::move(arrived);
}

void ShardedParams::State::prefetch() {
  while (const auto place = slots_->next_prefetch())
    fetch(place->group, slot_[static_cast<std::size_t>(place->slot)]);
}

void ShardedParams::State::wait(const RecycledVector<Event>& arrived, Stream compute) {
  if (arrived.empty()) return;
  if (compute.device().is_host()) {
    compute.submit(
        std::make_unique<GatherWait>(arrived, wire_, compute.is_inline() ? reducer_.get() : nullptr));
    if (compute.is_inline()) compute.synchronize();
    return;
  }
  wire_->on_device().start(compute);
  for (const Event& event : arrived) compute.wait(event);
  wire_->on_device().stop(compute);
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
  Stream stream = wire_->lane(number);
  stream.wait(compute.record());
  stream.wait(offloaded);
  gathers_.all_gather(own_part(number), group.memory.slice(bucket.begin - group.begin, bucket.count()),
                      stream);
  group.arrived.push_back(stream.record());
}

void ShardedParams::State::all_updated() {
  if (!slots_) return;
  slots_->invalidate();
  prefetch();
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
