// A dump from its values. What later versions add is passed over; what is used has the type that PyTorch writes.

#include "weft-report/torch_records/dump.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "core/base/number.hpp"
#include "weft-report/torch_records/values.hpp"
#include "weft/core/error.hpp"

namespace weft::report::torch_records {
namespace {

constexpr std::array<std::string_view, 3> state_words{"scheduled", "started", "completed"};
constexpr std::int64_t latest_ns = 4'000'000'000'000'000'000;
constexpr std::int64_t most_ranks = 1 << 20;

/// Null and 0: not known.
std::int64_t time_of(Walk& walk, const Value& value, std::string_view called) {
  if (value.kind == Value::Kind::none) return 0;
  const std::int64_t ns = walk.integer(value, called);
  if (ns < 0 || ns > latest_ns) walk.refuse(called, text("is ", ns), "it is a time in nanoseconds");
  return ns;
}

std::int64_t number_of(Walk& walk, const Value& value, std::string_view called) {
  const std::int64_t number = walk.integer(value, called);
  if (number < 0) walk.refuse(called, text("is ", number), "it is 0 or more");
  return number;
}

/// Shapes to numbers of elements: what NCCL is told. It saturates: a file may say anything.
std::vector<std::int64_t> counts_of(Walk& walk, const Value& value, std::string_view called) {
  std::vector<std::int64_t> counts;
  walk.items(value, called, [&](std::size_t, const Value& shape) {
    std::int64_t count = 1;
    walk.items(shape, called, [&](std::size_t, const Value& extent) {
      const std::int64_t by = number_of(walk, extent, called);
      if (__builtin_mul_overflow(count, by, &count)) count = std::numeric_limits<std::int64_t>::max();
    });
    counts.push_back(count);
  });
  return counts;
}

struct Operands {
  std::vector<std::int64_t> counts{};
  std::vector<std::string> types{};

