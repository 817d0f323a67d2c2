#pragma once
// The rows of a table that a rank keeps, their state, and how a rule trains them.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "embedding/row_loops.hpp"
#include "embedding/wanted_rows.hpp"
#include "weft/checkpoint/piece.hpp"
#include "weft/core/buffer.hpp"
#include "weft/embedding/table.hpp"

namespace weft::detail {

/// The rule of a training, and what a row that was left out needs of the past: the factors of each step, 32 bytes.
class RowRule {
 public:
  explicit RowRule(const embedding::Rule& rule) : rule_(rule) {}

  const embedding::Rule& rule() const { return rule_; }
  /// Of the rule itself.
  double learning_rate() const;
  void add_step(double learning_rate);
  std::int64_t steps() const { return static_cast<std::int64_t>(rates_.size()); }
  /// Rates of the steps, f64: the state that goes with that of rows.
  const std::vector<double>& rates() const { return rates_; }
  void set_rates(std::span<const double> rates);

  double rate() const { return rates_.back(); }
  const AdamWFactors& adamw(std::int64_t step) const { return adamw_[static_cast<std::size_t>(step)]; }

 private:
  embedding::Rule rule_;
  std::vector<double> rates_{};
  std::vector<AdamWFactors> adamw_{};  ///< of LazyAdamW alone
};

class HeldRows {
 public:
  HeldRows(const embedding::Table& table, std::int64_t rows, const embedding::Rule& rule);

  const float* rows() const { return rows_.as<float>().data(); }
  float* row(std::int64_t slot) { return rows_.as<float>().data() + slot * columns_; }
  int columns() const { return columns_; }
  std::int64_t bytes() const;

  /// LazyAdamW: gives these rows the steps that went by without them.
  void bring_up_to_date(std::span<const std::int32_t> slots, const RowRule& rule);
  /// The last step of the rule. @param gradient of the row; the memory may be written
  void update(std::int32_t slot, const float* gradient, const RowRule& rule);

  /// An array of rows or state: what a checkpoint calls it, and its elements a row (0: one, without a dimension of its own).
  struct Array {
    std::string ending;
    View values;
    int columns;
  };
  std::vector<Array> arrays();

 private:
  void catch_up(std::int32_t slot, std::int64_t step, const RowRule& rule);

  int columns_;
  Buffer rows_;
  Buffer first_{};   ///< h of RowAdaGrad, a number a row; m of LazyAdamW
  Buffer second_{};  ///< v of LazyAdamW
  Buffer last_{};    ///< LazyAdamW: how many steps each row has had, i32
};

}  // namespace weft::detail
