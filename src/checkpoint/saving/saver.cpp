// Steps of a save: rank 0 makes the draft folder; every rank writes and flushes its file; rank 0 gathers what each wrote, looks
// whether it sees their files and whether the tensors are whole, writes the index and renames the folder; all hear how it went.
// Messages beside the files: the index, once to rank 0, and a reason from there.
//
// A save behind the training does the same in a separate thread over a separate communicator, so that it and the operations of the training
// do not wait for each other. The training waits for the thread before it changes what is saved (SharedPieces), and in the next save.

#include "weft/checkpoint/saver.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "checkpoint/index.hpp"
#include "checkpoint/saving/folder.hpp"
#include "checkpoint/saving/rank_file.hpp"
#include "checkpoint/saving/shared_pieces.hpp"
#include "collectives/diagnosis/agree.hpp"
#include "collectives/diagnosis/used_by_one.hpp"
#include "core/memory/per_process.hpp"
#include "weft/checkpoint/checkpoint.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::checkpoint {

using namespace detail;

namespace {

std::string file_name(int rank) {
  const std::string digits = text(rank);
  constexpr std::size_t least = 5;
  return text("rank-", std::string(least - std::min(least, digits.size()), '0'), digits, ".safetensors");
}

void check(std::int64_t step, const Values& values) {
  if (step < 0) throw Error(ErrorKind::usage, text("step ", step, " of a checkpoint"), "steps are 0 or more");
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

class Saver::State : public std::enable_shared_from_this<State> {
  /// A save behind the training, shared by the training and the thread.
  class Running {
   public:
    Running(std::int64_t of_step, std::vector<Piece> saved, const SaverOptions& options,
            std::chrono::nanoseconds timeout)
        : step(of_step), pieces(std::move(saved), options.copy_at_most, timeout) {}

    /// Runs `body` in the thread; its Error is kept.
    template <class Body>
    void run(const Body& body) noexcept {
      std::optional<Error> why;
      try {
        body();
      } catch (const Error& error) {
        why = error;
      }
      pieces.end();
      const std::lock_guard lock(mutex_);
      failed_ = std::move(why);
      is_over_ = true;
      over_.notify_all();
    }
    bool is_over() const {
      const std::lock_guard lock(mutex_);
      return is_over_;
    }
    /// @param timeout how long the thread waits for other ranks. This waits longer, so that the thread can report who is late
    bool wait(std::chrono::nanoseconds timeout) {
      constexpr int most_waits = 5;
      std::unique_lock lock(mutex_);
      const auto is_over = [&] { return is_over_; };
      if (over_.wait_for(lock, 2 * timeout, is_over)) return true;
      return !is_writing && over_.wait_for(lock, most_waits * timeout, is_over);
    }
    /// The error of the save. Call it when the save is over.
    const std::optional<Error>& failed() const { return failed_; }

    const std::int64_t step;
    /// Whether the thread works on this rank's own part. Otherwise it waits for other ranks, with a deadline that names the late ones.
    std::atomic<bool> is_writing = false;
    SharedPieces pieces;
    std::thread thread{};

   private:
    mutable std::mutex mutex_;
    std::condition_variable over_;
    bool is_over_ = false;
    std::optional<Error> failed_{};
  };

 public:
  State(Communicator comm, std::string folder, SaverOptions options)
      : users_("Saver", comm), comm_(std::move(comm)), folder_(std::move(folder)), options_(options) {
    if (options_.keep_last < 0)
      throw Error(ErrorKind::usage, text("keep_last is ", options_.keep_last), "it is 0 or more");
    if (options_.timeout && options_.timeout->count() <= 0)
      throw Error(ErrorKind::usage, text("a timeout of ", options_.timeout->count(), " ns"),
                  "it is positive");
    on_rank_0(comm_, "Saver", [&] { files_.emplace(folder_); });
  }

  weft::detail::OneThread::Turn turn(const char* call) { return users_.enter(call); }

  std::string save(std::int64_t step, std::span<const Piece> pieces, const Values& values) {
    (void)finish();
    PieceReader reader(pieces);
    std::atomic<bool> is_writing = false;
    save_over(comm_, step, reader, values, is_writing);
    return Checkpoint::path_of(folder_, step);
  }

  void begin(std::int64_t step, checkpoint::State state) {
    (void)finish();
    if (!side_) side_ = side();
    auto running = std::make_shared<Running>(step, std::move(state.pieces), options_, timeout());
    running->thread = std::thread([self = shared_from_this(), running, values = std::move(state.values)] {
      running->run([&] { self->save_behind(*running, values); });
    });
    running_ = running;
    if (!state.before_change) return;
    *state.before_change = [before = std::move(*state.before_change), running] {
      if (before) before();  // another Saver's
      running->pieces.release();
    };
  }

  void release() noexcept {
    if (running_) running_->pieces.release();
  }

  bool is_saving() const { return running_ && !running_->is_over(); }

  std::string finish() {
    expect_here();
    if (!running_) return {};
    if (!running_->wait(timeout()))
      throw Error(ErrorKind::timeout, late(), "look whether its disk answers", {comm_.rank(), "Saver", 0});
    const auto running = std::exchange(running_, nullptr);
    running->thread.join();
    if (running->failed()) throw Error(*running->failed());
    return Checkpoint::path_of(folder_, running->step);
  }

  void close() noexcept {
    if (!running_) return;
    if (!origin_.is_here())
      return weft::detail::keep_for_ever(std::move(running_));  // its thread is the parent's
    if (running_->wait(timeout())) {
      running_->thread.join();
      return;
    }
    try {
      log::error(text(late(), "; it is left behind"));
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the line
    }
    running_->pieces.release();
    running_->thread.detach();
  }

 private:
  /// Rank 0 writes to the folder before it hears of others.
  void expect_here() const {
    if (origin_.is_here()) return;
    throw origin_.misuse("the Saver", "save in the parent", {comm_.rank(), "Saver", 0});
  }
  void save_over(Communicator& comm, std::int64_t step, PieceReader& pieces, const Values& values,
                 std::atomic<bool>& is_writing) {
    const std::string first = on_rank_0(comm, "Saver", [&] {
      check(step, values);
      files_->begin(step);
      return text(step);
    });
    is_writing = true;
    const Outcome mine = Outcome::of([&] { return write_mine(step, first, pieces); });
    is_writing = false;
    const auto said = gather_texts(comm, mine.words());
    on_rank_0(comm, "Saver", [&] { publish(step, said, values); });
    if (files_ && options_.keep_last > 0) remove_older(step);
  }

  void save_behind(Running& running, const Values& values) {
    try {
      save_over(*side_, running.step, running.pieces, values, running.is_writing);
    } catch (const std::exception& error) {
      if (comm_.rank() == 0) log::warn(text("no checkpoint of step ", running.step, ": ", message_of(error)));
      if (dynamic_cast<const Error*>(&error) != nullptr) throw;
      throw Error(ErrorKind::system, message_of(error), "", {comm_.rank(), "Saver", 0});
    }
  }

  std::chrono::nanoseconds timeout() const { return options_.timeout.value_or(comm_.timeout()); }
  std::string late() const {
    return text("rank ", comm_.rank(), " has not finished its part of ", draft_path(folder_, running_->step),
                " after ", std::chrono::duration<double>(2 * timeout()).count(), " s");
  }

  /// For the thread. Waiting for a disk is no slow rank.
  Communicator side() {
    if (!comm_.any_thread())
      throw Error(ErrorKind::usage,
                  "a save behind the training needs a thread, and MPI was initialised for one only",
                  "initialise it with MPI_THREAD_SERIALIZED or more, or call save()");
    Communicator own = *comm_.split(0, comm_.rank());
    own.timeout(timeout());
    own.slow_after(timeout());
    return own;
  }

  /// @returns its index
  std::string write_mine(std::int64_t step, const std::string& first, PieceReader& pieces) {
    if (text(step) != first)
      throw Error(ErrorKind::mismatch, text("it saves step ", step, " and rank 0 step ", first),
                  "save the same step on every rank");
    if (pieces.pieces().empty())
      return text_of(Index{.step = step, .values = {}, .files = {}, .tensors = {}});
    return text_of(write_rank_file(draft_path(folder_, step) + '/' + file_name(comm_.rank()), step, pieces));
  }

  /// On rank 0. @param said the outcomes of write_mine(), by rank
  void publish(std::int64_t step, const std::vector<std::string>& said, const Values& values) {
    try {
      files_->publish(index_of_all(step, said, values));
    } catch (...) {
      files_->discard(step);
      throw;
    }
  }

  Index index_of_all(std::int64_t step, const std::vector<std::string>& said, const Values& values) const {
    Index whole{.step = step, .values = values, .files = {}, .tensors = {}};
    int rank = 0;
    for (const std::string& written : notes_of(said, {})) {
      const Index part = parse_index(written, text("what rank ", rank, " wrote"));
      for (const StoredFile& file : part.files) expect_seen(draft_path(folder_, step), file, rank);
      add_part(whole, part);
      ++rank;
    }
    check_complete(whole);
    return whole;
  }

  // The new one is safe by then: what cannot be removed costs space only, and the next save tries again.
  void remove_older(std::int64_t newest) {
    try {
      files_->keep_last(options_.keep_last, newest);
    } catch (const std::exception& error) {
      log::warn(text("an old checkpoint stays: ", message_of(error)));
    }
  }

  const weft::detail::Origin origin_;
  weft::detail::UsedByOne users_;
  Communicator comm_;
  std::string folder_;
  SaverOptions options_;
  std::optional<SaveFolder> files_;     // of rank 0
  std::optional<Communicator> side_{};  // once a save was begun
  std::shared_ptr<Running> running_{};  // until it was waited for
};

Saver::Saver(Communicator comm, std::string folder, SaverOptions options)
    : state_(std::make_shared<State>(std::move(comm), std::move(folder), options)) {}
Saver::~Saver() {
  if (state_) state_->close();
}
Saver::Saver(Saver&&) noexcept = default;

std::string Saver::save(std::int64_t step, std::span<const Piece> pieces, const Values& values) {
  const auto turn = state_->turn("save");
  return state_->save(step, pieces, values);
}
void Saver::begin(std::int64_t step, checkpoint::State state) {
  const auto turn = state_->turn("begin");
  state_->begin(step, std::move(state));
}
void Saver::release() noexcept {
  state_->release();
}
bool Saver::is_saving() const {
  return state_->is_saving();
}
std::string Saver::finish() {
  const auto turn = state_->turn("finish");
  return state_->finish();
}

}  // namespace weft::checkpoint
