#pragma once
// An operation as ranks tell each other of it, and what is said where two differ.

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

/// An enumerator up to `last`, by its number. False: there is none.
template <class T>
bool take(std::istringstream& in, T& value, T last) {
  int number = 0;
  if (!(in >> number) || number < 0 || number > static_cast<int>(last)) return false;
  value = static_cast<T>(number);
  return true;
}

/// "3 0 10 2 0 0": number, kind, count, dtype, op, root
inline std::string words_of(const Operation& operation) {
  return text(operation.number, ' ', static_cast<int>(operation.kind), ' ', operation.count, ' ',
              static_cast<int>(operation.dtype), ' ', static_cast<int>(operation.op), ' ', operation.root);
}

inline std::optional<Operation> operation_from(std::istringstream& in) {
  Operation operation;
  const bool is_whole = in >> operation.number && take(in, operation.kind, Collective::barrier) &&
                        in >> operation.count && take(in, operation.dtype, last_data_type) &&
                        take(in, operation.op, last_reduce_op) && in >> operation.root;
  return is_whole ? std::optional(operation) : std::nullopt;
}

/// The advice to a rank that hears of another's error.
inline constexpr std::string_view its_own_message = "its own message says why";
inline Error lost_error(std::string how) {
  return Error(ErrorKind::peer_lost, std::move(how), std::string(its_own_message));
}
/// What helps where a rank has left before the others. The torch backend has other words for it.
inline constexpr std::string_view uneven_batches_advice =
    "where ranks have different numbers of batches, set ReducerOptions::uneven and call "
    "GradientReducer::join()";
/// The rank ended as it should, while others still wait for it, so it has said nothing.
inline Error left_error(std::string how) {
  return Error(ErrorKind::peer_lost, std::move(how), std::string(uneven_batches_advice));
}
inline Error left_error(int rank) {
  return left_error(text("rank ", rank, " has left the communicator without an error"));
}
/// How a rank says that its process ends while its communicator lives.
inline constexpr std::string_view exit_words = "called exit(";
inline std::string exit_problem(int status) {
  return text(exit_words, status, "), or returned ", status,
              " from main(), and had not left the communicator");
}
/// The ranks that a problem names: the numbers behind "rank ".
inline std::vector<int> ranks_in(std::string_view problem) {
  constexpr std::string_view word = "rank ";
  std::vector<int> ranks;
  for (std::size_t at = problem.find(word); at != problem.npos; at = problem.find(word, at)) {
    at += word.size();
    int rank = 0;
    const auto [end, code] = std::from_chars(problem.data() + at, problem.data() + problem.size(), rank);
    if (code == std::errc()) ranks.push_back(rank);
  }
  return ranks;
}

/// What `reader` hears of another rank that has failed. A disagreement has two sides, and says so itself. A rank that waited for others, or lost
/// one, says whom: they are to blame, and not who tells of them. With anything else, that rank began. Who misuses weft ends with 42, and so do
/// those that hear of it: so the job's status is that of its cause, in whichever order they end.
inline Error failure_of(int reader, int rank, ErrorKind kind, std::string_view problem) {
  if (kind == ErrorKind::mismatch) return Error(kind, std::string(problem), "its own message says more");
  if (problem.starts_with(exit_words)) {
    const bool is_well = problem.substr(exit_words.size()).starts_with("0)");
    return Error(kind, text("rank ", rank, ' ', problem),
                 is_well ? std::string(uneven_batches_advice) : "its own output may say why");
  }
  if (kind == ErrorKind::usage)
    return Error(kind, text("rank ", rank, " failed: ", problem), std::string(its_own_message));
  const bool lost_others = kind == ErrorKind::timeout || kind == ErrorKind::peer_lost;
  const std::vector<int> named = ranks_in(problem);
  const auto is_another = [&](int one) { return one != reader && one != rank; };
  if (!lost_others || named.empty() || !std::ranges::all_of(named, is_another))
    return lost_error(text("rank ", rank, " failed: ", problem));
  return lost_error(text(problem.starts_with("waited ") ? "another rank " : "", problem));
}

/// Both ranks say the same.
inline Error disagreement(int rank, const Operation& operation, int other_rank, const Operation& other) {
  const auto described = [](int one, const Operation& what) {
    return text("rank ", one, " issued ", what.text());
  };
  const std::string mine = described(rank, operation);
  const std::string theirs = described(other_rank, other);
  const bool i_am_first = rank < other_rank;
  return Error(ErrorKind::mismatch,
               text("ranks disagree: ", i_am_first ? mine : theirs, ", ", i_am_first ? theirs : mine),
               "issue the same operations in the same order with the same arguments on every rank");
}

}  // namespace weft::detail
