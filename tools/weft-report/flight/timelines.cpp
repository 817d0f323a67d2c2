#include "weft-report/flight/timelines.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

namespace weft::report {

const std::vector<FlightOperation>& RankTimeline::operations() const {
  static const std::vector<FlightOperation> none;
  return communicator == nullptr ? none : communicator->on(lane);
}

const FlightOperation* RankTimeline::at(std::uint64_t number) const {
  const auto& all = operations();
  const auto found = std::ranges::lower_bound(all, number, {}, &FlightOperation::number);
  return found == all.end() || found->number != number ? nullptr : &*found;
}

std::string CommunicatorTimelines::text() const {
  return weft::text('\'', name, "' (", report::name(lane), ')');
}

std::string CommunicatorTimelines::text(const FlightOperation& operation) const {
  if (operation.details) {
    constexpr std::size_t most_shown = 120;
    const OperationDetails& details = *operation.details;
    std::string shown = details.operands.substr(0, most_shown);
    if (shown.size() < details.operands.size()) shown += " ...";
    return weft::text(brief(lane, operation), shown.empty() ? "" : " of ", shown,
                      details.where.empty() ? "" : ", from ", details.where);
  }
  return weft::text(brief(lane, operation), " of ", operation.count, ' ', operation.dtype, " (", operation.op,
                    ", root ", ranks[static_cast<std::size_t>(operation.root)], ')');
}

std::vector<CommunicatorTimelines> side_by_side(const std::vector<FlightRecord>& records) {
  using Key = std::tuple<std::string, std::vector<int>, Lane>;
  std::map<Key, std::map<int, const FlightCommunicator*>> found;
  for (const FlightRecord& record : records) {
    for (const FlightCommunicator& communicator : record.communicators) {
      for (const Lane lane : {Lane::host, Lane::device}) {
        if (!communicator.on(lane).empty()) found[{communicator.name, communicator.ranks, lane}];
      }
    }
  }
  for (const FlightRecord& record : records) {
    for (const FlightCommunicator& communicator : record.communicators) {
      for (const Lane lane : {Lane::host, Lane::device}) {
        const auto key = found.find({communicator.name, communicator.ranks, lane});
        if (key != found.end()) key->second[record.rank] = &communicator;
      }
    }
  }
  std::vector<CommunicatorTimelines> result;
  for (const auto& [key, communicators] : found) {
    const auto& [name, ranks, which] = key;
    CommunicatorTimelines& timelines = result.emplace_back(CommunicatorTimelines{name, ranks, which, {}});
    for (const FlightRecord& record : records) {
      if (std::ranges::find(ranks, record.rank) == ranks.end()) continue;
      const auto own = communicators.find(record.rank);
      timelines.members.push_back({&record, own == communicators.end() ? nullptr : own->second, which});
    }
  }
  return result;
}

std::string brief(Lane lane, const FlightOperation& operation) {
  return weft::text(lane == Lane::group && !operation.details ? "send/receive group" : operation.called(),
                    " #", operation.number);
}

std::string progress_text(const FlightRecord& record) {
  std::string result;
  for (const FlightProgress& one : record.progress) {
    result += text(result.empty() ? "" : "; ", "step ", one.step, " of ", one.track);
    if (one.waits_for_count == 0) continue;
    result += " waits for";
    for (const std::string& name : one.waits_for)
      result += text(&name == &one.waits_for.front() ? " " : ", ", name);
    const auto more = one.waits_for_count - static_cast<std::int64_t>(one.waits_for.size());
    if (more > 0)
      result += text(one.waits_for.empty() ? " " : " and ", more,
                     more == 1 ? " more parameter" : " more parameters");
  }
  return result;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string result = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    result += text(i == 0 ? "" : ", ", ranks[i]);
    if (end - i > 1) result += text(end - i == 2 ? ", " : "-", ranks[end - 1]);
    i = end;
  }
  return result;
}

std::string seconds_text(std::int64_t ns) {
  char words[32];
  std::snprintf(words, sizeof(words), "%.3f s", static_cast<double>(ns) * 1e-9);
  return words;
}

std::vector<int> ranks_of(const std::vector<const RankTimeline*>& members) {
  std::vector<int> ranks;
  for (const RankTimeline* member : members) ranks.push_back(member->record->rank);
  return ranks;
}

}  // namespace weft::report
