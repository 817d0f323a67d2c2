#pragma once
// How ranks hear why one of them failed: one mechanism for everything that they do together outside a collective.
//
// Each rank does its part and brings the outcome: a note, or its Error. Either all ranks leave with the notes of all, or every rank throws. A
// rank that failed throws its own Error; the others throw that of the lowest rank that failed, with its kind, so that all end with one status.
//
//   const auto addresses = agree(rendezvous, "connect: addresses", deadline, [&] { return listen(); }, "use TCP");
//   // rank 1 throws "rank 1 cannot use TCP: no such interface", and so do the others
//   agree(comm, "Metrics", [&] { serve(); });              // the others: "rank 1: port 9400 is in use"
//   on_rank_0(comm, "Saver", [&] { make_the_folder(); });  // no rank's own affair: all throw the same
//
// WRONG: if (!file) throw ...; rendezvous.all_gather(...). The others wait for this rank until their deadline.
//
// A rank that fails while others wait for it elsewhere calls off (or_call_off()) or posts its words (tell_the_others()), and waits for no one.

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "collectives/diagnosis/texts.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

/// How the part of one rank went, and how it tells the others.
class Outcome {
 public:
  /// With nothing to say.
  Outcome() = default;
  explicit Outcome(Error why) : why_(std::move(why)) {}

  /// Calls `body`; keeps what it returns (a text, or nothing) or throws.
  template <class Body>
  static Outcome of(Body&& body) {
    Outcome outcome;
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
        body();
      } else {
        outcome.note_ = body();
      }
    } catch (...) {
      outcome.keep(std::current_exception());
    }
    return outcome;
  }
  /// From words(). @throws Error (mismatch) if they make no sense
  static Outcome from(std::string_view words);
  std::string words() const;

  const std::string& note() const { return note_; }
  const std::optional<Error>& why() const { return why_; }
  /// Throws what `body` threw; an Error gains `here` as its place.
  void expect(const ErrorContext& here) const;

  /// Any exception as an Error: one of another type is of kind system.
  static Error error_of(const std::exception_ptr& thrown);

 private:
  void keep(std::exception_ptr thrown);

  std::string note_;
  std::optional<Error> why_;
  std::exception_ptr other_;  ///< what was thrown, if it is no Error
};

/// The notes of all ranks, by rank, from their words. @throws Error of the lowest rank that failed
/// @param cannot what it could not do: "rank 1 cannot use TCP: ..."; empty: "rank 1: ..."
std::vector<std::string> notes_of(const std::vector<std::string>& words, const ErrorContext& here,
                                  std::string_view cannot = {});

/// Gives every rank the words of all, by rank.
using ShareWords = std::function<std::vector<std::string>(const std::string& mine)>;
/// Collective. @returns the notes of all ranks, by rank
std::vector<std::string> agree(const Outcome& mine, const ShareWords& share, const ErrorContext& here,
                               std::string_view cannot = {});

/// @param purpose as Rendezvous::all_gather() takes it; what stands before its colon is the operation in errors
template <class Body>
std::vector<std::string> agree(Rendezvous& rendezvous, const std::string& purpose, Deadline deadline,
                               Body&& body, std::string_view cannot = {}) {
  const auto share = [&](const std::string& mine) { return rendezvous.all_gather(mine, purpose, deadline); };
  return agree(Outcome::of(body), share, {rendezvous.rank(), purpose.substr(0, purpose.find(':')), 0},
               cannot);
}
template <class Body>
std::vector<std::string> agree(const Communicator& comm, const std::string& operation, Body&& body,
                               std::string_view cannot = {}) {
  const auto share = [&](const std::string& mine) { return exchange_texts(comm, mine); };
  return agree(Outcome::of(body), share, {comm.rank(), operation, 0}, cannot);
}

/// Rank 0's note, on every rank. Collective. @throws on every rank the Error of rank 0
std::string of_rank_0(const Communicator& comm, const std::string& operation, const Outcome& mine);
/// Rank 0 calls `body` for all.
template <class Body>
std::string on_rank_0(const Communicator& comm, const std::string& operation, Body&& body) {
  return of_rank_0(comm, operation, comm.rank() == 0 ? Outcome::of(body) : Outcome());
}

/// Calls `body`. If it throws, the ranks that wait at the rendezvous, or look at called_off(), hear why.
template <class Body>
std::invoke_result_t<Body&> or_call_off(Rendezvous& rendezvous, Body&& body) {
  try {
    return body();
  } catch (...) {
    rendezvous.call_off(Outcome::error_of(std::current_exception()));
    throw;
  }
}

/// What a rank that failed posts to the others on a side channel.
std::string words_of_failure(const Error& error);
/// The failure that rank `reader` hears of; nullopt: the message is another.
std::optional<Error> failure_in(const SideChannel::Message& message, int reader);
/// Calls `say`, by which this rank tells others why it failed. If that fails, too, they notice at their deadline.
void tell_the_others(int rank, const std::function<void()>& say) noexcept;

}  // namespace weft::detail
