#include "pipeline/wires.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace weft::pipeline::detail {
namespace {

bool sends(const Schedule& schedule) {
  return std::ranges::any_of(schedule.rows, [](const auto& row) {
    return std::ranges::any_of(row, [](const Action& action) {
      return action.type == ActionType::send_forward || action.type == ActionType::send_backward;
    });
  });
}

/// Numbers for what is named by pairs, in the order in which they come.
class Numbering {
 public:
  int of(std::pair<int, int> name) {
    return numbers_.try_emplace(name, static_cast<int>(numbers_.size())).first->second;
  }
  std::size_t count() const { return numbers_.size(); }

 private:
  std::map<std::pair<int, int>, int> numbers_;
};

}  // namespace

Wires::Wires(const Schedule& schedule, const Problem& problem)
    : microbatches_(static_cast<std::size_t>(schedule.microbatches)), posted_(sends(schedule)) {
  Numbering channels, wires;
  for (std::size_t s = 0; s < problem.costs.hops.size(); ++s) {
    const Hop& hop = problem.costs.hops[s];
    const int here = schedule.device_of[s], there = schedule.device_of[s + 1];
    for (const bool back : {false, true}) {
      Way way{.hop = hop};
      if (here != there) {
        const std::pair<int, int> ends = back ? std::pair(there, here) : std::pair(here, there);
        const int given = back ? hop.wire_backward : hop.wire_forward;
        way.channel = channels.of(ends);
        way.wire = given < 0 ? wires.of(ends) : wires.of({-1 - (back ? 1 : 0), given});
        shared_ = shared_ || given >= 0;
      }
      ways_.push_back(way);
    }
  }
  ways_.emplace_back();  // the last stage sends none on,
  ways_.emplace_back();  // and its own forward is what its gradient comes from
  channels_.resize(channels.count());
  wire_free_.resize(wires.count());
  const std::size_t values = schedule.device_of.size() * 2 * microbatches_;
  computed_.assign(values, unknown);
  arrival_.assign(values, unknown);
  if (posted_) {
    send_posted_.assign(values, unknown);
    receive_posted_.assign(values, unknown);
  }
}

void Wires::computed(const Value& value, Nanoseconds when) {
  computed_[index(value)] = when;
  const Way& way = hop_of(value);
  if (way.channel < 0) {
    arrival_[index(value)] = when;
  } else if (!posted_) {
    carry(value, way, when);
  }
}

void Wires::post_send(const Value& value, Nanoseconds when) {
  send_posted_[index(value)] = when;
  const int channel = hop_of(value).channel;
  channels_[static_cast<std::size_t>(channel)].sends.push(value);
  advance(channel);
}

void Wires::post_receive(const Value& value, Nanoseconds when) {
  receive_posted_[index(value)] = when;
  advance(hop_of(value).channel);
}

Nanoseconds Wires::sent(const Value& value) const {
  const Nanoseconds arrived = arrival(value);
  return arrived == unknown ? unknown : arrived - hop_of(value).hop.latency;
}

void Wires::advance(int channel) {
  auto& sends = channels_[static_cast<std::size_t>(channel)].sends;
  while (!sends.empty()) {
    const Value value = sends.front();
    const Nanoseconds posted = receive_posted_[index(value)];
    if (posted == unknown) return;
    carry(value, hop_of(value), std::max(posted, send_posted_[index(value)]));
    sends.pop();
  }
}

void Wires::carry(const Value& value, const Way& way, Nanoseconds ready) {
  Nanoseconds& free = wire_free_[static_cast<std::size_t>(way.wire)];
  const Nanoseconds begin = std::max(ready, free);
  free = begin + way.hop.occupancy;
  arrival_[index(value)] = free + way.hop.latency;
}

}  // namespace weft::pipeline::detail
