#include "weft-report/inspector/records.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "weft/core/text.hpp"

namespace weft::report::inspector {
namespace {

namespace json = boost::json;

constexpr std::size_t longest_object = std::size_t{1} << 20;  // 64 channels with all their events are 30 KB
constexpr std::size_t longest_name = 255;
constexpr std::size_t most_sizes = 1024;
constexpr std::size_t most_members = 4096;
constexpr std::int64_t most_ranks = std::int64_t{1} << 24;
constexpr double most_bytes = 1e17;
constexpr double longest = 1e12;  // microseconds

struct Word {
  std::string_view inspector;
  std::string_view name;
};
constexpr std::array<Word, kinds> words{{{"AllReduce", "all_reduce"},
                                         {"AllGather", "all_gather"},
                                         {"ReduceScatter", "reduce_scatter"},
                                         {"Broadcast", "broadcast"},
                                         {"Reduce", "reduce"},
                                         {"All2All", "alltoall"},
                                         {"AllGatherV", "all_gather_v"},
                                         {"SendRecv", "sendrecv"},
                                         {"Send", "send"},
                                         {"Recv", "recv"},
                                         {"Invalid", "other"}}};

const json::value* member(const json::object& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &found->value();
}
const json::object* object_in(const json::object& object, std::string_view key) {
  const json::value* value = member(object, key);
  return value == nullptr ? nullptr : value->if_object();
}
std::optional<double> number_in(const json::object& object, std::string_view key) {
  const json::value* value = member(object, key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->to_number<double>();
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}
std::int64_t whole_in(const json::object& object, std::string_view key, double largest) {
  const auto number = number_in(object, key);
  return number && *number >= 0 && *number <= largest ? static_cast<std::int64_t>(*number) : -1;
}
std::string_view text_in(const json::object& object, std::string_view key) {
  const json::value* value = member(object, key);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string_view() : std::string_view(*text).substr(0, longest_name);
}

/// What stands in header and metadata, or in the object itself.
Member member_of(const json::object& object) {
  const json::object* inner = object_in(object, "header");
  const json::object& header = inner == nullptr ? object : *inner;
  inner = object_in(object, "metadata");
  const json::object& metadata = inner == nullptr ? object : *inner;
  const auto largest = static_cast<double>(most_ranks);
  return {.id = std::string(text_in(header, "id")),
          .name = std::string(text_in(header, "comm_name")),
          .rank = whole_in(header, "rank", largest),
          .ranks = whole_in(header, "n_ranks", largest),
          .nodes = whole_in(header, "nnodes", largest),
          .host = std::string(text_in(metadata, "hostname")),
          .pid = whole_in(metadata, "pid", 1e15)};
}

/// Seconds; when it began, where the file says so.
std::uint32_t time_of(const json::object& object, const json::object& operation, const char* start) {
  const json::object* inner = object_in(object, "metadata");
  double microseconds = number_in(inner == nullptr ? object : *inner, "dump_timestamp_us").value_or(0);
  if (const json::object* trace = object_in(operation, "event_trace_ts"))
    microseconds = number_in(*trace, start).value_or(microseconds);
  const double seconds = std::floor(microseconds / 1e6);
  return seconds > 0 && seconds < std::numeric_limits<std::uint32_t>::max()
             ? static_cast<std::uint32_t>(seconds)
             : 0;
}

/// The keys of an operation, which has the same members under two names.
struct Keys {
  const char* object;
  const char* kind;
  const char* number;
  const char* bytes;
  const char* microseconds;
  const char* source;
  const char* start;
};
constexpr std::array<Keys, 2> shapes{Keys{"coll_perf", "coll", "coll_sn", "coll_msg_size_bytes",
                                          "coll_exec_time_us", "coll_timing_source", "coll_start_ts"},
                                     Keys{"p2p_perf", "p2p", "p2p_sn", "p2p_msg_size_bytes",
                                          "p2p_exec_time_us", "p2p_timing_source", "p2p_start_ts"}};

/// The sum of what dump_stats calls dropped.
std::uint64_t dropped(const json::object& stats) {
  double sum = 0;
  for (const auto& [key, value] : stats) {
    if (std::string_view(key).find("drop") != std::string_view::npos && value.is_number())
      sum += std::clamp(value.to_number<double>(), 0.0, 1e15);
  }
  return static_cast<std::uint64_t>(sum);
}

}  // namespace

std::string_view name(Kind kind) {
  return words[static_cast<std::size_t>(kind)].name;
}
Kind kind_of(std::string_view word) {
  const auto found = std::ranges::find(words, word, &Word::inspector);
  return found == words.end() ? Kind::other : static_cast<Kind>(found - words.begin());
}

void Reader::take(std::string_view chunk) {
  while (!chunk.empty()) {
    const std::size_t end = chunk.find('\n');
    if (end == std::string_view::npos) {
      if (!skipping_) rest_ += chunk;
      if (rest_.size() > longest_object) {
        skipping_ = true;
        rest_.clear();
      }
      return;
    }
    if (skipping_ || rest_.size() + end > longest_object) {
      refuse(++line_, "is longer than 1 MiB");
      skipping_ = false;
    } else if (rest_.empty()) {
      take_line(chunk.substr(0, end));
    } else {
      rest_ += chunk.substr(0, end);
      const std::string line = std::move(rest_);
      rest_.clear();
      take_line(line);
    }
    rest_.clear();
    chunk.remove_prefix(end + 1);
  }
}

FileRecords Reader::finish() {
  if (skipping_) refuse(++line_, "is longer than 1 MiB");
  if (!rest_.empty()) {
    const std::string line = std::move(rest_);
    rest_.clear();
    ends_ = true;
    take_line(line);
  }
  // An object that ends with the file is being written; a line that is no object at all is not.
  found_.cut = !object_.empty();
  for (const auto& [id, lost] : lost_) found_.lost += lost;
  return std::move(found_);
}

void Reader::take_line(std::string_view line) {
  ++line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!object_.empty() && line.starts_with('{')) {
    refuse(object_line_, "is cut: the next line begins another object");
    object_.clear();
  }
  if (object_.empty()) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) return;
    object_line_ = line_;
    if (!parse(line)) object_ = line;
    return;
  }
  object_ += '\n';
  object_ += line;
  if (object_.size() > longest_object) {
    refuse(object_line_, "begins an object of more than 1 MiB");
    object_.clear();
  } else if (line.starts_with('}') && parse(object_)) {
    object_.clear();
  }
}

