#include "weft-report/bandwidth/table_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "weft-report/bandwidth/words.hpp"

namespace weft::report::bandwidth {
namespace {

constexpr std::size_t longest_evidence = 400;
constexpr std::size_t longest_tag = 32;
constexpr std::size_t most_streams = 4096;
constexpr std::size_t shortest_row = 40;
constexpr std::size_t longest_row = 600;
constexpr std::size_t most_rank_hosts = 4096;

constexpr std::array<std::string_view, 11> operations{
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoallv",
    "alltoall",   "sendrecv",   "hypercube",      "gather",    "scatter"};
constexpr std::array<std::string_view, 15> dtypes{"int8",   "uint8",  "int32", "uint32", "int64",
                                                  "uint64", "half",   "float", "double", "bfloat16",
                                                  "f8e4m3", "f8e5m2", "char",  "int",    "fp8"};

std::int64_t whole_or(std::string_view words, std::int64_t otherwise) {
  return leading_number<std::int64_t>(trimmed(words)).value_or(otherwise);
}

Evidence evidence_at(const std::string& file, int number, std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  std::string cut(line.substr(0, longest_evidence));
  if (line.size() > longest_evidence) cut += " ...";
  return {file, number, std::move(cut)};
}

/// "all_reduce" of "./build/all_reduce_perf -b 8" and of "all_reduce_perf_mpi". Empty: no program of nccl-tests.
std::string_view operation_in(std::string_view line) {
  for (auto at = line.find("_perf"); at != std::string_view::npos; at = line.find("_perf", at + 1)) {
    const std::string_view before = line.substr(0, at);
    for (const std::string_view one : operations) {
      if (!before.ends_with(one)) continue;
      const std::string_view rest = before.substr(0, before.size() - one.size());
      if (rest.empty() || std::string_view(" \t/=\"'").find(rest.back()) != std::string_view::npos)
        return one;
    }
  }
  return {};
}

/// A tag that names a printer, without time stamps: those differ from line to line.
std::string_view tag_before(std::string_view line, std::size_t at) {
  const std::string_view before = trimmed(line.substr(0, at));
  const bool bracket = before.starts_with('[') && before.ends_with(':');
  const bool number =
      before.ends_with(':') && before.find_first_not_of("0123456789:") == std::string_view::npos;
  return (bracket || number) && before.size() <= longest_tag ? before : std::string_view();
}

/// What the two bandwidths of a row say of the operation. Empty: more than one would.
std::string_view operation_by(const Row& row, std::int64_t ranks) {
  const Measured& best = row.best();
  if (best.algbw < 1 || best.busbw < 0.2) return {};
  const double ratio = best.busbw / best.algbw;
  const auto is = [&](double factor) { return std::abs(ratio - factor) < 0.02 * factor; };
  const bool reduces = !row.redop.empty();
  if (reduces && row.root >= 0) return is(1) ? "reduce" : "";
  if (ranks < 2) return reduces && ratio > 1.05 && ratio < 2.05 ? "all_reduce" : "";
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  if (reduces) return is(2 * share) ? "all_reduce" : is(share) ? "reduce_scatter" : "";
  return is(1) && ratio > share * 1.03 && row.root >= 0 ? "broadcast" : "";
}

}  // namespace

double bus_factor(const std::string& op, std::int64_t ranks) {
  if (ranks < 2) return 0;
  const auto n = static_cast<double>(ranks);
  if (op == "all_reduce") return 2 * (n - 1) / n;
  if (op == "broadcast" || op == "reduce" || op == "sendrecv" || op == "hypercube") return 1;
  const bool known = std::ranges::find(operations, op) != operations.end();
  return known ? (n - 1) / n : 0;
}

TableReader::Stream& TableReader::stream_of(std::string_view tag, const std::string& file) {
  auto found = streams_.find(tag);
  if (found == streams_.end())
    found =
        streams_.emplace(streams_.size() < most_streams ? std::string(tag) : std::string(), Stream{}).first;
  if (found->second.file != file) {
    found->second = {};
    found->second.file = file;
  }
  return found->second;
}

/// A new run: what was said before its first line belongs to the one before.
void TableReader::begin(Stream& stream) {
  if (!stream.heading && stream.table < 0) return;
  stream.next = {};
  stream.heading = false;
  stream.devices = false;
  stream.table = -1;
}

void TableReader::take_rank(std::string_view words, Stream& stream) {
  const std::string_view group = after(words, " Group ");
  const std::int64_t number = group.empty() ? 0 : whole_or(group, 0);
  if (stream.group < 0) stream.group = number;
  if (number != stream.group) return;
  Table& next = stream.next;
  next.ranks = std::max<std::int64_t>(next.ranks, 0) + 1;
  const std::string_view host = first_word(after(words, " on "));
  if (!host.empty() && next.hosts.size() < most_rank_hosts) next.hosts.emplace(host);
  if (next.device.empty()) next.device = trimmed(after(after(words, " device "), "] ")).substr(0, 64);
}

bool TableReader::take_comment(std::string_view words, const Evidence& evidence, Stream& stream) {
  if (words.starts_with("nccl-tests version ") || words.starts_with("weft-bench version ")) {
    begin(stream);
    stream.next.version = first_word(after(words, "version "));
    if (words.starts_with("weft")) stream.next.version.insert(0, "weft-bench ");
    return true;
  }
  if (words.starts_with("Collective test starting:")) {
    begin(stream);
    if (const std::string_view op = operation_in(words); !op.empty()) stream.next.op = op;
    return true;
  }
  if (words.starts_with("nThread ")) {
    begin(stream);
    return true;
  }
  if (words.starts_with("Using devices")) {
    begin(stream);
    stream.devices = true;
    stream.next.ranks = -1;
    stream.group = -1;
    stream.next.hosts.clear();
    return true;
  }
  if (words.starts_with("Rank ") && words.find(" device ") != std::string_view::npos) {
    take_rank(words, stream);
    return false;  // it also states a fact of its own
  }
  if (auto columns = columns_of(words)) {
    if (stream.table >= 0) begin(stream);
    stream.columns = std::move(*columns);
    stream.heading = true;
    stream.next.heading = evidence;
    return true;
  }
  if (stream.table < 0) return words.starts_with("Avg bus bandwidth");
  Table& table = tables_[static_cast<std::size_t>(stream.table)];
  if (words.starts_with("Out of bounds values")) {
    table.out_of_bounds = whole_or(after(words, ":"), table.out_of_bounds);
    return false;  // a rule reads it, too
  }
  if (!words.starts_with("Avg bus bandwidth")) return false;
  const auto average = number_of<double>(first_word(after(words, ":")));
  if (average && *average >= 0 && *average < 1e7) table.average_busbw = *average;
  const bool failed = words.ends_with("FAILED");
  table.average_verdict = failed ? "FAILED" : words.ends_with("OK") ? "OK" : "";
  table.average = evidence;
  return true;
}

Table* TableReader::table_of(Stream& stream) {
  if (stream.table >= 0) return &tables_[static_cast<std::size_t>(stream.table)];
  if (tables_.size() >= most_tables) return nullptr;
  stream.table = static_cast<std::ptrdiff_t>(tables_.size());
  tables_.push_back(stream.next);
  return &tables_.back();
}

bool TableReader::take_row(const std::string& file, int number, std::string_view line) {
  const std::size_t start = line.find("  ");
  Stream& stream = stream_of(tag_before(line, start), file);
  const Columns& columns = stream.heading ? stream.columns : usual_columns();
  auto row = row_of(line, columns);
  if (!row && !interrupted_.empty()) row = row_of(std::exchange(interrupted_, {}).append(line), columns);
  if (!row) return false;
  if (!stream.heading && std::ranges::find(dtypes, row->dtype) == dtypes.end()) return false;
  Table* table = table_of(stream);
  if (table == nullptr) return true;
  if (table->heading.line == 0) table->heading = evidence_at(file, number, line);
  row->line = number;
  row->text = line.substr(0, longest_evidence);
  if (table->op.empty()) table->op = operation_by(*row, table->ranks);
  table->add(std::move(*row));
  return true;
}

std::string_view TableReader::behind_row(std::string_view line) {
  if (!line.starts_with("  ")) return line;
  const std::size_t first = line.find_first_not_of(' ');
  const std::size_t host = line.find(':');
  if (first == std::string_view::npos || host > longest_row) return line;
  const std::string_view bytes = first_word(line.substr(first));
  const std::string_view count = first_word(line.substr(first + bytes.size()));
  if (!number_of<std::int64_t>(bytes) || !number_of<std::int64_t>(count)) return line;
  // The last number of the part and the host are one word: "-1node1", "0node1", "N/Anode1".
  std::size_t end = line.find_last_of(' ', host) + 1;
  end = line.substr(end).starts_with("N/A") ? end + 3
                                            : std::min(line.find_first_not_of("-0123456789", end), host);
  if (end >= host) return line;
  interrupted_ = line.substr(0, end);
  return line.substr(end);
}

bool TableReader::take(const std::string& file, int number, std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  if (line.empty()) return false;
  const char last = line.back();
  const bool ends_as_row = (last >= '0' && last <= '9') || last == 'A';
  const std::size_t mark = line.find('#');
  if (mark == std::string_view::npos) {
    if (ends_as_row && (line.size() >= shortest_row || !interrupted_.empty()) && line.size() <= longest_row &&
        take_row(file, number, line))
      return true;
    if (const std::string_view op = operation_in(line); !op.empty()) {
      Stream& stream = stream_of("", file);
      begin(stream);
      stream.next.op = op;
    }
    return false;
  }
  if (line.size() > longest_row) return false;
  return take_comment(trimmed(line.substr(mark + 1)), evidence_at(file, number, line),
                      stream_of(tag_before(line, mark), file));
}

}  // namespace weft::report::bandwidth
