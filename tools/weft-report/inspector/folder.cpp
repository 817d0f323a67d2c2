#include "weft-report/inspector/folder.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "weft/core/error.hpp"

namespace weft::report::inspector {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
constexpr std::size_t most_files = 200000;
constexpr std::size_t most_prometheus = std::size_t{16} << 20;
constexpr std::uint64_t bytes_of_record = 300;  // of the shortest: 330 in 2.28, 350 in 2.30
constexpr const char* use = "name the folder of NCCL_INSPECTOR_DUMP_DIR: weft-report inspector DIR";

struct OneFile {
  std::string path{};
  FileRecords records{};
  std::vector<Mean> means{};
  bool is_ours = false;
  std::string note{};
};

bool is_object(std::string_view start) {
  const auto begin = start.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && start[begin] == '{';
}

std::string other_note(std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return "is compressed: run gunzip on it first";
  if (start.find("NCCL INFO") != std::string_view::npos || start.find("NCCL WARN") != std::string_view::npos)
    return "is a log of NCCL, not of its Inspector: name it after the folder";
  return "is no output of NCCL's Inspector";
}

std::string bad_note(int lines, int first, const std::string& problem) {
  if (lines == 0) return {};
  return text("line ", first, ' ', problem,
              lines > 1 ? text(", and ", lines - 1, " more lines are wrong") : std::string(),
              "; the others are read");
}

void read_prometheus(std::ifstream& in, std::string content, OneFile& file) {
  std::vector<char> chunk(chunk_bytes);
  while (content.size() <= most_prometheus &&
         in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())).gcount() > 0)
    content.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
  if (content.size() > most_prometheus) {
    file.note = "has more than 16 MiB, which Inspector's metrics of a GPU never have";
    return;
  }
  Metrics metrics = read_metrics(content);
  file.means = std::move(metrics.means);
  file.note = bad_note(metrics.bad_lines, metrics.first_bad, metrics.problem);
  if (file.note.empty() && metrics.cut) file.note = "its last line is cut: it was being written";
}

void read_file(OneFile& file, std::uint32_t stride) {
  std::error_code error;
  if (!fs::is_regular_file(file.path, error)) {
    file.note = "is no regular file";
    return;
  }
  std::ifstream in(file.path, std::ios::binary);
  if (!in) {
    file.note = text("cannot be read: ", std::strerror(errno));
    return;
  }
  std::vector<char> chunk(chunk_bytes);
  in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
  std::string_view got(chunk.data(), static_cast<std::size_t>(in.gcount()));
  if (got.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    file.note = "is empty: nothing was written yet";
    file.is_ours = true;
    return;
  }
  if (opens_metrics(got)) {
    file.is_ours = true;
    return read_prometheus(in, std::string(got), file);
  }
  if (!is_object(got)) {
    file.note = other_note(got);
    return;
  }
  Reader reader(stride);
  while (!got.empty()) {
    reader.take(got);
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    got = {chunk.data(), static_cast<std::size_t>(in.gcount())};
  }
  file.records = reader.finish();
  if (file.records.objects == 0 && !file.records.cut) {
    file.note =
        text("is no output of NCCL's Inspector: line ", file.records.first_bad, ' ', file.records.problem);
    return;
  }
  file.is_ours = file.records.objects > 0 || file.records.cut;
  file.note = bad_note(file.records.bad_lines, file.records.first_bad, file.records.problem);
  if (file.records.cut)
    file.note += text(file.note.empty() ? "" : "; ", "its last object is cut: it was being written");
}

std::vector<OneFile> files_below(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    throw Error(ErrorKind::usage, text(path, ": there is no such folder or file"), use);
  std::vector<OneFile> files;
  if (!fs::is_directory(status)) {
    files.push_back({.path = path});
    return files;
  }
  auto at = fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && files.size() < most_files;
       at.increment(error)) {
    std::error_code of_entry;
    if (!at->is_directory(of_entry)) files.push_back({.path = at->path().string()});
  }
  if (error) throw Error(ErrorKind::usage, text(path, ": the folder cannot be read: ", error.message()), use);
  std::ranges::sort(files, {}, &OneFile::path);
  return files;
}

std::uint32_t stride_of(const std::vector<OneFile>& files, std::uint64_t most_records) {
  std::uint64_t bytes = 0;
  for (const OneFile& file : files) {
    std::error_code error;
    const auto size = fs::file_size(file.path, error);
    if (!error) bytes += size;
  }
  const std::uint64_t times = bytes / bytes_of_record / std::max<std::uint64_t>(most_records, 1);
  return static_cast<std::uint32_t>(
      std::bit_ceil(std::clamp<std::uint64_t>(times + (times > 0), 1, 1U << 30)));
}

}  // namespace

Job read_folder(const std::string& path, const Limits& limits) {
  std::vector<OneFile> files = files_below(path);
  const std::uint32_t stride = stride_of(files, limits.most_records);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      try {
        read_file(files[i], stride);
      } catch (const std::exception& error) {
        files[i].note = text("cannot be read: ", message_of(error));
      }
    }
  };
  const unsigned cores =
      limits.threads > 0 ? limits.threads : std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min<std::size_t>(cores, files.size()); ++i) threads.emplace_back(work);
    work();
  }
  std::vector<FileRecords> records;
  std::vector<Mean> means;
  std::vector<std::string> notes;
  std::size_t metrics = 0;
  bool any = false;
  for (OneFile& file : files) {
    if (!file.note.empty()) notes.push_back(text(file.path, ": ", file.note));
    any = any || file.is_ours;
    if (!file.means.empty()) ++metrics;
    std::ranges::move(file.means, std::back_inserter(means));
    if (file.records.objects > 0) records.push_back(std::move(file.records));
    file = {};
  }
  if (!any)
    throw Error(ErrorKind::usage,
                files.size() == 1 && !notes.empty()
                    ? notes.front()
                    : text(path, ": none of ", files.size(), " files is output of NCCL's Inspector"),
                use);
  Job job = job_of(std::move(records));
  job.files += metrics;
  job.means = std::move(means);
  job.notes = std::move(notes);
  return job;
}

}  // namespace weft::report::inspector
