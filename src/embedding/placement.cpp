// The planner. Steps: cut each table into blocks, weigh the blocks by the bytes that a batch asks of them, and deal them out, the heaviest
// first. Time: the counts are read once; then B log B for B blocks, about 64 a rank or 64 a table.

#include "weft/embedding/placement.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "embedding/checks.hpp"
#include "weft/core/error.hpp"

namespace weft::embedding {
namespace {

constexpr int blocks_of_rank = 64;  ///< about so many, so that ranks come out even to a few percent

struct Block {
  int table;
  std::int64_t number;
  std::int64_t bytes;
  double traffic;
};

std::int64_t row_bytes(const Table& table) {
  return static_cast<std::int64_t>(table.columns) * static_cast<std::int64_t>(sizeof(float));
}

/// How often each row of a table is read, where that is known.
class Counts {
 public:
  Counts(std::span<const Table> tables, const PlacementOptions& options)
      : tables_(tables), counts_(options.counts) {
    if (!counts_.empty() && counts_.size() != tables.size())
      throw Error(ErrorKind::usage,
                  text("counts of ", counts_.size(), " tables, and there are ", tables.size()),
                  "give one span for each table, an empty one where nothing was counted");
    double sum = 0;
    int known = 0;
    for (std::size_t t = 0; t < counts_.size(); ++t) {
      if (counts_[t].empty()) continue;
      if (static_cast<std::int64_t>(counts_[t].size()) != tables[t].rows)
        throw Error(ErrorKind::usage,
                    text("table ", tables[t].name, " has ", tables[t].rows, " rows, and counts of ",
                         counts_[t].size()),
                    "count each row, also with 0");
      sum += of_rows(t, 0, tables[t].rows);
      ++known;
    }
    even_ = known > 0 && sum > 0 ? sum / known : 1;
  }

  double of_rows(std::size_t table, std::int64_t first, std::int64_t count) const {
    if (counts_.empty() || counts_[table].empty())
      return even_ * static_cast<double>(count) / static_cast<double>(tables_[table].rows);
    const auto part =
        counts_[table].subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    return std::accumulate(part.begin(), part.end(), 0.0);
  }

 private:
  std::span<const Table> tables_;
  const std::vector<std::span<const std::uint32_t>>& counts_;
  double even_ = 1;
};

/// Traffic of the blocks of a table that is cut so, in bytes.
std::vector<double> traffic_of_blocks(const Counts& counts, std::size_t index, const Table& table,
                                      std::int64_t block_rows) {
  std::vector<double> all;
  for (std::int64_t first = 0; first < table.rows; first += block_rows)
    all.push_back(counts.of_rows(index, first, std::min(block_rows, table.rows - first)) *
                  static_cast<double>(row_bytes(table)));
  return all;
}

[[noreturn]] void refuse_room(std::int64_t bytes, int ranks, std::int64_t room, const Table& largest) {
  throw Error(ErrorKind::usage,
              text("tables of ", bytes, " bytes do not fit into ", ranks, " ranks of ", room,
                   " bytes; the largest is ", largest.name, ", of ", largest.rows, " rows and ",
                   largest.rows * row_bytes(largest), " bytes"),
              "use more ranks, or rows of fewer columns");
}

}  // namespace

double RowPlacement::imbalance() const {
  double most = 0;
  double sum = 0;
  for (const RankLoad& rank : ranks) {
    most = std::max(most, rank.traffic);
    sum += rank.traffic;
  }
  return sum > 0 ? most * static_cast<double>(ranks.size()) / sum : 1;
}

RowPlacement plan_placement(std::span<const Table> tables, int ranks, const PlacementOptions& options) {
  detail::check(tables);
  if (ranks < 1)
    throw Error(ErrorKind::usage, text("a placement on ", ranks, " ranks"), "there is 1 at least");
  const Counts counts(tables, options);
  std::int64_t bytes = 0;
  double traffic = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    bytes += tables[t].rows * row_bytes(tables[t]);
    traffic += counts.of_rows(t, 0, tables[t].rows) * static_cast<double>(row_bytes(tables[t]));
  }
  RowPlacement result;
  std::vector<Block> blocks;
  std::int64_t largest_block = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Table& table = tables[t];
    const std::int64_t wanted = std::max<std::int64_t>(1, bytes / ranks / blocks_of_rank / row_bytes(table));
    auto block_rows =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::min(wanted, table.rows))));
    if (block_rows < table.rows && wanted >= table.rows) block_rows *= 2;  // one block
    std::vector<double> weights = traffic_of_blocks(counts, t, table, block_rows);
    while (block_rows > 1 && *std::ranges::max_element(weights) > traffic / ranks / 4) {
      block_rows /= 2;
      weights = traffic_of_blocks(counts, t, table, block_rows);
    }
    for (std::size_t b = 0; b < weights.size(); ++b) {
      const std::int64_t first = static_cast<std::int64_t>(b) * block_rows;
      const std::int64_t size = std::min(block_rows, table.rows - first) * row_bytes(table);
      largest_block = std::max(largest_block, size);
      blocks.push_back({static_cast<int>(t), static_cast<std::int64_t>(b), size, weights[b]});
    }
    result.tables.push_back({block_rows, std::vector<int>(weights.size(), 0)});
  }

  const auto share = (bytes + ranks - 1) / ranks;
  const std::int64_t room = options.bytes_per_rank > 0 ? options.bytes_per_rank : share + largest_block;
  const Table& largest =
      *std::ranges::max_element(tables, {}, [](const Table& one) { return one.rows * row_bytes(one); });
  if (bytes > room * ranks) refuse_room(bytes, ranks, room, largest);
  std::ranges::stable_sort(blocks, [](const Block& a, const Block& b) { return a.traffic > b.traffic; });
  result.ranks.resize(static_cast<std::size_t>(ranks));
  for (const Block& block : blocks) {
    RankLoad* least = nullptr;
    for (RankLoad& rank : result.ranks) {
      if (rank.bytes + block.bytes > room) continue;
      if (least == nullptr || rank.traffic < least->traffic ||
          (rank.traffic == least->traffic && rank.bytes < least->bytes))
        least = &rank;
    }
    if (least == nullptr) refuse_room(bytes, ranks, room, largest);
    least->bytes += block.bytes;
    least->traffic += traffic > 0 ? block.traffic / traffic : 0;
    result.tables[static_cast<std::size_t>(block.table)].owners[static_cast<std::size_t>(block.number)] =
        static_cast<int>(least - result.ranks.data());
  }
  return result;
}

std::string described(const RowPlacement& placement, std::span<const Table> tables) {
  std::string lines;
  for (std::size_t t = 0; t < placement.tables.size(); ++t) {
    const TablePlacement& one = placement.tables[t];
    std::vector<int> owners = one.owners;
    std::ranges::sort(owners);
    owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
    lines += text(tables[t].name, ": ", tables[t].rows, " rows of ", tables[t].columns, ", ",
                  one.owners.size() == 1 ? text("whole on rank ", one.owners.front())
                                         : text("in ", one.owners.size(), " blocks of ", one.block_rows,
                                                " rows on ", owners.size(), " ranks"),
                  "\n");
  }
  for (std::size_t r = 0; r < placement.ranks.size(); ++r)
    lines += text("rank ", r, ": ", placement.ranks[r].bytes, " bytes, ",
                  std::round(placement.ranks[r].traffic * 1e4) / 100, " % of what is read\n");
  lines += text("the most loaded rank has ", std::round(placement.imbalance() * 100) / 100,
                " times the mean of what is read\n");
  return lines;
}

}  // namespace weft::embedding
