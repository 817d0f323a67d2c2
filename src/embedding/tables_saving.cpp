// Rows and their state as pieces of tensors: a piece for each run of blocks that a rank keeps.

#include <algorithm>

#include "embedding/sharded_tables_state.hpp"
#include "weft/core/error.hpp"

namespace weft::embedding {
namespace {

using checkpoint::Piece;
using checkpoint::Wanted;
using detail::HeldRows;
using detail::RowPlaces;

constexpr const char* steps_name = "embedding/steps";
constexpr const char* rule_name = "embedding/rule";
constexpr const char* rates_name =
    "embedding/rates";  ///< f64, of every step: what LazyAdamW does to rows later

/// Names of a checkpoint are shared by all that save into it: those of one object have the first table's name in them.
std::string named(const char* what, const std::vector<Table>& tables) {
  return text(what, "/", tables.front().name);
}

std::vector<std::int64_t> shape_of(const Table& table, const HeldRows::Array& array) {
  if (array.columns == 0) return {table.rows};
  return {table.rows, array.columns};
}

/// Calls visit(array, tensor, shape, block) for each run of rows of each array.
template <class Visit>
void each_piece(const Table& table, const std::vector<RowPlaces::Block>& blocks, const HeldRows& held,
                const Visit& visit) {
  for (const HeldRows::Array& array : held.arrays()) {
    for (const RowPlaces::Block& block : blocks)
      visit(array, table.name + array.ending, shape_of(table, array), block);
  }
}

}  // namespace

checkpoint::State ShardedTables::State::state() {
  const auto turn = users_.enter("state");
  wire_.synchronize();
  checkpoint::State result;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    each_piece(tables_[t], places_[t].blocks_of(rank_), held_[t],
               [&](const HeldRows::Array& array, const std::string& tensor, std::vector<std::int64_t> shape,
                   const RowPlaces::Block& block) {
                 result.pieces.push_back({tensor, std::move(shape), block.first * array.width(),
                                          held_[t].saved(array, block.slot, block.count)});
               });
  }
  if (rank_ == 0 && steps_ > 0) {
    const std::vector<double>& rates = rule_.rates();
    result.pieces.push_back({named(rates_name, tables_), {steps_}, 0, ConstView(std::span(rates))});
  }
  result.values[named(steps_name, tables_)] = steps_;
  result.values[named(rule_name, tables_)] = words(rule_.rule());
  return result;
}

void ShardedTables::State::load_state(const checkpoint::Values& values, const checkpoint::Reader& read) {
  const auto turn = users_.enter("load_state");
  const ErrorContext here{rank_, "ShardedTables::load_state", 0};
  const auto steps = values.find(named(steps_name, tables_));
  const auto rule = values.find(named(rule_name, tables_));
  if (steps == values.end() || rule == values.end() || !std::holds_alternative<std::int64_t>(steps->second) ||
      !std::holds_alternative<std::string>(rule->second))
    throw Error(ErrorKind::usage, text("a checkpoint without tables that begin with ", tables_.front().name),
                "load what state() of such tables gave", here);
  if (std::get<std::string>(rule->second) != words(rule_.rule()))
    throw Error(ErrorKind::usage,
                text("a checkpoint of ", std::get<std::string>(rule->second), ", and the rule is ",
                     words(rule_.rule())),
                "go on with the same rule", here);
  wire_.synchronize();
  looked_up_.reset();
  requested_.clear();
  for (HeldRows& held : held_) {
    while (held.file() != nullptr && held.file()->batches() > 0) held.file()->end(false);
  }
  std::vector<Wanted> wanted;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    each_piece(tables_[t], places_[t].blocks_of(rank_), held_[t],
               [&](const HeldRows::Array& array, const std::string& tensor, std::vector<std::int64_t> shape,
                   const RowPlaces::Block& block) {
                 wanted.push_back({tensor, std::move(shape), block.first * array.width(),
                                   held_[t].loaded(array, block.slot, block.count)});
               });
  }
  std::vector<double> rates(static_cast<std::size_t>(std::get<std::int64_t>(steps->second)));
  if (!rates.empty())
    wanted.push_back(
        {named(rates_name, tables_), {static_cast<std::int64_t>(rates.size())}, 0, View(std::span(rates))});
  read(wanted);
  rule_.set_rates(rates);
  steps_ = rule_.steps();
}

}  // namespace weft::embedding
