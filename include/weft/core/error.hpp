#pragma once
// The one exception type of weft.
//
// Every failure is thrown as a weft::Error. It says what happened, with the values that were compared, on
// which rank and in which operation, and what to do about it. what() is a single line, ready to print.
// Destructors of weft do not throw. An Error may be copied and rethrown on any thread.
//
//   try { train(); }
//   catch (const weft::Error& error) {
//     std::cerr << error.what() << '\n';
//     return weft::exit_code(error.kind());   // 42: do not retry; 75: try again; 70: weft or system failed
//   }
//
// WRONG: catching an Error in the middle of a step and using the same communicator again. After a timeout, a
// mismatch or a lost peer the ranks no longer agree on the next operation: make a new communicator.

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "weft/core/text.hpp"

namespace weft {

enum class ErrorKind : std::uint8_t {
  usage,      ///< wrong argument, option, variable or order of calls
  mismatch,   ///< ranks disagree on what they do together
  timeout,    ///< a deadline passed; the message names who is missing
  peer_lost,  ///< another rank died, failed or left
  system,     ///< the operating system or a vendor library refused
  internal,   ///< a defect of weft
};

const char* name(ErrorKind kind) noexcept;

/// Status a program ends with: 42 (usage, mismatch), 75 (timeout, peer_lost), 70 (system, internal).
int exit_code(ErrorKind kind) noexcept;

/// A place in the source: std::source_location, which Clang before version 15 lacks.
class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  constexpr const char* file_name() const { return file_; }
  constexpr int line() const { return line_; }

 private:
  constexpr SourceLocation(const char* file, int line) : file_(file), line_(line) {}

  const char* file_;
  int line_;
};

/// Where in the training job an error happened. Defaults mean "not known".
struct ErrorContext {
  int rank = -1;
  std::string operation;     ///< e.g. "all_reduce"
  std::uint64_t number = 0;  ///< its number in the communicator, from 1
};

class Error : public std::exception {
 public:
  /// @param problem what happened, with the values; no trailing full stop
  /// @param advice what the reader can do; may be empty
  Error(ErrorKind kind, std::string problem, std::string advice = {}, ErrorContext context = {},
        SourceLocation where = SourceLocation::current());

  // Copies share their text, so copying does not throw. There is no move, which would leave an empty Error.
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override = default;

  const char* what() const noexcept override { return parts_->line.c_str(); }
  ErrorKind kind() const noexcept { return parts_->kind; }
  const ErrorContext& context() const noexcept { return parts_->context; }
  const std::string& problem() const noexcept { return parts_->problem; }
  const std::string& advice() const noexcept { return parts_->advice; }
  const SourceLocation& where() const noexcept { return parts_->where; }

  /// The same error, whose context gains the parts of `context` that it lacked.
  Error in(const ErrorContext& context) const;

  /// The Error that unwinds this thread's stack, for destructors that report why they run. nullopt where
  /// nothing unwinds, or an exception that is no Error. Of several Errors that are alive it is the newest one
  /// of this thread, also where the program keeps it and another exception unwinds.
  static std::optional<Error> in_flight() noexcept;

 private:
  struct Parts {
    ErrorKind kind;
    std::string problem;
    std::string advice;
    ErrorContext context;
    SourceLocation where;
    std::string line{};
  };
  explicit Error(Parts parts);
  explicit Error(std::shared_ptr<const Parts> parts) noexcept : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

/// What an exception of any library says: what(), without the place in that library's source that Boost ("[system:24 at
/// /usr/include/...]") and torch ("Exception raised from ...") add to it. An Error's own line as it is.
std::string message_of(const std::exception& error);

/// That of an Error's kind; 70 for any other exception.
int exit_code(const std::exception& error) noexcept;

/// An Error of kind system from errno: "problem: No such file or directory". Without an advice, a full disk and a limit of files have the
/// usual one.
Error system_error(const std::string& problem, const std::string& advice = {},
                   SourceLocation where = SourceLocation::current());

}  // namespace weft
