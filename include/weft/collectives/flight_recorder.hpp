#pragma once
// What this rank has been doing, kept in memory and written out when something goes wrong.
//
// Every communicator keeps its newest operations, at the price of a few stores each: number, kind, count,
// data type, and when they were issued, begun and over. A rank writes its record when an operation fails, a
// deadline passes, the rank gives up, or an exception leaves the communicator behind. It writes a file
// `rank-R.json` into the job's folder, over an earlier one; `weft-report flight FOLDER` merges the files of
// all ranks and names the culprit. connect() makes the recorder: WEFT_FLIGHT_DIR is the folder, or off. Any
// thread may ask it.
//
//   FlightRecorder::dump_on_sigusr2();             // kill -USR2 of a rank that hangs: it writes and goes on
//   auto comm = connect(World::from_environment());
//   ...
//   comm.flight_recorder()->dump("before the risky part");
//
// WRONG: FlightRecorder::dump_on_sigusr2() where the program has its own handler of that signal: it is
// replaced.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/error.hpp"

namespace weft {

/// How far a part of the program is, for the record. Called from any thread.
class FlightNote {
 public:
  virtual ~FlightNote() = default;
  /// {"track": "gradients", "step": 17, "waits_for": ["block.3.weight"], "waits_for_count": 1}
  virtual std::string json() const = 0;
};

class FlightRecorder {
 public:
  /// @param folder made when the first file is written; empty: none ever is
  FlightRecorder(int rank, int size, std::string folder);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  const std::string& folder() const { return folder_; }
  /// Writes what is known now. What keeps it from that is logged. @param reason "error", "signal" or the
  /// program's own word
  void dump(std::string_view reason) noexcept;
  std::string json(std::string_view reason) const;

  /// The first error of this rank counts, for it tells who began.
  void raised(const Error& error) noexcept;
  /// Parts of the record, as long as they live.
  void add(std::weak_ptr<const FlightNote> note);
  void add_communicator(std::weak_ptr<const FlightNote> operations);

  /// "node0-4711-3fa9c1": this host and process, as a name that a file can have. Random digits follow, for a later process may have the
  /// same number.
  static std::string process_name();
  /// From now on, SIGUSR2 makes every recorder of this process write, and the process goes on.
  /// @throws Error (system)
  static void dump_on_sigusr2();

 private:
  struct Raised {
    Error error;
    std::int64_t at;  // steady clock, nanoseconds
  };

  const int rank_;
  const int size_;
  const std::string folder_;
  mutable std::mutex mutex_;
  std::mutex writing_;
  bool has_told_of_error_ = false;
  std::optional<Raised> raised_;
  std::vector<std::weak_ptr<const FlightNote>> notes_;
  std::vector<std::weak_ptr<const FlightNote>> communicators_;
};

}  // namespace weft
