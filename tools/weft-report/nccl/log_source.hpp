#pragma once
// The lines of log files, folders and standard input, one after the other, in constant memory; a document among them comes whole.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/documents/documents.hpp"

namespace weft::report::nccl {

/// Lines longer than this are cut.
inline constexpr std::size_t longest_line = std::size_t{1} << 20;

/// @param file as messages call it. @param number of the line in it, from 1. @param line without its line feed, valid during the call
using TakeLine = std::function<void(const std::string& file, int number, std::string_view line)>;
/// @param why "is empty", "is not text"
using SkippedFile = std::function<void(const std::string& file, const std::string& why)>;
/// @param content of at most kind.most + 1 bytes: one more says that the file is longer. Valid during the call
using TakeDocument =
    std::function<void(const std::string& file, const documents::Kind& kind, std::string_view content)>;

struct InputTakers {
  TakeLine line;
  TakeDocument document;
  SkippedFile skipped;
};

/// Reads each path: a file, a folder (its files and those below it, by name), or - for standard input. A file that is empty, not text or cannot be
/// read is reported to `skipped`, and the rest is read.
/// @throws Error (usage) for a path that the user named and that is not there
void read_inputs(const std::vector<std::string>& paths, const InputTakers& take);

/// The lines of a text in memory, cut at the same length.
void read_text(std::string_view content, const std::string& file, const TakeLine& take);

/// Cuts blocks of bytes into lines. What follows the last line feed of a block waits for the next one.
class LineCutter {
 public:
  LineCutter(std::string file, TakeLine take);

  void add(std::string_view block);
  /// What waits is a line, too. @returns whether anything waited
  bool finish();

 private:
  void keep(std::string_view part);
  void emit(std::string_view line) { take_(file_, ++number_, line.substr(0, longest_line)); }

  std::string file_;
  TakeLine take_;
  std::string kept_;
  int number_ = 0;
};

}  // namespace weft::report::nccl
