#include <algorithm>
#include <sstream>

#include "core/base/number.hpp"
#include "core/files/input_file.hpp"
#include "weft/collectives/algorithm.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

constexpr std::array orders{ReductionOrder::rank, ReductionOrder::any};

/// The value with that name among the first `count` of an enumeration.
template <class T>
T named(std::string_view word, const char* what, std::size_t count) {
  std::string allowed;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<T>(i);
    if (name(value) == word) return value;
    allowed += (i == 0 ? "" : ", ") + std::string(name(value));
  }
  throw Error(ErrorKind::usage, text("'", word, "' is no ", what), text("allowed are ", allowed));
}

template <class T>
T number(const std::string& word, const char* what) {
  const auto value = detail::number_of<T>(word);
  if (!value || *value < 0)
    throw Error(ErrorKind::usage, text("'", word, "' is not a number of ", what), "it is one of 0 or more");
  return *value;
}

AlgorithmTable::Row row_from(const std::string& line) {
  std::istringstream in(line);
  std::array<std::string, 5> words;
  std::string more;
  for (std::string& word : words) in >> word;
  if (!in || in >> more)
    throw Error(ErrorKind::usage, text("'", line, "' is not a row"),
                "a row is: order, collective, ranks, from_bytes, algorithm");
  return {
      named<ReductionOrder>(words[0], "order", orders.size()),
      named<Collective>(words[1], "collective with a choice", static_cast<std::size_t>(Collective::barrier)),
      number<int>(words[2], "ranks"), static_cast<std::uint64_t>(number<std::int64_t>(words[3], "bytes")),
      named<Algorithm>(words[4], "algorithm", static_cast<std::size_t>(Algorithm::dissemination))};
}

}  // namespace

bool carries_out(Algorithm algorithm, Collective kind) {
  const bool has_parts = kind == Collective::reduce_scatter || kind == Collective::all_gather;
  const bool is_whole =
      kind == Collective::all_reduce || kind == Collective::broadcast || kind == Collective::reduce;
  switch (algorithm) {
    case Algorithm::small:
    case Algorithm::tree:
      return is_whole;
    case Algorithm::doubling:
      return kind == Collective::all_reduce;
    case Algorithm::ring:
      return is_whole || has_parts;
    case Algorithm::halving:
      return kind == Collective::all_reduce || has_parts;
    case Algorithm::pairwise:
    case Algorithm::mpi:
      return is_whole || has_parts || kind == Collective::all_to_all;
    case Algorithm::dissemination:
      return kind == Collective::barrier;
  }
  return false;
}

std::string AlgorithmTable::Row::text() const {
  return weft::text(name(order), ' ', name(collective), ' ', ranks, ' ', from_bytes, ' ', name(algorithm));
}

// Measured between 4 and 8 hosts at 1 Gbit/s (bench/results). Where little is sent, the number of messages
// that follow each other counts, and not their bytes.
const AlgorithmTable& AlgorithmTable::built_in() {
  static const AlgorithmTable table = parse(R"(
rank all_reduce     2 0     small
rank all_reduce     2 8193  pairwise
rank all_reduce     3 0     small
rank all_reduce     3 8193  pairwise
rank all_reduce     0 0     doubling
rank all_reduce     0 8193  pairwise
rank broadcast      0 0     tree
rank broadcast      0 65536 ring
rank reduce         0 0     small
rank reduce         0 16385 pairwise
rank reduce_scatter 0 0     pairwise
rank all_gather     0 0     pairwise
rank all_to_all     0 0     pairwise
any  all_reduce     2 0     small
any  all_reduce     0 0     tree
any  all_reduce     0 32768 pairwise
any  reduce         0 0     tree
any  reduce         0 65536 ring
)",
                                            "the built-in table");
  return table;
}

AlgorithmTable AlgorithmTable::parse(std::string_view content, const std::string& source) {
  AlgorithmTable table;
  std::istringstream in{std::string(content)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      table.add(row_from(line));
    } catch (const Error& error) {
      throw Error(ErrorKind::usage, weft::text(source, ", line ", number, ": ", error.problem()),
                  error.advice());
    }
  }
  return table;
}

AlgorithmTable AlgorithmTable::read(const std::string& path) {
  constexpr std::size_t most = std::size_t{1} << 20;  // bytes; a table has some kilobytes
  const std::string content =
      detail::read_input(path, weft::text("table of algorithms '", path, "'"), {.most = most});
  if (content.empty())
    throw Error(ErrorKind::usage, weft::text("table of algorithms '", path, "': it is empty"),
                "weft-bench --tune=FILE writes one");
  return parse(content, path);
}

void AlgorithmTable::add(const Row& row) {
  if (!carries_out(row.algorithm, row.collective)) {
    throw Error(ErrorKind::usage, weft::text("'", row.text(), "': there is no ", name(row.algorithm), " for ",
                                             name(row.collective)));
  }
  if (row.order == ReductionOrder::rank && reduces(row.collective) && !keeps_rank_order(row.algorithm)) {
    throw Error(
        ErrorKind::usage,
        weft::text("'", row.text(), "': ", name(row.algorithm), " does not sum in the order of ranks"),
        "such rows begin with any");
  }
  rows_.push_back(row);
}

std::string AlgorithmTable::text() const {
  std::string result = "# order collective ranks from_bytes algorithm\n";
  for (const Row& row : rows_) result += row.text() + '\n';
  return result;
}

// What keeps the order of ranks may be taken where none is asked for.
std::optional<AlgorithmTable::Row> AlgorithmTable::find(ReductionOrder order, Collective collective,
                                                        int ranks, std::uint64_t bytes) const {
  for (const int number : {ranks, 0}) {
    for (const ReductionOrder section : {order, ReductionOrder::rank}) {
      std::optional<Row> best;
      for (const Row& row : rows_) {
        if (row.order != section || row.collective != collective || row.ranks != number) continue;
        if (row.from_bytes <= bytes && (!best || row.from_bytes >= best->from_bytes)) best = row;
      }
      if (best) return best;
    }
  }
  return std::nullopt;
}

}  // namespace weft
