// Steps of a save: rank 0 makes the draft folder; every rank writes and flushes its file; rank 0 gathers what each wrote, looks
// whether it sees their files and whether the tensors are whole, writes the index and renames the folder; all hear how it went.
// Messages beside the files: the index, once to rank 0, and a reason from there.

#include "weft/checkpoint/saver.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "checkpoint/folder.hpp"
#include "checkpoint/index.hpp"
#include "checkpoint/rank_file.hpp"
#include "collectives/diagnosis/texts.hpp"
#include "weft/checkpoint/checkpoint.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::checkpoint {

using namespace detail;

namespace {

/// An Error as ranks tell it to each other; a text that begins with a digit.
std::string told(const Error& error) {
  return text(static_cast<int>(error.kind()), error.problem(), '\n', error.advice());
}

Error heard(const std::string& words, const ErrorContext& context) {
  const std::size_t line = words.find('\n');
  return Error(static_cast<ErrorKind>(words.front() - '0'), words.substr(1, line - 1), words.substr(line + 1),
               context);
}

/// Empty where `body` returned, else why not.
template <class Body>
std::string reason_of(Body&& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return told(error);
  } catch (const std::exception& error) {
    return told(Error(ErrorKind::system, error.what()));
  }
}

bool is_reason(const std::string& words) {
  return !words.empty() && words.front() >= '0' && words.front() <= '9';
}

std::string file_name(int rank) {
  const std::string digits = text(rank);
  constexpr std::size_t least = 5;
  return text("rank-", std::string(least - std::min(least, digits.size()), '0'), digits, ".safetensors");
}

void check(const Values& values) {
  for (const auto& [name, value] : values) {
    const double* const number = std::get_if<double>(&value);
    if (number != nullptr && !std::isfinite(*number))
      throw Error(ErrorKind::usage, text("value ", name, " is ", *number),
                  "values are finite: JSON has no others");
  }
}

void expect_seen(const std::string& folder, const StoredFile& file, int rank) {
  struct stat there {};
  const std::string path = folder + '/' + file.name;
  if (stat(path.c_str(), &there) == 0 && static_cast<std::uint64_t>(there.st_size) == file.bytes) return;
  throw Error(ErrorKind::system, text("rank ", rank, " wrote ", path, ", and rank 0 does not see it"),
              "all ranks need the same folder: across hosts, one on a shared filesystem");
}

}  // namespace

class Saver::State {
 public:
  State(Communicator comm, std::string folder, SaverOptions options)
      : comm_(std::move(comm)), folder_(std::move(folder)), options_(options) {
    if (options_.keep_last < 0)
      throw Error(ErrorKind::usage, text("keep_last is ", options_.keep_last), "it is 0 or more");
    agree(of_rank_0([&] { files_.emplace(folder_); }));
  }

  std::string save(std::int64_t step, std::span<const Piece> pieces, const Values& values) {
    if (step < 0)
      throw Error(ErrorKind::usage, text("step ", step, " of a checkpoint"), "steps are 0 or more");
    agree(of_rank_0([&] {
      check(values);
      files_->begin(step);
    }));
    const std::string first = broadcast_text(comm_, text(step), 0);
    const auto said = gather_texts(comm_, write_mine(step, first, pieces));
    const std::string outcome = of_rank_0([&] { publish(step, said, values); });
    if (!outcome.empty() && files_) files_->discard(step);
    agree(outcome);
    if (files_ && options_.keep_last > 0) remove_older();
    return Checkpoint::path_of(folder_, step);
  }

 private:
  /// Runs `body` on rank 0. @returns its reason there, where it failed; elsewhere nothing
  template <class Body>
  std::string of_rank_0(Body&& body) {
    return comm_.rank() == 0 ? reason_of(body) : std::string();
  }
  /// Throws the reason of rank 0 on every rank.
  void agree(const std::string& reason) {
    const std::string words = broadcast_text(comm_, reason, 0);
    if (!words.empty()) throw heard(words, {comm_.rank(), "Saver", 0});
  }

  /// Its index, or why there is none.
  std::string write_mine(std::int64_t step, const std::string& first, std::span<const Piece> pieces) {
    std::string mine = text_of(Index{.step = step, .values = {}, .files = {}, .tensors = {}});
    const std::string failed = reason_of([&] {
      if (text(step) != first)
        throw Error(ErrorKind::mismatch, text("it saves step ", step, " and rank 0 step ", first),
                    "save the same step on every rank");
      if (!pieces.empty())
        mine =
            text_of(write_rank_file(draft_path(folder_, step) + '/' + file_name(comm_.rank()), step, pieces));
    });
    return failed.empty() ? mine : failed;
  }

  void publish(std::int64_t step, const std::vector<std::string>& said, const Values& values) {
    Index whole{.step = step, .values = values, .files = {}, .tensors = {}};
    for (std::size_t rank = 0; rank < said.size(); ++rank) {
      if (is_reason(said[rank])) {
        const Error why = heard(said[rank], {});
        throw Error(why.kind(), text("rank ", rank, ": ", why.problem()), why.advice());
      }
      const Index part = parse_index(said[rank], text("what rank ", rank, " wrote"));
      for (const StoredFile& file : part.files)
        expect_seen(draft_path(folder_, step), file, static_cast<int>(rank));
      add_part(whole, part);
    }
    check_complete(whole);
    files_->publish(step, text_of(whole));
  }

  // The new one is safe by then: what cannot be removed costs space only, and the next save tries again.
  void remove_older() {
    try {
      files_->keep_last(options_.keep_last);
    } catch (const std::exception& error) {
      log::warn(text("an old checkpoint stays: ", error.what()));
    }
  }

  Communicator comm_;
  std::string folder_;
  SaverOptions options_;
  std::optional<SaveFolder> files_;  // of rank 0
};

Saver::Saver(Communicator comm, std::string folder, SaverOptions options)
    : state_(std::make_unique<State>(std::move(comm), std::move(folder), options)) {}
Saver::~Saver() = default;
Saver::Saver(Saver&&) noexcept = default;

std::string Saver::save(std::int64_t step, std::span<const Piece> pieces, const Values& values) {
  return state_->save(step, pieces, values);
}

}  // namespace weft::checkpoint