  Tensors tensors() const {
    Tensors all;
    for (std::size_t i = 0; i < counts.size(); ++i)
      all.push_back(i < types.size() ? text(counts[i], ' ', types[i]) : text(counts[i]));
    return all;
  }
};

std::vector<std::string> strings_of(Walk& walk, const Value& value, std::string_view called) {
  std::vector<std::string> all;
  walk.items(value, called,
             [&](std::size_t, const Value& one) { all.emplace_back(walk.string(one, called)); });
  return all;
}

/// The innermost frame that is not PyTorch's own.
std::string where_of(Walk& walk, const Value& frames, std::string_view called) {
  std::string first;
  std::string found;
  walk.items(frames, called, [&](std::size_t, const Value& frame) {
    if (!found.empty()) return;
    std::string_view function;
    std::string_view file;
    std::int64_t line = 0;
    walk.members(frame, called, [&](std::string_view key, const Value& value) {
      if (key == "name") function = walk.string(value, called);
      if (key == "filename") file = walk.string(value, called);
      if (key == "line") line = walk.integer(value, called);
    });
    std::string one = text(function, " at ", file, ':', line);
    if (file.find("torch/distributed/") == std::string_view::npos &&
        file.find("torch/csrc/") == std::string_view::npos) {
      found = std::move(one);
    } else if (first.empty()) {
      first = std::move(one);
    }
  });
  return found.empty() ? first : found;
}

std::string without_backend(std::string_view name) {
  constexpr std::string_view backend = "nccl:";
  return std::string(name.starts_with(backend) ? name.substr(backend.size()) : name);
}

TorchState state_of(Walk& walk, const Value& value, std::string_view called) {
  const std::string_view word = walk.string(value, called);
  const auto* const found = std::ranges::find(state_words, word);
  if (found == state_words.end())
    walk.refuse(called, text("is \"", word, '"'), "it is scheduled, started or completed");
  return static_cast<TorchState>(found - state_words.begin());
}

std::string group_name(Walk& walk, const Value& value, std::string_view called) {
  std::string group;
  walk.items(value, called, [&](std::size_t i, const Value& part) {
    if (i == 0) group = walk.string(part, called);
  });
  return group;
}

TorchEntry entry_of(Walk& walk, const Value& value) {
  TorchEntry entry;
  Operands in;
  Operands out;
  bool named = false;
  walk.members(value, "value", [&](std::string_view key, const Value& one) {
    if (key == "record_id") entry.record = number_of(walk, one, key);
    if (key == "process_group") entry.group = group_name(walk, one, key);
    if (key == "collective_seq_id") entry.collective = number_of(walk, one, key);
    if (key == "p2p_seq_id") entry.message = number_of(walk, one, key);
    if (key == "profiling_name") {
      entry.name = without_backend(walk.string(one, key));
      named = true;
    }
    if (key == "input_sizes") in.counts = counts_of(walk, one, key);
    if (key == "input_dtypes") in.types = strings_of(walk, one, key);
    if (key == "output_sizes") out.counts = counts_of(walk, one, key);
    if (key == "output_dtypes") out.types = strings_of(walk, one, key);
    if (key == "state") entry.state = state_of(walk, one, key);
    if (key == "time_created_ns") entry.created_ns = time_of(walk, one, key);
    if (key == "time_discovered_started_ns") entry.started_ns = time_of(walk, one, key);
    if (key == "time_discovered_completed_ns") entry.completed_ns = time_of(walk, one, key);
    if (key == "timeout_ms") entry.timeout_ms = number_of(walk, one, key);
    if (key == "is_p2p") entry.is_message = walk.boolean(one, key);
    if (key == "retired") entry.retired = walk.boolean(one, key);
    if (key == "frames") entry.where = where_of(walk, one, key);
  });
  if (!named) walk.refuse("value", "has no \"profiling_name\"");
  entry.inputs = in.tensors();
  entry.outputs = out.tensors();
  return entry;
}

/// "[0, 1, 2]", as PyTorch writes it, or a list.
std::vector<int> ranks_of(Walk& walk, const Value& value, std::string_view called) {
  std::vector<int> ranks;
  const auto add = [&](std::int64_t rank) {
    if (rank < 0 || rank >= most_ranks) walk.refuse(called, text("names rank ", rank));
    ranks.push_back(static_cast<int>(rank));
  };
  if (value.kind == Value::Kind::list) {
    walk.items(value, called, [&](std::size_t, const Value& one) { add(walk.integer(one, called)); });
    return ranks;
  }
  std::string_view words = walk.string(value, called);
  for (auto at = words.find_first_of("0123456789"); at != std::string_view::npos;
       at = words.find_first_of("0123456789")) {
    words.remove_prefix(at);
    std::int64_t rank = -1;
    const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), rank);
    add(error == std::errc() ? rank : -1);
    words.remove_prefix(static_cast<std::size_t>(end - words.data()));
  }
  return ranks;
}

TorchGroup group_config(Walk& walk, std::string_view name, const Value& value) {
  const std::string called = text("pg_config.", name);
  TorchGroup group{.name = std::string(name)};
  walk.members(value, called, [&](std::string_view key, const Value& one) {
    if (key == "name") group.name = walk.string(one, called);
    if (key == "desc") group.description = walk.string(one, called);
    if (key == "ranks") group.ranks = ranks_of(walk, one, text(called, ".ranks"));
  });
  std::ranges::sort(group.ranks);
  group.ranks.erase(std::unique(group.ranks.begin(), group.ranks.end()), group.ranks.end());
  return group;
}

std::vector<TorchGroup> groups_of(Walk& walk, const Value& value) {
  std::vector<TorchGroup> groups;
  walk.members(value, "pg_config", [&](std::string_view name, const Value& one) {
    groups.push_back(group_config(walk, name, one));
  });
  return groups;
}

std::vector<TorchEntry> entries_of(Walk& walk, const Value& value) {
  std::vector<TorchEntry> entries;
  walk.items(value, "entries", [&](std::size_t i, const Value& one) {
    walk.enter(i);
    entries.push_back(entry_of(walk, one));
  });
  walk.leave();
  return entries;
}

