// Dumps as flight records, so that one analysis judges both. Entries of a coalesced group become one operation.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/files/input_file.hpp"
#include "weft-report/torch_records/dump.hpp"
#include "weft/core/error.hpp"

namespace weft::report::torch_records {
namespace {

/// "2 x 12 Float, 3 Half"
std::string listed(const Tensors& tensors) {
  std::string words;
  for (std::size_t i = 0; i < tensors.size();) {
    std::size_t end = i + 1;
    while (end < tensors.size() && tensors[end] == tensors[i]) ++end;
    words += text(words.empty() ? "" : ", ", end - i > 1 ? text(end - i, " x ") : std::string(), tensors[i]);
    i = end;
  }
  return words;
}

/// What all ranks of a collective have to give alike. Where PyTorch lets ranks differ (uneven parts, lists that only the root has), the
/// side that differs is left out.
std::string operands_of(const TorchEntry& entry) {
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, entry.name) != names.end();
  };
  if (entry.name.starts_with("all_to_all") || is({"alltoall", "alltoall_base", "barrier"})) return {};
  const std::string in = listed(entry.inputs);
  const std::string out = listed(entry.outputs);
  if (is({"gather", "reduce_scatter"}) || in == out || out.empty()) return in;
  if (is({"scatter", "all_gather"}) || in.empty()) return out;
  return in + " to " + out;
}

/// Details that many operations share are kept once.
class DetailsOfRank {
 public:
  std::shared_ptr<const OperationDetails> keep(OperationDetails details) {
    const std::string key =
        text(details.called, '\0', details.operands, '\0', details.where, '\0', details.timeout_ms);
    auto& known = known_[key];
    if (!known) known = std::make_shared<const OperationDetails>(std::move(details));
    return known;
  }

 private:
  std::map<std::string, std::shared_ptr<const OperationDetails>> known_{};
};

State state_of(const TorchEntry& entry) {
  if (entry.state == TorchState::completed) return State::done;
  if (entry.retired) return State::failed;
  return entry.state == TorchState::started ? State::begun : State::issued;
}

std::string operands_of_part(const TorchEntry& entry) {
  if (!entry.is_message) return operands_of(entry);
  return listed(entry.inputs.empty() ? entry.outputs : entry.inputs);
}

/// The operations of a rank on one lane of a group, made of entries in their order.
class LaneOfRank {
 public:
  LaneOfRank(std::vector<FlightOperation>& operations, DetailsOfRank& shared)
      : operations_(operations), shared_(shared) {}

  void add(const TorchEntry& entry) {
    if (number_of(entry) == 0) return;  // PyTorch counts from 1
    if (!parts_.empty() && number_of(entry) != number_of(*parts_.back())) flush();
    parts_.push_back(&entry);
  }
  /// Entries of one number are the parts of a coalesced group; the last is that of the group and knows its state.
  void flush() {
    if (parts_.empty()) return;
    const TorchEntry& last = *parts_.back();
    // Numbers begin anew where a process group was made again under its name: the older one is over.
    if (!operations_.empty() && operations_.back().number >= number_of(last)) operations_.clear();
    operations_.push_back({.number = number_of(last),
                           .issued_ns = parts_.front()->created_ns,
                           .begun_ns = last.started_ns,
                           .ended_ns = last.completed_ns,
                           .state = state_of(last),
                           .details = shared_.keep(details())});
    parts_.clear();
  }

 private:
  static std::uint64_t number_of(const TorchEntry& entry) {
    return static_cast<std::uint64_t>(entry.is_message ? entry.message : entry.collective);
  }
  OperationDetails details() const {
    const TorchEntry& last = *parts_.back();
    OperationDetails all{.called = last.name, .where = last.where, .timeout_ms = last.timeout_ms};
    if (parts_.size() == 1) {
      all.operands = operands_of_part(last);
      return all;
    }
    all.called = "coalesced";
    for (const TorchEntry* part : parts_) {
      if (part->name == all.called) continue;
      all.operands += text(all.operands.empty() ? "" : "; ", part->name, ' ', operands_of_part(*part));
    }
    return all;
  }

