#include "watch_sources.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "core/base/fnv.hpp"
#include "weft-report/flight/flight.hpp"
#include "weft-report/inspector/folder.hpp"
#include "weft-report/inspector/inspector.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft-report/torch_records/dump.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace watched {  // its types are members of WatchSources::State

using Clock = std::chrono::steady_clock;

/// What files say, and what keeps them from being read.
struct Read {
  std::vector<ras::RasFinding> findings{};
  std::vector<std::string> problems{};
};

std::vector<ras::RasFinding> plain(const std::vector<Finding>& findings) {
  std::vector<ras::RasFinding> all;
  for (const Finding& one : findings) {
    if (one.severity != Severity::notice) all.push_back({.finding = one});
  }
  return all;
}

/// Files that are read again when they have changed, and seldom enough to cost next to nothing.
class Source {
 public:
  using Reader = std::function<Read()>;
  /// @param settle whether files that are there already are another job's, and those that were just written are left alone until the next look, for
  /// a part of them says something else
  Source(std::string name, std::vector<std::string> paths, bool settle, Reader read)
      : name_(std::move(name)), paths_(std::move(paths)), settle_(settle), read_(std::move(read)) {
    if (settle_) state_ = state_of_files();  // what is there already is of an earlier job
  }

  const std::string& name() const { return name_; }

  /// @param last whether no look follows @returns what the files say; none where they say what they said before
  std::optional<std::vector<ras::RasFinding>> look(bool last) {
    const Clock::time_point begin = Clock::now();
    if (begin < next_ && !last) return std::nullopt;
    const std::uint64_t state = state_of_files();
    const bool is_settled = std::exchange(seen_, state) == state;
    if (state == state_ || (settle_ && !is_settled && !last)) return std::nullopt;
    std::optional<std::vector<ras::RasFinding>> found;
    try {
      Read read = read_();
      state_ = state;
      trouble_.clear();
      for (std::string& one : read.problems) say(one);
      found = std::move(read.findings);
    } catch (const Error& error) {
      // A file is being written, or gone for the moment: the next look reads it. What is the same twice is said.
      if (std::exchange(trouble_, error.problem()) == error.problem()) say(trouble_);
    }
    constexpr int share = 200;  // of the time, at most
    next_ = Clock::now() + share * (Clock::now() - begin);
    return found;
  }

  /// What has kept files from being read since the last call; each is said once.
  std::vector<std::string> problems() { return std::exchange(problems_, {}); }

 private:
  void say(const std::string& problem) {
    if (said_.insert(problem).second) problems_.push_back(problem);
  }

  /// Changes when a file comes, goes, grows or is written anew.
  std::uint64_t state_of_files() const {
    detail::Fnv state;
    std::error_code error;
    const auto add = [&](const std::filesystem::path& path) {
      std::error_code none;
      const auto size = std::filesystem::file_size(path, none);
      const auto written = std::filesystem::last_write_time(path, none).time_since_epoch().count();
      state.add(path.native()).add(static_cast<std::int64_t>(size)).add(static_cast<std::int64_t>(written));
    };
    for (const std::string& path : paths_) {
      add(path);
      if (!std::filesystem::is_directory(path, error)) continue;
      std::vector<std::filesystem::path> files;
      for (auto one = std::filesystem::recursive_directory_iterator(path, error);
           !error && one != std::filesystem::recursive_directory_iterator(); one.increment(error))
        files.push_back(one->path());
      std::ranges::sort(files);
      for (const auto& one : files) add(one);
    }
    return state.value();
  }

  std::string name_;
  std::vector<std::string> paths_;
  bool settle_;
  Reader read_;
  std::uint64_t state_ = 0;  ///< of the files that were read last
  std::uint64_t seen_ = 0;   ///< at the last look
  Clock::time_point next_{};
  std::string trouble_{};
  std::vector<std::string> problems_{};
  std::set<std::string> said_{};
};

Read read_records(const std::string& folder) {
  const auto of_torch = torch_records::read_dumps(folder);
  if (!of_torch.empty()) return {.findings = plain(torch_records::examine_torch(of_torch))};
  if (!has_flights(folder)) return {};
  std::vector<Finding> findings = examine(read_flights(folder));
  if (findings.size() > 1) findings.resize(1);  // the most likely cause; the others may follow from it
  return {.findings = plain(findings)};
}

