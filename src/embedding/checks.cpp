#include "embedding/checks.hpp"

#include <bit>
#include <cmath>
#include <set>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

[[noreturn]] void refuse(const std::string& problem, const std::string& advice) {
  throw Error(ErrorKind::usage, problem, advice);
}

/// NaN fails every range test.
void need(bool holds, const char* field, double value, const char* allowed) {
  if (!holds) refuse(text(field, " is ", value), text("allowed is ", allowed));
}

void check_one(const embedding::RowSgd& rule) {
  need(rule.learning_rate >= 0 && std::isfinite(rule.learning_rate), "learning_rate", rule.learning_rate,
       "a finite number of 0 or more");
}
void check_one(const embedding::RowAdaGrad& rule) {
  check_one(embedding::RowSgd{rule.learning_rate});
  need(rule.epsilon > 0 && std::isfinite(rule.epsilon), "epsilon", rule.epsilon, "a finite number above 0");
}
void check_one(const embedding::LazyAdamW& rule) {
  check_one(embedding::RowAdaGrad{rule.learning_rate, rule.epsilon});
  need(rule.beta1 >= 0 && rule.beta1 < 1, "beta1", rule.beta1, "0 or more, and less than 1");
  need(rule.beta2 >= 0 && rule.beta2 < 1, "beta2", rule.beta2, "0 or more, and less than 1");
  need(rule.weight_decay >= 0 && std::isfinite(rule.weight_decay), "weight_decay", rule.weight_decay,
       "a finite number of 0 or more");
}

void check_file(const embedding::Table& table, const std::string& which) {
  const embedding::RowFile& file = table.file;
  if (file.rows_in_memory < 0)
    refuse(text(which, " keeps ", file.rows_in_memory, " rows in memory"), "0 or more are allowed");
  if (file.refresh_every < 1)
    refuse(text(which, " finds its most read rows after ", file.refresh_every, " batches"),
           "refresh_every is 1 or more");
  if (file.directory.empty() && file.rows_in_memory > 0)
    refuse(text(which, " keeps ", file.rows_in_memory, " rows in memory, and names no folder for the others"),
           "set RowFile::directory, or neither: then all rows lie in memory");
}

}  // namespace

void check(std::span<const embedding::Table> tables) {
  if (tables.empty()) refuse("no embedding table", "give one at least");
  std::set<std::string_view> names;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const embedding::Table& table = tables[t];
    const std::string which =
        text("table ", t, table.name.empty() ? "" : " (", table.name, table.name.empty() ? "" : ")");
    if (table.name.empty())
      refuse(text(which, " has no name"), "give it one: messages and checkpoints use it");
    if (!names.insert(table.name).second)
      refuse(text("two tables are called ", table.name), "give each a name of its own");
    if (table.rows < 1 || table.columns < 1)
      refuse(text(which, " has ", table.rows, " rows and ", table.columns, " columns"),
             "it has 1 of each at least");
    if (table.rows > (std::int64_t{1} << 53) / table.columns)
      refuse(text(which, " has ", table.rows, " rows of ", table.columns, " columns"),
             "2^53 elements are the most");
    check_file(table, which);
  }
}

void check(const embedding::Rule& rule) {
  std::visit([](const auto& one) { check_one(one); }, rule);
}

void check(const embedding::RowPlacement& placement, std::span<const embedding::Table> tables, int ranks) {
  if (placement.tables.size() != tables.size())
    refuse(text("a placement of ", placement.tables.size(), " tables, and there are ", tables.size()),
           "plan it for these tables");
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const embedding::TablePlacement& one = placement.tables[t];
    const std::string which = text("the placement of table ", tables[t].name);
    if (one.block_rows < 1 || !std::has_single_bit(static_cast<std::uint64_t>(one.block_rows)))
      refuse(text(which, " has blocks of ", one.block_rows, " rows"), "a power of two is allowed");
    const std::int64_t blocks = (tables[t].rows - 1) / one.block_rows + 1;
    if (static_cast<std::int64_t>(one.owners.size()) != blocks)
      refuse(text(which, " has ", one.owners.size(), " blocks, and ", tables[t].rows, " rows are ", blocks,
                  " of ", one.block_rows),
             "plan it for this table");
    for (const int owner : one.owners) {
      if (owner < 0 || owner >= ranks)
        refuse(text(which, " names rank ", owner, " of ", ranks), "plan it for as many ranks");
    }
  }
}

}  // namespace weft::detail
