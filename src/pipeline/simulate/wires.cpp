#include "pipeline/simulate/wires.hpp"

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

/// Numbers pairs in the order in which they first come.
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
      Link link{.hop = hop};
      if (here != there) {
        const std::pair<int, int> ends = back ? std::pair(there, here) : std::pair(here, there);
        const int given = back ? hop.wire_backward : hop.wire_forward;
        link.channel = channels.of(ends);
        link.wire = given < 0 ? wires.of(ends) : wires.of({-1 - (back ? 1 : 0), given});
        shared_ = shared_ || given >= 0;
      }
      links_.push_back(link);
    }
  }
  // Two unused links: the last stage sends no activation on and receives no gradient.
  links_.emplace_back();
  links_.emplace_back();
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
  const Link& link = link_of(value);
  if (link.channel < 0) {
    arrival_[index(value)] = when;
  } else if (!posted_) {
    carry(value, link, when);
  }
}

void Wires::post_send(const Value& value, Nanoseconds when) {
  send_posted_[index(value)] = when;
  const int channel = link_of(value).channel;
  channels_[static_cast<std::size_t>(channel)].sends.push(value);
  advance(channel);
}

void Wires::post_receive(const Value& value, Nanoseconds when) {
  receive_posted_[index(value)] = when;
  advance(link_of(value).channel);
}

Nanoseconds Wires::sent(const Value& value) const {
  const Nanoseconds arrived = arrival(value);
  return arrived == unknown ? unknown : arrived - link_of(value).hop.latency;
}

void Wires::advance(int channel) {
  auto& sends = channels_[static_cast<std::size_t>(channel)].sends;
  while (!sends.empty()) {
    const Value value = sends.front();
    const Nanoseconds posted = receive_posted_[index(value)];
    if (posted == unknown) return;
    carry(value, link_of(value), std::max(posted, send_posted_[index(value)]));
    sends.pop();
  }
}

void Wires::carry(const Value& value, const Link& link, Nanoseconds ready) {
  Nanoseconds& free = wire_free_[static_cast<std::size_t>(link.wire)];
  const Nanoseconds begin = std::max(ready, free);
  free = begin + link.hop.occupancy;
  arrival_[index(value)] = free + link.hop.latency;
}

}  // namespace weft::pipeline::detail