/// @return whether it is done with: false for an object that may go on in the next line
bool Reader::parse(std::string_view object) {
  std::array<unsigned char, 16384> memory;
  json::monotonic_resource resource(memory.data(), memory.size());
  boost::system::error_code error;
  const json::value parsed = json::parse({object.data(), object.size()}, error, &resource);
  // A number that is cut is a syntax error to the parser.
  if (error == json::error::incomplete || (error && ends_ && object.starts_with('{'))) return false;
  const json::object* all = error ? nullptr : parsed.if_object();
  if (all == nullptr) {
    refuse(object_line_, error ? text("is no JSON: ", error.message()) : std::string("is no object"));
    return true;
  }
  ++found_.objects;
  if (const json::object* stats = object_in(*all, "dump_stats")) {
    std::uint64_t& lost = lost_[member_of(*all).id];
    lost = std::max(lost, dropped(*stats));
  }
  for (const Keys& keys : shapes) {
    const json::object* operation = object_in(*all, keys.object);
    if (operation == nullptr) continue;
    Member rank = member_of(*all);
    const auto number = whole_in(*operation, keys.number, std::numeric_limits<std::uint32_t>::max());
    const double bytes = number_in(*operation, keys.bytes).value_or(-1);
    const double microseconds = number_in(*operation, keys.microseconds).value_or(-1);
    const std::string_view word = text_in(*operation, keys.kind);
    if (rank.rank < 0 || rank.ranks < 1 || rank.rank >= rank.ranks) {
      refuse(object_line_, "has no rank and n_ranks that go together");
    } else if (number < 0 || bytes < 0 || bytes > most_bytes || microseconds < 0 || microseconds > longest ||
               word.empty()) {
      refuse(object_line_, text("has a ", keys.object, " without ", keys.kind, ", ", keys.number, ", ",
                                keys.bytes, " and ", keys.microseconds, " that a machine may have measured"));
    } else if (static_cast<std::uint64_t>(number) % stride_ != 0) {
      ++found_.left_out;
    } else {
      const Kind kind = kind_of(word);
      const bool shares =
          kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::all_gather_v;
      auto whole = static_cast<std::uint64_t>(bytes) * (shares ? static_cast<std::uint64_t>(rank.ranks) : 1);
      if (!sizes_.contains(whole) && sizes_.size() >= most_sizes) whole = std::bit_floor(whole);
      if (!sizes_.contains(whole)) {
        sizes_.emplace(whole, static_cast<std::uint16_t>(found_.sizes.size()));
        found_.sizes.push_back(whole);
      }
      auto at = members_.find(rank);
      if (at == members_.end()) {
        if (members_.size() >= most_members) {
          ++found_.left_out;
          return true;
        }
        at = members_.emplace(rank, static_cast<std::uint16_t>(found_.members.size())).first;
        found_.members.push_back(std::move(rank));
      }
      const std::string_view source = text_in(*operation, keys.source);
      found_.records.push_back({.number = static_cast<std::uint32_t>(number),
                                .microseconds = static_cast<float>(microseconds),
                                .when = time_of(*all, *operation, keys.start),
                                .member = at->second,
                                .size = sizes_.at(whole),
                                .kind = kind,
                                .by_gpu = source.empty() || source.find("gpu") != std::string_view::npos});
    }
  }
  return true;
}

void Reader::refuse(int line, std::string problem) {
  if (found_.bad_lines++ == 0) {
    found_.first_bad = line;
    found_.problem = std::move(problem);
  }
}

}  // namespace weft::report::inspector
