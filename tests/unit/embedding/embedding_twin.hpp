#pragma once
// Embedding tables on one process, as obvious as they can be: what ShardedTables must equal to the bit.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "weft/embedding/table.hpp"

namespace weft::test {

using embedding::Bags;
using embedding::Table;

/// Bags that own their memory, of one table.
struct OwnedBags {
  std::vector<std::int64_t> indices{};
  std::vector<std::int64_t> offsets{0};

  Bags view() const { return {indices, offsets}; }
  OwnedBags part(std::int64_t first, std::int64_t count) const;
};
/// A batch for each table, drawn so that few rows are read often.
std::vector<OwnedBags> drawn_batch(const std::vector<Table>& tables, std::int64_t samples,
                                   std::uint64_t seed);

/// What a table begins with, and what its samples should become.
float initial_value(int table, std::int64_t row, int column);
float target(int table, std::int64_t sample, int column);

class EmbeddingTwin {
 public:
  EmbeddingTwin(std::vector<Table> tables, const embedding::Rule& rule);

  /// samples x columns for each table
  std::vector<std::vector<float>> pooled(const std::vector<OwnedBags>& bags) const;
  void step(const std::vector<OwnedBags>& bags, const std::vector<std::vector<float>>& gradients,
            float scale);
  /// Look-up, a gradient of pooled - target, and a step.
  void train(const std::vector<OwnedBags>& bags, float scale = 1);

  std::vector<std::vector<float>> rows;  ///< of each table, row-major

 private:
  using Row = std::vector<float>;
  static std::optional<Row> block_sum(const std::map<std::int64_t, Row>& samples, std::int64_t begin,
                                      int height);
  void update(std::size_t table, std::int64_t row, const Row* gradient);

  std::vector<Table> tables_;
  embedding::Rule rule_;
  int steps_ = 0;
  std::vector<std::vector<float>> first_, second_;
};

}  // namespace weft::test
