// Gather, release and prefetch of units.
//
// Stage 3, a gather of a unit: find a gather buffer (gather_buffers.hpp); if the unit is not in it, enqueue
// one all-gather for each of its buckets, behind the gather buffer's last use and the bucket's update; make
// the compute stream wait; prefetch. A gather receives (N - 1) / N of the unit's bytes, and nothing where the
// unit is still in its gather buffer. Stages 0 to 2: updated() enqueues the all-gather of each bucket after
// the optimizer's step, and a gather only waits for it.

#include <algorithm>

#include "weft/core/copy.hpp"
#include "zero/params/params_state.hpp"

namespace weft::zero {
namespace {

/// Makes a host compute stream wait for gathers, and progresses them meanwhile. Another rank may need this
/// rank's part of a gradient bucket before it reaches the gather, so an inline stream also polls the reducer.
/// If the compute stream has its own thread, the trainer's thread does that.
class GatherWait final : public Task {
 public:
  GatherWait(RecycledVector<Event> arrived, RecycledVector<Event> offloaded,
             std::shared_ptr<detail::Wire> wire, GradientReducer* reducer,
             std::shared_ptr<detail::Counters> counters)
      : arrived_(std::move(arrived)),
        offloaded_(std::move(offloaded)),
        wire_(std::move(wire)),
        reducer_(reducer),
        counters_(std::move(counters)) {}
  bool advance() override {
    if (!begin_) begin_ = detail::Wire::Clock::now();
    wire_->poll();
    if (reducer_ != nullptr) reducer_->poll();
    look_at_offloaded();
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
  // Once the updates are done, what is waited for is communication.
  void look_at_offloaded() {
    if (offloaded_.empty()) return;
    if (!std::ranges::all_of(offloaded_, [](const Event& event) { return event.done(); })) return;
    counters_->offload_stalls.add(detail::Wire::Clock::now() - *begin_);
    offloaded_.clear();
  }

  RecycledVector<Event> arrived_;
  RecycledVector<Event> offloaded_;
  std::shared_ptr<detail::Wire> wire_;
  GradientReducer* reducer_;
  std::shared_ptr<detail::Counters> counters_;
  std::optional<detail::Wire::Clock::time_point> begin_;
};

}  // namespace

void ShardedParams::State::gather(int unit, const Stream& compute) {
  expect_alike();
  if (unit < 0 || unit >= units())
    throw Error(ErrorKind::usage, text("unit ", unit, " of ", units()), {}, {comm_.rank(), "gather", 0});
  Unit& one = units_[static_cast<std::size_t>(unit)];
  if (one.held) {
    throw Error(ErrorKind::usage, text(name_of(unit), " is gathered twice"),
                "let go of what gather() returned before gathering it again", {comm_.rank(), "gather", 0});
  }
  if (!one.is_whole) {
    const auto held = buffers_->hold(unit);
    if (!held) refuse_more(unit);
    one.buffer = held->buffer;
    GatherBuffer& buffer = buffer_[static_cast<std::size_t>(held->buffer)];
    if (!held->is_gathered) fetch(unit, buffer);
    one.held = true;
    wait(buffer.arrived, one.offloaded, compute);
    prefetch();
  } else {
    one.held = true;
    wait(one.arrived, one.offloaded, compute);
  }
}

// Destructors call this, so it must not throw: a prefetch that fails here fails again at the next gather.
void ShardedParams::State::release(int unit, const Stream& compute) noexcept {
  Unit& one = units_[static_cast<std::size_t>(unit)];
  one.held = false;
  if (one.is_whole) return;
  try {
    buffer_[static_cast<std::size_t>(one.buffer)].released = compute.record();
    buffers_->release(unit);
    prefetch();
  } catch (...) {  // NOLINT(bugprone-empty-catch): a broken communicator throws at its next use
  }
}

void ShardedParams::State::gather_all(const Stream& compute) {
  expect_alike();
  for (int unit = 0; unit < units(); ++unit) {
    Unit& one = units_[static_cast<std::size_t>(unit)];
    if (!one.is_whole) {
      throw Error(ErrorKind::usage, "gather_all in stage 3, which never has all parameters",
                  "gather a unit before it is used", {comm_.rank(), "gather_all", 0});
    }
    wait(one.arrived, one.offloaded, compute);
  }
}

View ShardedParams::State::gradient(ParamId id, const Stream& compute) {
  const ParamId number = model_.trained(id, "gradient");
  auto& offloaded = units_[static_cast<std::size_t>(unit_of(id))].offloaded;
  std::erase_if(offloaded, [](const Event& event) { return event.done() && !event.error(); });
  wait(offloaded, offloaded, compute);
  return reducer_->gradient(number, compute);
}

void ShardedParams::State::mark_ready(ParamId id, const Stream& compute) {
  reducer_->mark_ready(model_.trained(id, "mark_ready"), compute);
}

View ShardedParams::State::frozen(ParamId id) const {
  return model_.frozen()->view(frozen_, model_.number(id));
}

View ShardedParams::State::at(int unit, ParamId id) const {
  if (unit_of(id) != unit) {
    throw Error(ErrorKind::usage,
                text(model_.model().name(id), " is not of ", name_of(unit), ", which was gathered"),
                text("gather unit ", unit_of(id)));
  }
  const Unit& one = units_[static_cast<std::size_t>(unit)];
  if (model_.is_frozen(id)) return frozen(id);
  const View memory = one.is_whole ? one.memory : buffer_[static_cast<std::size_t>(one.buffer)].memory;
  const ParamId number = model_.number(id);
  return memory.slice(layout().offset(number) - one.begin, layout().count(number));
}

Buffer ShardedParams::State::whole(ParamId id) {
  const int unit = unit_of(id);
  Buffer values = Buffer::on_host(layout().dtype(), model_.model().count(id));
  if (model_.is_frozen(id)) {
    expect_alike();
    copy(values.view(), frozen(id), own_);
    own_.synchronize();
    return values;
  }
  gather(unit, own_);
  copy(values.view(), at(unit, id), own_);
  own_.synchronize();
  release(unit, own_);
  return values;
}

// Gathers into a gather buffer after the compute stream has left it and earlier gathers into it are done.
void ShardedParams::State::fetch(int unit, GatherBuffer& buffer) {
  const Unit& one = units_[static_cast<std::size_t>(unit)];
  RecycledVector<Event> arrived;
  for (const std::size_t bucket : one.buckets) {
    Stream stream = wire_->lane(bucket);
    stream.wait(buffer.released);
    for (const Event& before : buffer.arrived) stream.wait(before);
    stream.wait(updated_[bucket]);
    stream.wait(offloaded_[bucket]);
    const Bucket& range = shards_->plan().buckets()[bucket];
    const View whole = buffer.memory.slice(range.begin - one.begin, range.count());
    View mine = own_part(bucket);
    if (options_.offload_parameters) {
      const View above = whole.slice(comm_.rank() * mine.count(), mine.count());
      copy(above, mine, stream);
      mine = above;
    }
    gathers_.all_gather(mine, whole, stream);
    arrived.push_back(stream.record());
  }
  buffer.arrived = std::move(arrived);
}

void ShardedParams::State::prefetch() {
  while (const auto place = buffers_->next_prefetch())
    fetch(place->unit, buffer_[static_cast<std::size_t>(place->buffer)]);
}

void ShardedParams::State::wait(const RecycledVector<Event>& arrived, const RecycledVector<Event>& offloaded,
                                Stream compute) {
  if (arrived.empty()) return;
  if (compute.device().is_host()) {
    compute.submit(std::make_unique<GatherWait>(arrived, offloaded, wire_,
                                                compute.is_inline() ? reducer_.get() : nullptr, counters_));
    if (compute.is_inline()) compute.synchronize();
    return;
  }
  wire_->on_device().start(compute);
  if (!offloaded.empty()) {
    stalls_.start(compute);
    for (const Event& event : offloaded) compute.wait(event);
    stalls_.stop(compute);
  }
  for (const Event& event : arrived) compute.wait(event);
  wire_->on_device().stop(compute);
}

void ShardedParams::State::settle(const Stream& compute) {
  for (int unit = 0; unit < units(); ++unit) {
    if (!units_[static_cast<std::size_t>(unit)].held) continue;
    throw Error(ErrorKind::usage, text(name_of(unit), " is still held when the optimizer steps"),
                "let go of what gather() returned when its layer is done", {comm_.rank(), "step", 0});
  }
  for (Unit& unit : units_) {
    const auto offloaded = std::exchange(unit.offloaded, {});
    wait(std::exchange(unit.arrived, {}), offloaded, compute);
    wait(offloaded, offloaded, compute);
  }
  for (GatherBuffer& buffer : buffer_) wait(std::exchange(buffer.arrived, {}), {}, compute);
  count_waits();
}

void ShardedParams::State::count_waits() {
  counters_->parameters_exposed.add(exposed_.of(wire_->exposed_seconds()));
  counters_->offload_stalls.add(stalled_.of(stalls_.seconds()));
}

void ShardedParams::State::updated(const Bucket& bucket, const Stream& compute, const Event& offloaded) {
  for (Unit& unit : units_) {
    if (offloaded.done() && !offloaded.error()) break;
    if (unit.begin >= bucket.end || unit.begin + unit.count <= bucket.begin) continue;
    unit.offloaded.push_back(offloaded);
    if (!shards_) unit.arrived.push_back(offloaded);
  }
  if (!shards_) return;
  const std::size_t number = shards_->number(bucket);
  if (!is_whole(number)) {
    updated_[number] = compute.record();
    offloaded_[number] = offloaded;
    return;
  }
  Unit& unit = units_[unit_of_bucket_[number]];
  Stream stream = wire_->lane(number);
  stream.wait(compute.record());
  stream.wait(offloaded);
  gathers_.all_gather(own_part(number), unit.memory.slice(bucket.begin - unit.begin, bucket.count()), stream);
  unit.arrived.push_back(stream.record());
}

void ShardedParams::State::all_updated() {
  if (!buffers_) return;
  buffers_->invalidate();
  prefetch();
}

std::string ShardedParams::State::name_of(int unit) const {
  return text("unit ", unit, " (from ", model_.model().name(units_[static_cast<std::size_t>(unit)].first),
              ")");
}

void ShardedParams::State::refuse_more(int unit) const {
  std::string held;
  for (const int other : buffers_->held()) held += (held.empty() ? "" : ", ") + name_of(other);
  throw Error(
      ErrorKind::usage,
      text(name_of(unit), " is gathered while all ", buffer_.size(), " gather buffers are held: ", held),
      "let units go when they are used, or set held_units to as many as are needed at once",
      {comm_.rank(), "gather", 0});
}

}  // namespace weft::zero
