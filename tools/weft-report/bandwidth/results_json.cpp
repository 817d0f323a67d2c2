#include "weft-report/bandwidth/results_json.hpp"

#include <boost/json.hpp>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

#include "core/files/json_node.hpp"
#include "weft/core/error.hpp"

namespace weft::report::bandwidth {
namespace {

using weft::detail::JsonNode;

namespace json = boost::json;

constexpr std::int64_t most_bytes = std::int64_t{1} << 56;
constexpr double longest_microseconds = 1e12;
constexpr double highest_gigabytes = 1e7;
constexpr std::int64_t most_ranks = std::int64_t{1} << 24;
constexpr std::size_t most_tables = 256;
constexpr std::size_t most_hosts = 4096;

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
/// A member that may be missing or null.
std::optional<JsonNode> member(const JsonNode& node, std::string_view key) {
  const json::object* object = node.value().if_object();
  if (object == nullptr) node.refuse("is no object");
  const auto found = object->find(key);
  if (found == object->end() || found->value().is_null()) return std::nullopt;
  return node.member(key);
}

/// "all_reduce" of "./build/all_reduce_perf" and of "all_reduce_perf_mpi".
std::string operation_of(std::string program) {
  program.erase(0, program.rfind('/') + 1);
  const auto end = program.find("_perf");
  return end == std::string::npos ? std::string() : program.substr(0, end);
}

/// "2.28.9" of 22809, and "2.8.4" of 2804.
std::string version_text(std::int64_t code) {
  const std::int64_t major = code >= 10000 ? code / 10000 : code / 1000;
  const std::int64_t minor = code >= 10000 ? code / 100 % 100 : code / 100 % 10;
  return text(major, '.', minor, '.', code % 100);
}

/// A number that a machine may have measured.
double plain(const JsonNode& node, double most) {
  const double value = node.not_negative();
  if (value > most) node.refuse(text("is ", value), text("it is at most ", most));
  return value;
}
Measured measured_of(const JsonNode& microseconds, double unit, const JsonNode& algbw,
                     const JsonNode& busbw) {
  static_cast<void>(microseconds.positive());
  return {.microseconds = plain(microseconds, longest_microseconds / unit) * unit,
          .algbw = plain(algbw, highest_gigabytes),
          .busbw = plain(busbw, highest_gigabytes)};
}

/// A measurement of nccl-tests.
std::optional<Measured> measured_of(const std::optional<JsonNode>& node) {
  if (!node) return std::nullopt;
  const char* const time = member(*node, "cpu_time") ? "cpu_time" : "time";
  for (const char* const key : {time, "alg_bw", "bus_bw"}) {
    const auto one = member(*node, key);
    if (one && one->value().is_string() && one->string() == "nan") return std::nullopt;
  }
  Measured measured = measured_of(node->member(time), 1, node->member("alg_bw"), node->member("bus_bw"));
  if (const auto count = member(*node, "nwrong"))
    measured.wrong =
        static_cast<std::int64_t>(std::min(count->not_negative(), static_cast<double>(most_bytes)));
  return measured;
}

/// nccl-tests prints the root as text: "    -1".
std::int64_t root_of(const JsonNode& node) {
  const std::string words = node.string();
  const auto begin = std::min(words.find_first_not_of(' '), words.size());
  std::int64_t root = 0;
  const auto [end, error] = std::from_chars(words.data() + begin, words.data() + words.size(), root);
  if (error != std::errc() || end != words.data() + words.size() || root < -1 || root > most_ranks)
    node.refuse(text("is \"", words, "\""), "it is the number of a rank, or -1");
  return root;
}

std::string without_none(std::string redop) {
  return redop == "none" ? std::string() : redop;
}

void read_devices(const JsonNode& config, Table& table) {
  const auto devices = member(config, "devices");
  if (!devices) return;
  std::int64_t processes = 0;
  devices->each([&](const JsonNode& one) {
    ++processes;
    const std::string host = one.member("hostname").string();
    if (table.hosts.size() < most_hosts) table.hosts.insert(host);
    if (table.device.empty()) table.device = one.member("device_info").string().substr(0, 64);
  });
  // It names one device of each process.
  const std::int64_t threads = config.member("nthreads").integer(1, most_ranks);
  const std::int64_t each = std::min(threads * config.member("ngpus").integer(1, most_ranks), most_ranks);
  table.ranks = std::min(processes * each, most_ranks);
}

void read_row(const JsonNode& one, Table& table) {
  Row row{.bytes = one.member("size").integer(0, most_bytes),
          .dtype = one.member("type").string().substr(0, 16),
          .redop = without_none(one.member("redop").string().substr(0, 16)),
          .root = root_of(one.member("root"))};
  row.out_of_place = measured_of(member(one, "out_of_place"));
  row.in_place = measured_of(member(one, "in_place"));
  if (row.out_of_place || row.in_place) table.add(std::move(row));
}

std::vector<Table> read_nccl_tests(const JsonNode& root, const std::string& file) {
  Table table;
  table.heading = {file, 0, "results of nccl-tests"};
  table.version = "NCCL " + version_text(root.member("nccl_version").integer(0, 10000000));
  if (const auto arguments = member(root, "args")) {
    bool first = true;
    arguments->each([&](const JsonNode& one) {
      if (std::exchange(first, false)) table.op = operation_of(one.string());
    });
  }
  if (const auto config = member(root, "config")) read_devices(*config, table);
  if (const auto results = member(root, "results"))
    results->each([&](const JsonNode& one) { read_row(one, table); });
  if (const auto bounds = member(root, "out_of_bounds"))
    table.out_of_bounds = bounds->member("count").integer(0, most_bytes);
  if (const auto average = member(root, "average_bus_bandwidth")) {
    table.average_busbw = plain(average->member("bandwidth"), highest_gigabytes);
    const std::string okay = average->member("okay").string();
    table.average_verdict = okay == "false" ? "FAILED" : okay == "true" ? "OK" : "";
    table.average = {file, 0, text("average_bus_bandwidth: ", table.average_busbw)};
  }
  if (table.rows.empty()) return {};
  return {std::move(table)};
}

/// A table for each operation, type and number of ranks.
std::vector<Table> read_weft_bench(const JsonNode& root, const std::string& file) {
  std::vector<Table> tables;
  std::map<std::tuple<std::string, std::string, std::string, std::int64_t>, std::size_t> known;
  root.member("results").each([&](const JsonNode& one) {
    Row row{.bytes = one.member("bytes").integer(0, most_bytes),
            .dtype = one.member("dtype").string().substr(0, 16),
            .redop = without_none(one.member("redop").string().substr(0, 16)),
            .root = one.member("root").integer(-1, most_ranks)};
    const std::string op = one.member("op").string().substr(0, 32);
    const std::int64_t ranks = one.member("ranks").integer(1, most_ranks);
    const auto [at, fresh] = known.try_emplace({op, row.dtype, row.redop, ranks}, tables.size());
    if (fresh && tables.size() == most_tables) return static_cast<void>(known.erase(at));
    if (fresh)
      tables.push_back(
          {.op = op, .version = "weft-bench", .ranks = ranks, .heading = {file, 0, "results of weft-bench"}});
    Measured measured =
        measured_of(one.member("seconds").member("median"), 1e6, one.member("algbw"), one.member("busbw"));
    measured.wrong = one.member("wrong").integer(-1, most_bytes);
    std::vector<Row>& rows = tables[at->second].rows;
    const auto half = one.member("in_place").boolean() ? &Row::in_place : &Row::out_of_place;
    if (!rows.empty() && rows.back().bytes == row.bytes && !(rows.back().*half)) {
      rows.back().*half = measured;
      return;
    }
    row.*half = measured;
    tables[at->second].add(std::move(row));
  });
  return tables;
}

}  // namespace

bool opens_results(std::string_view start) {
  const bool tests = holds(start, "\"nccl_version\"") && holds(start, "\"args\"");
  const bool bench = holds(start, "\"results\"") && holds(start, "\"busbw\"") && holds(start, "\"in_place\"");
  return tests || bench;
}

std::vector<Table> read_results(std::string_view content, const std::string& file) {
  boost::system::error_code error;
  const json::value value = json::parse({content.data(), content.size()}, error);
  if (error) throw Error(ErrorKind::usage, text(file, ": is no whole JSON: ", error.message()));
  const JsonNode root(file, value);
  if (value.is_object() && value.get_object().contains("nccl_version")) return read_nccl_tests(root, file);
  return read_weft_bench(root, file);
}

}  // namespace weft::report::bandwidth
