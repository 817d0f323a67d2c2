#include "collectives/network/plan/choice.hpp"

#include <algorithm>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

struct Found {
  AlgorithmTable::Row row;
  bool built_in;
};

// A mean has to be taken of the whole sum where the sum does not fit its type; over nodes it has been made to fit
// (nodes_steps.cpp).
bool needs_rank_order(const Operation& operation) {
  const bool has_room = operation.dtype == DataType::f32 || operation.dtype == DataType::f64 ||
                        (is_floating(operation.dtype) && operation.divisor != 0);
  return operation.reduces() && operation.op == ReduceOp::avg && !has_room;
}

Found find(const Choices& choices, const Operation& operation, int ranks) {
  const ReductionOrder order = needs_rank_order(operation) ? ReductionOrder::rank : choices.order;
  const std::uint64_t bytes = operation.bytes(ranks);
  if (const auto row = choices.table.find(order, operation.kind, ranks, bytes)) return {*row, false};
  return {AlgorithmTable::built_in().find(order, operation.kind, ranks, bytes).value(), true};
}

/// A note is the order and then the table's text.
struct Note {
  std::string word;
  std::string rest;

  explicit Note(const std::string& note)
      : word(note.substr(0, note.find('\n'))), rest(note.substr(std::min(note.size(), word.size() + 1))) {}
};

}  // namespace

ReductionOrder order_from(const Environment& environment) {
  const std::string word = environment.value(env::order);
  for (const ReductionOrder order : {ReductionOrder::rank, ReductionOrder::any}) {
    if (name(order) == word) return order;
  }
  throw Error(ErrorKind::usage, text(env::order.name, "=", word, " is neither rank nor any"));
}

std::string Choices::note(int rank, const Environment& environment,
                          const std::optional<ReductionOrder>& order,
                          const std::optional<AlgorithmTable>& table) {
  const ReductionOrder chosen = order ? *order : order_from(environment);
  const auto path = environment.get(env::algorithms);
  std::string content;
  if (table) content = table->text();
  if (!table && path && rank == 0) content = AlgorithmTable::read(*path).text();
  return text(name(chosen), '\n', content);
}

Choices Choices::agreed(const std::vector<std::string>& notes) {
  const Note first(notes.front());
  for (std::size_t rank = 0; rank < notes.size(); ++rank) {
    const Note note(notes[rank]);
    if (note.word != first.word) {
      throw Error(ErrorKind::mismatch,
                  text("rank 0 sums in the order '", first.word, "', rank ", rank, " in '", note.word, "'"),
                  "give all ranks the same");
    }
    if (!note.rest.empty() && note.rest != first.rest) {
      throw Error(ErrorKind::mismatch,
                  text("ranks 0 and ", rank, " were given different tables of algorithms"),
                  "give all ranks the same");
    }
  }
  return {first.word == name(ReductionOrder::any) ? ReductionOrder::any : ReductionOrder::rank,
          AlgorithmTable::parse(first.rest, "rank 0's table of algorithms")};
}

Algorithm choose(const Choices& choices, const Operation& operation, int ranks) {
  if (operation.kind == Collective::barrier) return Algorithm::dissemination;
  if (operation.kind == Collective::reduce_parts) return Algorithm::pairwise;
  return find(choices, operation, ranks).row.algorithm;
}

std::string explain_choice(const Choices& choices, const Operation& operation, int ranks) {
  if (operation.kind == Collective::barrier) return std::string(name(Algorithm::dissemination));
  const auto [row, built_in] = find(choices, operation, ranks);
  return text(name(row.algorithm), " (", operation.bytes(ranks), " bytes over ", ranks, " ranks, order ",
              name(choices.order), ": row '", row.text(), "' of the ", built_in ? "built-in" : "given",
              " table)");
}

}  // namespace weft::detail