  std::vector<FlightOperation>& operations_;
  DetailsOfRank& shared_;
  std::vector<const TorchEntry*> parts_{};
};

/// Backends other than NCCL give no name in pg_config, where entries give "0": without it their group would seem to have no entries.
std::vector<TorchGroup> named_groups(const TorchDump& dump) {
  std::vector<TorchGroup> groups = dump.groups;
  const auto unnamed = std::ranges::find(groups, std::string_view(), &TorchGroup::name);
  if (unnamed == groups.end()) return groups;
  std::set<std::string_view> unknown;
  for (const TorchEntry& entry : dump.entries) {
    if (std::ranges::find(groups, entry.group, &TorchGroup::name) == groups.end())
      unknown.insert(entry.group);
  }
  if (unknown.contains("0") || unknown.size() == 1)
    unnamed->name = unknown.contains("0") ? std::string_view("0") : *unknown.begin();
  return groups;
}

void require_member(const TorchDump& dump, const TorchGroup& group) {
  if (std::ranges::binary_search(group.ranks, dump.rank)) return;
  throw Error(ErrorKind::usage,
              text("is of rank ", dump.rank, " by its name, which is not in process group '", group.name,
                   "' that it uses"),
              "name each dump after its rank");
}

}  // namespace

FlightRecord flight_of(const TorchDump& dump) {
  FlightRecord record;
  record.file = dump.file;
  record.rank = dump.rank;
  record.size = dump.rank + 1;
  record.reason = torch_reason;
  std::map<std::string_view, std::vector<const TorchEntry*>> by_group;
  for (const TorchEntry& entry : dump.entries) by_group[entry.group].push_back(&entry);
  DetailsOfRank shared;
  for (const TorchGroup& group : named_groups(dump)) {
    if (!group.ranks.empty()) record.size = std::max(record.size, group.ranks.back() + 1);
    const auto entries = by_group.extract(group.name);
    if (entries.empty()) continue;
    require_member(dump, group);
    FlightCommunicator& communicator = record.communicators.emplace_back();
    communicator.name = group.description.empty() ? group.name : text(group.name, ':', group.description);
    communicator.ranks = group.ranks;
    LaneOfRank collectives(communicator.lanes[static_cast<std::size_t>(Lane::device)], shared);
    LaneOfRank messages(communicator.lanes[static_cast<std::size_t>(Lane::group)], shared);
    for (const TorchEntry* entry : entries.mapped()) (entry->is_message ? messages : collectives).add(*entry);
    collectives.flush();
    messages.flush();
  }
  return record;
}

void add_record(std::vector<FlightRecord>& job, FlightRecord record) {
  const auto at = std::ranges::lower_bound(job, record.rank, {}, &FlightRecord::rank);
  if (at != job.end() && at->rank == record.rank)
    throw Error(ErrorKind::usage, text("is of rank ", record.rank, ", as ", at->file, " is"),
                "give the dumps of one job");
  const int known = job.empty() ? 0 : job.front().size;
  const int size = std::max(known, record.size);
  record.size = size;
  job.insert(at, std::move(record));
  if (size > known) {
    for (FlightRecord& one : job) one.size = size;
  }
}

std::vector<FlightRecord> read_dumps(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) paths.push_back(at->path());
  }
  if (error) throw Error(ErrorKind::usage, text("cannot read the folder '", folder, "': ", error.message()));
  std::ranges::sort(paths);
  std::vector<FlightRecord> job;
  for (const std::string& path : paths) {
    const std::string bytes = detail::read_input(path, path);
    if (!is_dump(bytes)) continue;
    try {
      add_record(job, flight_of(parse_dump(bytes, fs::path(path).filename())));
    } catch (const Error& wrong) {
      throw Error(wrong.kind(), text(path, ": ", wrong.problem()), wrong.advice());
    }
  }
  return job;
}

}  // namespace weft::report::torch_records
