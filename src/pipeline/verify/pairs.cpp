// Transfers from one device to another, in the order in which each side posts: the k-th send must meet the
// k-th receive. Each value gets its number from the side that is seen first, and the other side must agree:
// linear in entries.

#include <algorithm>

#include "pipeline/verify/marks.hpp"

namespace weft::pipeline::detail {
namespace {

using enum ActionType;

/// The stage that has the other side of a transfer.
int other_stage(const Action& action) {
  const bool up = action.type == send_forward || action.type == receive_backward;
  return action.stage + (up ? 1 : -1);
}
bool is_send(const Action& action) {
  return action.type == send_forward || action.type == send_backward;
}
bool is_posted_transfer(const Action& action) {
  return (mark(action.type) & any_transfer) != 0 && !action.awaits;
}
/// What the other side of a transfer posts.
Action counterpart(const Action& action) {
  constexpr ActionType types[] = {receive_forward, send_forward, receive_backward, send_backward};
  return {types[static_cast<int>(action.type) - static_cast<int>(send_forward)], other_stage(action),
          action.microbatch};
}

/// Where a row posts its transfers of one direction.
std::vector<std::size_t> posts(const Schedule& schedule, int device, int other, bool sends) {
  std::vector<std::size_t> result;
  const std::vector<Action>& row = row_of(schedule, device);
  for (std::size_t entry = 0; entry < row.size(); ++entry) {
    if (is_posted_transfer(row[entry]) && is_send(row[entry]) == sends &&
        device_of(schedule, other_stage(row[entry])) == other)
      result.push_back(entry);
  }
  return result;
}

/// The first pair of a direction that does not meet. There is one.
Fault first_mismatch(const Schedule& schedule, int from, int to) {
  const auto sends = posts(schedule, from, to, true);
  const auto receives = posts(schedule, to, from, false);
  std::size_t k = 0;
  const auto send = [&] { return entry_of(schedule, from, sends[k]); };
  const auto receive = [&] { return entry_of(schedule, to, receives[k]); };
  while (counterpart(send()) == receive()) ++k;
  return fault_at(schedule, from, sends[k], "meets ", receive(), " (device ", to, ", entry ", receives[k],
                  "): each is transfer ", k, " from device ", from, " to ", to);
}

/// Numbers each of a row's transfers within its direction, and compares with the other side's number.
class Directions {
 public:
  explicit Directions(const Schedule& schedule)
      : schedule_(schedule),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        numbers_(2 * microbatches_ * schedule.device_of.size()),
        sent_(schedule.rows.size()),
        received_(schedule.rows.size()) {}

  std::optional<Fault> check(int device) {
    std::ranges::fill(sent_, 0);
    std::ranges::fill(received_, 0);
    for (const Action& action : row_of(schedule_, device)) {
      if (!is_posted_transfer(action)) continue;
      const int other = device_of(schedule_, other_stage(action));
      const bool sends = is_send(action);
      const int number = ++(sends ? sent_ : received_)[static_cast<std::size_t>(other)];
      int& known = number_of(sends ? action : counterpart(action));
      if (known == 0) {
        known = number;
      } else if (known != number) {
        return sends ? first_mismatch(schedule_, device, other) : first_mismatch(schedule_, other, device);
      }
    }
    return {};
  }

 private:
  int& number_of(const Action& send) {
    const auto value =
        static_cast<std::size_t>(send.stage) * microbatches_ + static_cast<std::size_t>(send.microbatch);
    return numbers_[2 * value + (send.type == send_forward ? 0 : 1)];
  }

  const Schedule& schedule_;
  const std::size_t microbatches_;
  std::vector<int> numbers_;  ///< of each value that is sent, from 1; 0 while neither side was seen
  std::vector<int> sent_, received_;
};

}  // namespace

std::optional<Fault> check_pairs(const Schedule& schedule) {
  Directions directions(schedule);
  for (int device = 0; device < schedule.devices(); ++device) {
    if (auto fault = directions.check(device)) return fault;
  }
  return {};
}

}  // namespace weft::pipeline::detail