Read read_all_logs(const std::vector<std::string>& paths) {
  nccl::JobLog log;
  Read all;
  for (std::string& one : log.read(paths)) {
    // A log may be empty for a while, or not be there yet.
    if (!one.ends_with("is empty") && !one.ends_with("has no file")) all.problems.push_back(std::move(one));
  }
  all.findings = plain(nccl::examine(log.job()));
  return all;
}

bool has_content(const std::string& folder) {
  std::error_code error;
  for (auto one = std::filesystem::recursive_directory_iterator(folder, error);
       !error && one != std::filesystem::recursive_directory_iterator(); one.increment(error)) {
    std::error_code of_entry;
    if (one->is_regular_file(of_entry) && one->file_size(of_entry) > 0 && !of_entry) return true;
  }
  return false;
}

/// What Inspector wrote so far, and whether it goes on.
class InspectorFiles {
 public:
  explicit InspectorFiles(std::string folder) : folder_(std::move(folder)) {}

  Read read() {
    if (!has_content(folder_)) return {};
    const inspector::Job job = inspector::read_folder(folder_);
    if (job.records != records_) grown_ = true;
    records_ = job.records;
    Read all;
    for (inspector::Named& one : inspector::conclude(job, {}).findings) {
      if (one.finding.severity == Severity::notice) continue;
      all.findings.push_back(
          {std::move(one.finding), std::move(one.communicator), {one.ranks.begin(), one.ranks.end()}, {}});
    }
    return all;
  }

  /// A notice where no operation has ended for so long: Inspector does not say whether anybody waits for one.
  std::vector<ras::RasFinding> standstill(double now, double patience) {
    if (std::exchange(grown_, false)) grown_at_ = now;
    if (records_ == 0 || now - grown_at_ < patience) return {};
    ras::RasFinding one;
    one.finding = {.cause = "no-progress",
                   .severity = Severity::notice,
                   .confidence = 0.5,
                   .verdict = text("no operation that Inspector writes has ended for ", patience, " s"),
                   .fix =
                       "ask who hangs: weft-report ras --every 10; or the job does something else now, such "
                       "as a checkpoint"};
    return {one};
  }

 private:
  std::string folder_;
  std::uint64_t records_ = 0;
  bool grown_ = false;
  double grown_at_ = 0;
};

/// What was written to standard input, of whatever length: what it says is kept, not its text.
class Heard {
 public:
  void hear(std::string_view piece) {
    feed_.add(piece);
    is_new_ = true;
  }

  /// @param last whether no look follows @returns whether there is something to say
  bool look(SourceRead& one, bool last) {
    if (last && feed_.finish()) is_new_ = true;
    if (!std::exchange(is_new_, false)) return false;
    one.findings = plain(nccl::examine(log_.job()));
    return true;
  }

 private:
  nccl::JobLog log_{};
  nccl::LogFeed feed_{log_, "standard input"};
  bool is_new_ = false;
};

}  // namespace watched

struct WatchSources::State {
  watched::Heard heard{};
  std::vector<watched::Source> sources{};
  std::optional<watched::InspectorFiles> inspector{};
};

WatchSources::WatchSources(const WatchOptions& options) : state_(std::make_unique<State>()) {
  auto& all = state_->sources;
  if (!options.logs.empty())
    all.emplace_back("logs", options.logs, false,
                     [paths = options.logs] { return watched::read_all_logs(paths); });
  if (!options.records.empty())
    all.emplace_back("flight records", std::vector{options.records}, true,
                     [folder = options.records] { return watched::read_records(folder); });
  if (options.inspector.empty()) return;
  watched::InspectorFiles& files = state_->inspector.emplace(options.inspector);
  all.emplace_back("Inspector", std::vector{options.inspector}, false, [&files] { return files.read(); });
}

WatchSources::~WatchSources() = default;

void WatchSources::hear(std::string_view piece) {
  state_->heard.hear(piece);
}

std::vector<SourceRead> WatchSources::look(double now, double patience, bool last) {
  std::vector<SourceRead> all;
  if (SourceRead heard{.name = "standard input"}; state_->heard.look(heard, last))
    all.push_back(std::move(heard));
  for (watched::Source& source : state_->sources) {
    SourceRead one{.name = source.name(), .findings = source.look(last)};
    one.problems = source.problems();
    if (one.findings || !one.problems.empty()) all.push_back(std::move(one));
  }
  if (state_->inspector)
    all.push_back({.name = "Inspector's progress", .findings = state_->inspector->standstill(now, patience)});
  return all;
}

}  // namespace weft::report
