#include "weft-report/nccl/log_source.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/files/input_file.hpp"
#include "weft-report/documents/start.hpp"
#include "weft/core/error.hpp"

namespace weft::report::nccl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t block_bytes = documents::start_bytes;

/// What follows the first block, up to `most` bytes in all.
std::string read_rest(detail::InputFile& file, std::string content, std::size_t most) {
  while (content.size() < most) {
    const std::size_t had = content.size();
    content.resize(std::min(most, std::max(2 * had, block_bytes)));
    const std::size_t count = file.read(content.data() + had, content.size() - had);
    const bool ended = had + count < content.size();
    content.resize(had + count);
    if (ended) break;
  }
  return content;
}

/// Whether the first bytes of a file are those of something else: compressed, a program, a pickle.
bool is_binary(std::string_view start) {
  const std::string_view head = start.substr(0, 4096);
  return head.find('\0') != std::string_view::npos || head.starts_with("\x1f\x8b");
}

/// @return whether it was one, and was handed on
bool read_document(detail::InputFile& file, std::string_view start, const std::string& called,
                   const TakeDocument& take) {
  const documents::Kind* kind = documents::kind_of(start);
  if (kind == nullptr) return false;
  const std::string whole =
      start.size() < block_bytes ? std::string(start) : read_rest(file, std::string(start), kind->most + 1);
  take(called, *kind, whole);
  return true;
}

void read_file(const std::string& path, detail::Source source, const InputTakers& take) {
  const std::string called = path == "-" ? "standard input" : path;
  detail::InputFile file(path == "-" ? "/dev/stdin" : path, source);
  if (!file.is_open()) return take.skipped(called, text("cannot be read: ", file.problem()));
  LineCutter cutter(called, take.line);
  std::string block(block_bytes, '\0');
  bool first = true;
  try {
    for (std::size_t count = 0; (count = file.read(block.data(), block.size())) > 0; first = false) {
      const std::string_view bytes = std::string_view(block).substr(0, count);
      if (first && read_document(file, bytes, called, take.document)) return;
      if (first && is_binary(bytes))
        return take.skipped(called, "is not text; decompress it, or leave it out");
      cutter.add(bytes);
    }
  } catch (const Error& error) {
    cutter.finish();
    return take.skipped(called, error.problem());
  }
  cutter.finish();
  if (first) take.skipped(called, "is empty");
}

/// The regular files in a folder and below it, by name. Links to folders are not followed: they may lead in a circle.
std::vector<std::string> files_below(const std::string& folder, const SkippedFile& skipped) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) files.push_back(at->path().string());
  }
  if (error) skipped(folder, text("cannot be read: ", error.message()));
  std::ranges::sort(files);
  if (files.empty() && !error) skipped(folder, "has no file");
  return files;
}

}  // namespace

void read_inputs(const std::vector<std::string>& paths, const InputTakers& take) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (path != "-" && !fs::exists(path, ignored))
      throw Error(ErrorKind::usage, text("there is no '", path, "'"),
                  "name files, folders, or - for standard input");
    if (path == "-" || !fs::is_directory(path, ignored)) {
      read_file(path, detail::Source::file_or_pipe, take);
      continue;
    }
    for (const std::string& file : files_below(path, take.skipped))
      read_file(file, detail::Source::file, take);
  }
}

void read_text(std::string_view content, const std::string& file, const TakeLine& take) {
  LineCutter cutter(file, take);
  cutter.add(content);
  cutter.finish();
}

LineCutter::LineCutter(std::string file, TakeLine take) : file_(std::move(file)), take_(std::move(take)) {}

void LineCutter::add(std::string_view block) {
  while (!block.empty()) {
    const auto end = block.find('\n');
    if (end == std::string_view::npos) return keep(block);
    if (kept_.empty()) {
      emit(block.substr(0, end));
    } else {
      keep(block.substr(0, end));
      emit(kept_);
      kept_.clear();
    }
    block.remove_prefix(end + 1);
  }
}

bool LineCutter::finish() {
  if (kept_.empty()) return false;
  emit(kept_);
  kept_.clear();
  return true;
}

void LineCutter::keep(std::string_view part) {
  kept_ += part.substr(0, std::min(part.size(), longest_line - std::min(kept_.size(), longest_line)));
}

}  // namespace weft::report::nccl
