#pragma once
// Reads files of others: what a user names, what lies in a folder, what a checkpoint has. Under such a path may be anything: a folder, a
// pipe without a writer, a device. It is looked at before it is opened, opened without waiting, and looked at again, so that no path makes
// a process wait for ever, or a device do something.
//
//   const std::string table = read_input(path, "--compare " + path, {.source = Source::file_or_pipe});
//   InputFile file(path);                                     // in parts
//   if (!file.is_open()) throw Error(ErrorKind::system, text("cannot read ", path, ": ", file.problem()));
//
// Signals interrupt no read. Errors say a path whole; what a line of text may hold is core/base/strings.hpp's.

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/descriptor.hpp"

namespace weft::detail {

/// More than any file that weft writes for itself to read.
inline constexpr std::size_t most_input_bytes = std::size_t{64} << 20;

enum class Source : std::uint8_t {
  file,  ///< a regular file: what lies in a folder or belongs to a checkpoint, and what every rank reads
  /// What the user of one process names: a pipe, too, such as <(zcat run.json.gz), and /dev/stdin, whatever that is. A pipe under a
  /// name that no process opens to write within 2 s is refused.
  file_or_pipe,
};

class InputFile {
 public:
  /// Does not throw where there is no such file: see problem().
  explicit InputFile(const std::string& path, Source source = Source::file);

  bool is_open() const { return file_.get() >= 0; }
  int descriptor() const { return file_.get(); }
  /// Why it is not open: "No such file or directory", "it is a pipe; name a regular file". Empty where it is.
  const std::string& problem() const { return problem_; }
  /// There is nothing under the path.
  bool is_missing() const { return is_missing_; }
  /// The length of a regular file when it was opened; else 0.
  std::uint64_t bytes() const { return bytes_; }

  /// Fills the space with what comes next. @returns how many bytes; less than `size` at the end of the file only. @throws Error (system)
  std::size_t read(char* space, std::size_t size);
  /// The same from a place in a regular file.
  std::size_t read_at(std::uint64_t at, char* space, std::size_t size) const;

 private:
  void take(int file, Source source);
  bool wait(int ms) const;

  Descriptor file_;
  std::string problem_{};
  std::uint64_t bytes_ = 0;
  bool is_missing_ = false;
  bool awaits_writer_ = false;  // a pipe with a name, and no writer was seen
  bool waited_ = false;         // for that
};

struct InputLimits {
  std::size_t most = most_input_bytes;
  Source source = Source::file;
};

/// All of it. Takes memory for what is there, not for what may be.
/// @param called what errors call it: "--compare run.json"
/// @throws Error (usage) "--compare run.json: cannot read it: Is a directory", "...: it has more than 67108864 bytes"; (system) where there is
/// no memory for what it has
std::string read_input(const std::string& path, const std::string& called, InputLimits limits = {});

}  // namespace weft::detail
