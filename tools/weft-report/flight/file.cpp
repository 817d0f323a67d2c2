// Reads a flight record. Accepts exactly what the recorder writes; an error names the place that differs.

#include <boost/json.hpp>
#include <set>

#include "core/files/json_node.hpp"
#include "weft-report/flight/flight.hpp"

namespace weft::report {
namespace {

using weft::detail::JsonNode;

namespace json = boost::json;

// The sum of two such times does not overflow, whatever a file says.
constexpr std::int64_t latest_ns = 4'000'000'000'000'000'000;
constexpr std::int64_t most_ranks = 1 << 24;

std::int64_t time_from(const JsonNode& node) {
  return node.integer(0, latest_ns);
}

int rank_from(const JsonNode& node, std::int64_t size) {
  return static_cast<int>(node.integer(0, size - 1));
}

ErrorKind kind_of(const JsonNode& node) {
  // The enumerator is accepted beside its name.
  if (node.string() == "peer_lost") return ErrorKind::peer_lost;
  return node.named<ErrorKind>(static_cast<int>(ErrorKind::internal) + 1);
}

FlightError error_from(const JsonNode& node) {
  node.has({"kind", "message", "operation", "number", "at_ns"});
  return {kind_of(node["kind"]), node["message"].string(), node["operation"].string(),
          static_cast<std::uint64_t>(node["number"].integer(0)), node["at_ns"].integer(1, latest_ns)};
}

FlightProgress progress_from(const JsonNode& node) {
  node.has({"track", "step", "waits_for", "waits_for_count"});
  FlightProgress progress{node["track"].string(), node["step"].integer(0), {}, 0};
  node["waits_for"].each([&](const JsonNode& one) { progress.waits_for.push_back(one.string()); });
  const auto named = static_cast<std::int64_t>(progress.waits_for.size());
  progress.waits_for_count = node["waits_for_count"].integer(named);
  return progress;
}

void add_operation(const JsonNode& node, FlightCommunicator& communicator) {
  node.has({"lane", "number", "kind", "count", "dtype", "op", "root", "state", "issued_ns", "begun_ns",
            "ended_ns"});
  const auto lane = node["lane"].named<Lane>(static_cast<int>(lane_names.size()));
  FlightOperation one{.number = static_cast<std::uint64_t>(node["number"].integer(1)),
                      .issued_ns = time_from(node["issued_ns"]),
                      .begun_ns = time_from(node["begun_ns"]),
                      .ended_ns = time_from(node["ended_ns"]),
                      .state = node["state"].named<State>(static_cast<int>(state_names.size()))};
  if (lane != Lane::group) {  // a group is many messages and no collective
    one.kind = node["kind"].named<Collective>(static_cast<int>(Collective::barrier) + 1);
    one.count = node["count"].integer(0);
    one.dtype = node["dtype"].named<DataType>(static_cast<int>(DataType::u8) + 1);
    one.op = node["op"].named<ReduceOp>(static_cast<int>(ReduceOp::avg) + 1);
    one.root = rank_from(node["root"], static_cast<std::int64_t>(communicator.ranks.size()));
  }
  auto& operations = communicator.lanes[static_cast<std::size_t>(lane)];
  if (!operations.empty() && operations.back().number >= one.number)
    node["number"].refuse(text("is ", one.number, " after ", operations.back().number),
                          "numbers rise on a lane: oldest first");
  operations.push_back(one);
}

FlightCommunicator communicator_from(const JsonNode& node, int rank, int size) {
  node.has({"name", "ranks", "rank", "operations"});
  FlightCommunicator communicator{.name = node["name"].string(), .ranks = {}, .lanes = {}};
  std::set<int> seen;
  node["ranks"].each([&](const JsonNode& one) {
    communicator.ranks.push_back(rank_from(one, size));
    if (!seen.insert(communicator.ranks.back()).second)
      one.refuse(text("is rank ", communicator.ranks.back(), " a second time"));
  });
  if (communicator.ranks.empty()) node["ranks"].refuse("is empty");
  const int place = rank_from(node["rank"], static_cast<std::int64_t>(communicator.ranks.size()));
  if (communicator.ranks[static_cast<std::size_t>(place)] != rank) {
    node["rank"].refuse(text("is ", place, ", which is world rank ",
                             communicator.ranks[static_cast<std::size_t>(place)], " and not ", rank));
  }
  node["operations"].each([&](const JsonNode& one) { add_operation(one, communicator); });
  return communicator;
}

}  // namespace

FlightRecord parse_flight(std::string_view content, const std::string& file) {
  boost::system::error_code error;
  const json::value value = json::parse({content.data(), content.size()}, error);
  if (error) throw Error(ErrorKind::usage, text(file, ": is no whole JSON: ", error.message()));
  const JsonNode root(file, value);
  // The version comes first: another version may differ everywhere else.
  if (const json::object* object = value.if_object(); object == nullptr || !object->contains("weft_flight"))
    root.refuse("is no flight record: it has no \"weft_flight\"");
  if (const auto* version = value.at("weft_flight").if_int64(); version == nullptr || *version != 1)
    root["weft_flight"].refuse(text("is ", json::serialize(value.at("weft_flight"))),
                               "this program reads version 1");
  root.has(
      {"weft_flight", "rank", "size", "host", "pid", "reason", "clock", "error", "progress", "communicators"},
      "error");
  FlightRecord record;
  record.file = file;
  record.size = static_cast<int>(root["size"].integer(1, most_ranks));
  record.rank = rank_from(root["rank"], record.size);
  record.host = root["host"].string();
  record.pid = root["pid"].integer(1);
  record.reason = root["reason"].string();
  const JsonNode clock = root["clock"];
  clock.has({"steady_ns", "wall_ns"});
  record.steady_ns = time_from(clock["steady_ns"]);
  record.wall_ns = clock["wall_ns"].integer(1, latest_ns);
  if (root.contains("error")) record.error = error_from(root["error"]);
  root["progress"].each([&](const JsonNode& one) { record.progress.push_back(progress_from(one)); });
  std::set<std::pair<std::string, std::vector<int>>> seen;
  root["communicators"].each([&](const JsonNode& one) {
    record.communicators.push_back(communicator_from(one, record.rank, record.size));
    const FlightCommunicator& last = record.communicators.back();
    if (!seen.insert({last.name, last.ranks}).second)
      one.refuse(text("is a second one of name '", last.name, "' and the same ranks"));
  });
  return record;
}

}  // namespace weft::report
