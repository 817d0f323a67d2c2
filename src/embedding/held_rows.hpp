#pragma once
// The rows of a table that a rank keeps, their state, and how a rule trains them.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "embedding/row_loops.hpp"
#include "embedding/row_record.hpp"
#include "embedding/rows_in_file.hpp"
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

/// In memory, or in a file with a cache before it (rows_in_file.hpp): then only rows of the oldest batch that began there are at hand.
class HeldRows {
 public:
  /// @param worker of files; ignored where the table has none @throws Error as RowsInFile's constructor
  HeldRows(const embedding::Table& table, std::int64_t rows, const embedding::Rule& rule, int rank,
           const Stream& worker);

  /// Before the first batch.
  void fill(const RowsInFile::Fill& fill);
  float* row(std::int64_t slot) {
    if (file_) return file_->row(static_cast<std::int32_t>(slot));
    return rows_.as<float>().data() + slot * record_.columns;
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(record_.bytes()) * count_; }
  /// Null for rows in memory, and where there are none.
  RowsInFile* file() const { return file_.get(); }

  /// LazyAdamW: gives these rows the steps that went by without them.
  void bring_up_to_date(std::span<const std::int32_t> slots, const RowRule& rule);
  /// to = these rows in turn
  void gather(std::span<const std::int32_t> slots, float* to);
  /// The last step of the rule. @param gradient of the row; the memory may be written
  void update(std::int32_t slot, const float* gradient, const RowRule& rule);
  /// One row with all steps in it, whichever batches there are. Blocks.
  std::vector<float> up_to_date(std::int32_t slot, const RowRule& rule);

  /// An array of rows or state: what a checkpoint calls it, and its elements a row (0: one, without a dimension of its own).
  struct Array {
    std::string ending;
    DataType dtype;
    int columns;
    Buffer HeldRows::*memory;
    std::byte* (*in_record)(const RowParts& parts);

    std::int64_t width() const { return columns == 0 ? 1 : columns; }
  };
  std::vector<Array> arrays() const;
  /// Rows [first, first + count) of an array, to save or to load.
  std::variant<ConstView, checkpoint::Computed> saved(const Array& array, std::int64_t first,
                                                      std::int64_t count);
  std::variant<View, checkpoint::Taken> loaded(const Array& array, std::int64_t first, std::int64_t count);

 private:
  RowParts parts(std::int64_t slot);
  void catch_up(const RowParts& parts, std::int64_t step, const RowRule& rule) const;
  /// Calls visit(element of the range, elements of it, memory) for elements [at, at + count) of an array in a file, counted from row `first` on.
  template <class Visit>
  void each_part(const Array& array, std::int64_t first, std::int64_t at, std::int64_t count, bool changes,
                 const Visit& visit);

  RowRecord record_;
  std::int64_t count_;
  Buffer rows_{};
  Buffer first_{};   ///< h of RowAdaGrad, a number a row; m of LazyAdamW
  Buffer second_{};  ///< v of LazyAdamW
  Buffer last_{};    ///< LazyAdamW: how many steps each row has had, i32
  std::unique_ptr<RowsInFile> file_{};
};

}  // namespace weft::detail