/// The number at the end of the file's name, before what follows a dot.
std::optional<int> rank_in_name(const std::string& file) {
  std::string name = std::filesystem::path(file).filename();
  if (const auto dot = name.find('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  const auto from = name.find_last_not_of("0123456789") + 1;
  const auto rank = detail::number_of<std::int64_t>(std::string_view(name).substr(from));
  return rank && *rank < most_ranks ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

/// The rank of which alone all groups can be, and whose sends and receives these are.
std::optional<int> rank_in_groups(const TorchDump& dump) {
  std::optional<std::set<int>> possible;
  const auto keep = [&](const std::vector<int>& ranks) {
    std::set<int> both;
    for (const int rank : ranks) {
      if (!possible || possible->contains(rank)) both.insert(rank);
    }
    possible = std::move(both);
  };
  std::map<std::string_view, const TorchGroup*> by_name;
  for (const TorchGroup& group : dump.groups) {
    by_name[group.name] = &group;
    if (!group.ranks.empty()) keep(group.ranks);
  }
  for (const TorchEntry& entry : dump.entries) {
    const bool message = entry.name.starts_with("send ") || entry.name.starts_with("recv ");
    const auto group = by_name.find(entry.group);
    if (!message || group == by_name.end()) continue;
    const std::vector<int>& ranks = group->second->ranks;
    std::size_t own = 0;  // "send 0->1" and "recv 0<-1": the own place in the group comes first
    std::from_chars(entry.name.data() + 5, entry.name.data() + entry.name.size(), own);
    if (own < ranks.size()) keep({ranks[own]});
  }
  return possible && possible->size() == 1 ? std::optional(*possible->begin()) : std::nullopt;
}

void set_rank(TorchDump& dump, std::optional<int> said) {
  const auto named = rank_in_name(dump.file);
  const auto found = said ? said : named ? named : rank_in_groups(dump);
  if (!found)
    throw Error(ErrorKind::usage, "its name has no rank, and its groups leave several",
                "name it as PyTorch does: nccl_trace_rank_0");
  dump.rank = *found;
  if (said && named && *said != *named)
    throw Error(ErrorKind::usage, text("is of rank ", *said),
                "its name says another; name each dump after its rank");
}

void require_version(Walk& walk, const std::string& version) {
  if (version.empty())
    walk.refuse("the record", "has no \"version\"", "is it a dump of PyTorch's flight recorder?");
  if (!version.starts_with("2."))
    walk.refuse("version", text("is ", version), "versions 2.0 and later are known: PyTorch 2.5");
}

}  // namespace

bool is_dump(std::string_view start) {
  const auto has = [&](std::string_view word) { return start.find(word) != std::string_view::npos; };
  if (looks_like_pickle(start)) return has("pg_config") || has("profiling_name");
  return start.substr(0, start.find_first_not_of(" \t\r\n") + 1).ends_with('{') &&
         (has("\"pg_config\":") || has("\"profiling_name\":"));
}

TorchDump parse_dump(std::string_view bytes, const std::string& file) {
  const auto first = bytes.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && bytes[first] == '{';
  const ValueTree tree = json ? read_json(bytes) : read_pickle(bytes);
  Walk walk(tree, bytes);
  TorchDump dump{.file = file};
  std::optional<int> rank;
  // The version comes first: another version may differ everywhere else.
  walk.members(tree.root(), "the record", [&](std::string_view key, const Value& value) {
    if (key == "version") dump.version = walk.string(value, key);
  });
  require_version(walk, dump.version);
  walk.members(tree.root(), "the record", [&](std::string_view key, const Value& value) {
    if (key == "rank") rank = static_cast<int>(std::min(number_of(walk, value, key), most_ranks));
    if (key == "pg_config") dump.groups = groups_of(walk, value);
    if (key == "entries") dump.entries = entries_of(walk, value);
  });
  set_rank(dump, rank);
  return dump;
}

}  // namespace weft::report::torch_records
