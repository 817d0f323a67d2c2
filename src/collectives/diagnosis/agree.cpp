#include "collectives/diagnosis/agree.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "collectives/diagnosis/operation_words.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

// Words are this and the note, or this, the kind, the bytes of the problem, a space, the problem and the advice.
constexpr char note_mark = '+';
constexpr char error_mark = '-';

constexpr std::string_view gave_up = "gave up\n";

Error senseless(std::size_t bytes) {
  return {ErrorKind::mismatch, text("a rank's outcome of ", bytes, " bytes makes no sense"),
          "run the same version of weft on every rank"};
}

Error error_from(std::string_view words) {
  const char* const end = words.data() + words.size();
  std::size_t length = 0;
  const bool has_kind =
      words.size() > 2 && words[1] >= '0' && words[1] <= '0' + static_cast<int>(ErrorKind::internal);
  const auto [at, code] = std::from_chars(words.data() + std::min<std::size_t>(2, words.size()), end, length);
  if (!has_kind || code != std::errc() || at == end || *at != ' ' ||
      static_cast<std::size_t>(end - at) - 1 < length)
    throw senseless(words.size());
  const std::string problem(at + 1, length);
  return {static_cast<ErrorKind>(words[1] - '0'), problem, std::string(at + 1 + length, end)};
}

}  // namespace

Error Outcome::error_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {ErrorKind::system, message_of(error)};
  } catch (...) {
    return {ErrorKind::system, "an exception that is no std::exception"};
  }
}

std::string Outcome::words() const {
  if (!why_) return note_mark + note_;
  return text(error_mark, static_cast<int>(why_->kind()), why_->problem().size(), ' ', why_->problem(),
              why_->advice());
}

Outcome Outcome::from(std::string_view words) {
  if (words.starts_with(error_mark)) return Outcome(error_from(words));
  if (!words.starts_with(note_mark)) throw senseless(words.size());
  Outcome outcome;
  outcome.note_ = words.substr(1);
  return outcome;
}

void Outcome::keep(std::exception_ptr thrown) {
  why_ = error_of(thrown);
  try {
    std::rethrow_exception(thrown);
  } catch (const Error&) {
  } catch (...) {
    other_ = std::move(thrown);
  }
}

// Not the Error that the others hear of it: a caller may know the exception by its type.
void Outcome::expect(const ErrorContext& here) const {
  if (other_) std::rethrow_exception(other_);
  if (why_) throw why_->in(here);
}

std::vector<std::string> notes_of(const std::vector<std::string>& words, const ErrorContext& here,
                                  std::string_view cannot) {
  std::vector<std::string> notes;
  notes.reserve(words.size());
  for (const std::string& one : words) {
    const Outcome outcome = Outcome::from(one);
    if (const auto& why = outcome.why()) {
      const std::string who = text("rank ", notes.size(), cannot.empty() ? "" : " cannot ", cannot, ": ");
      throw Error(why->kind(), who + why->problem(), why->advice(), here);
    }
    notes.push_back(outcome.note());
  }
  return notes;
}

std::vector<std::string> agree(const Outcome& mine, const ShareWords& share, const ErrorContext& here,
                               std::string_view cannot) {
  std::vector<std::string> words;
  try {
    words = share(mine.words());
  } catch (...) {
    mine.expect(here);  // says more than that another rank is missing, too
    throw;
  }
  if (cannot.empty()) mine.expect(here);
  return notes_of(words, here, cannot);
}

std::string of_rank_0(const Communicator& comm, const std::string& operation, const Outcome& mine) {
  const ErrorContext here{comm.rank(), operation, 0};
  std::string words;
  try {
    words = broadcast_text(comm, mine.words(), 0);
  } catch (...) {
    mine.expect(here);
    throw;
  }
  const Outcome rank_0 = Outcome::from(words);
  if (rank_0.why()) throw rank_0.why()->in(here);
  return rank_0.note();
}

std::string words_of_failure(const Error& error) {
  return text(gave_up, Outcome(error).words());
}

std::optional<Error> failure_in(const SideChannel::Message& message, int reader) try {
  if (!message.body.starts_with(gave_up)) return std::nullopt;
  const Outcome said = Outcome::from(std::string_view(message.body).substr(gave_up.size()));
  const auto& why = said.why();
  return why ? std::optional(failure_of(reader, message.rank, why->kind(), why->problem())) : std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

void tell_the_others(int rank, const std::function<void()>& say) noexcept {
  try {
    const Outcome told = Outcome::of(say);
    if (told.why())
      log::debug(text("rank ", rank, " could not tell the others why it failed: ", told.why()->what()));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the line
  }
}

}  // namespace weft::detail
