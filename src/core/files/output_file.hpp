#pragma once
// A file that a program writes when its work is done, and opens before: who cannot have it hears so before hours of work, not after.
//
// It is written under another name in the same folder and then renamed. Under its own name there is either what was there before or
// all of the new content, whatever ends the program, and a full disk costs no earlier figures. What is no regular file (/dev/stdout, a pipe)
// is written as it is.

#include <string>
#include <string_view>
#include <utility>

#include "core/base/descriptor.hpp"

namespace weft::detail {

class OutputFile {
 public:
  /// @param called what errors call it: "--json run.json"
  /// @throws Error (usage) "--json run.json: cannot write it: Permission denied"
  OutputFile(const std::string& path, std::string called);
  OutputFile(OutputFile&& other) noexcept
      : path_(std::move(other.path_)),
        called_(std::move(other.called_)),
        draft_(std::exchange(other.draft_, {})),
        file_(std::move(other.file_)) {}
  OutputFile& operator=(OutputFile&&) = delete;
  /// What was not written leaves nothing behind.
  ~OutputFile() { discard(); }

  /// All of the content, once. @throws Error (system) naming the file; it is then what it was before
  void write(std::string_view content) {
    add(content);
    finish();
  }
  /// The same in parts, for content that need not be in memory: the file has it when finish() returns.
  void add(std::string_view content);
  void finish();
  /// Leaves the file as it was; nothing more can be written.
  void discard() noexcept;

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_;  // where links point to
  std::string called_;
  std::string draft_;  // the other name; empty where there is none
  Descriptor file_;
};

/// All of a file or folder is on the disk. False with errno set
bool is_flushed(int file);

/// All of it, though it take several calls. @param called what errors call it
/// @throws Error (system) "cannot write NAME: No space left on device", beyond `ulimit -f` too
void write_all(int file, std::string_view content, const std::string& called);

}  // namespace weft::detail
