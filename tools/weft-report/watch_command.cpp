// The loop of a watch: asks, reads, prints, waits.

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

#include "commands.hpp"
#include "common/command_line.hpp"
#include "common/findings/findings_json.hpp"
#include "core/base/fnv.hpp"
#include "print.hpp"
#include "ras_output.hpp"
#include "watch_options.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft-report/torch_records/dump.hpp"
#include "weft-report/watch/figures.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Clock = std::chrono::steady_clock;
namespace json = boost::json;

double elapsed_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// "10:41:25", by the clock of this host
std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char words[16];
  return {words, std::strftime(words, sizeof(words), "%H:%M:%S", &parts)};
}

/// Files that are read again when they have changed, and seldom enough to cost next to nothing.
class Source {
 public:
  using Read = std::function<std::vector<Finding>()>;
  Source(std::string name, std::vector<std::string> paths, Read read)
      : name_(std::move(name)), paths_(std::move(paths)), read_(std::move(read)) {}

  const std::string& name() const { return name_; }

  /// @returns what the files say; none where they say what they said before
  std::optional<std::vector<Finding>> look() {
    const Clock::time_point begin = Clock::now();
    if (begin < next_) return std::nullopt;
    const std::uint64_t state = state_of_files();
    if (state == state_) return std::nullopt;
    std::optional<std::vector<Finding>> found;
    try {
      found = read_();
      state_ = state;
    } catch (const Error&) {
      // A file is being written, or gone for the moment: the next look reads it.
    }
    constexpr int share = 200;  // of the time, at most
    next_ = Clock::now() + share * (Clock::now() - begin);
    return found;
  }

 private:
  /// Changes when a file comes, goes or grows.
  std::uint64_t state_of_files() const {
    detail::Fnv state;
    std::error_code error;
    const auto add = [&](const std::filesystem::path& path) {
      std::error_code none;
      const auto size = std::filesystem::file_size(path, none);
      state.add(path.native()).add(none ? -1 : static_cast<std::int64_t>(size));
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
  Read read_;
  std::uint64_t state_ = 0;
  Clock::time_point next_{};
};

std::vector<Source> sources_of(const WatchOptions& options) {
  std::vector<Source> all;
  if (!options.logs.empty()) {
    all.emplace_back("logs", options.logs, [paths = options.logs] {
      nccl::JobLog log;
      (void)log.read(paths);
      return nccl::examine(log.job());
    });
  }
  if (!options.records.empty()) {
    all.emplace_back("flight records", std::vector{options.records}, [folder = options.records] {
      const auto records = torch_records::read_dumps(folder);
      return records.empty() ? std::vector<Finding>() : torch_records::examine_torch(records);
    });
  }
  return all;
}

/// Under another name first: who reads the file sees it whole.
void write_metrics(const std::string& path, const Watch& watch) {
  const std::string draft = path + ".draft";
  tool::write(draft, figures_of(watch));
  std::error_code error;
  std::filesystem::rename(draft, path, error);
  if (error)
    throw Error(ErrorKind::system, text("--metrics ", path, ": cannot write it: ", error.message()),
                "name a file in a folder that can be written");
}

/// What is kept of a watch, also for a signal that ends it.
struct Record {
  Watch watch;
  std::vector<std::pair<double, std::string>> changes{};
  double seconds = 0;
};

std::string to_json(const Record& record, tool::Partial partial) {
  json::object all{{"findings", ras_findings_json(record.watch.standing())},
                   {"seconds", record.seconds},
                   {"answers", record.watch.answers()}};
  json::array changes;
  for (const auto& [seconds, line] : record.changes)
    changes.push_back({{"seconds", seconds}, {"text", as_json_text(line)}});
  all["changes"] = std::move(changes);
  if (partial == tool::Partial::yes) all["partial"] = true;
  return json::serialize(all) + "\n";
}

void print_end(const Record& record, std::ostream& out) {
  const std::vector<Finding> findings = record.watch.findings();
  out << text("\n", tally(findings), " after ", static_cast<long long>(record.seconds), " s and ",
              counted(static_cast<std::size_t>(record.watch.answers()), "answer"), "\n\n");
  print(findings, out);
}

/// One watch: what it looks at, and what it prints.
class Look {
 public:
  Look(const WatchOptions& options, tool::Outputs& outputs, Record& record)
      : options_(options), outputs_(outputs), record_(record), sources_(sources_of(options)) {}

  void once() {
    const double now = elapsed_since(begin_);
    std::vector<std::string> lines = ask_job(now);
    for (Source& source : sources_) {
      const auto found = source.look();
      if (!found) continue;
      outputs_.change([&] {
        for (std::string& line : record_.watch.read(source.name(), *found))
          lines.push_back(text(source.name(), ": ", line));
      });
    }
    outputs_.change([&] {
      record_.seconds = elapsed_since(begin_);
      for (const std::string& line : lines) record_.changes.emplace_back(now, line);
    });
    for (const std::string& line : lines)
      outputs_.people() << text(clock_text(), ' ', one_line(line), "\n") << std::flush;
    if (!options_.metrics.empty()) write_metrics(options_.metrics, record_.watch);
  }

  /// Whether this was the last look.
  bool ended() const {
    constexpr int most_misses = 3;
    const Watch& watch = record_.watch;
    if (watch.answers() > 0 && watch.misses() >= most_misses) return true;
    if (options_.most > 0 && elapsed_since(begin_) >= options_.most) return true;
    if (!options_.until_alarm) return false;
    return std::ranges::any_of(watch.findings(),
                               [](const Finding& one) { return one.severity == Severity::critical; });
  }

  void rest() const {
    double seconds = options_.every;
    if (options_.most > 0) seconds = std::min(seconds, std::max(0.0, options_.most - elapsed_since(begin_)));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

 private:
  std::vector<std::string> ask_job(double now) {
    std::vector<std::string> lines;
    std::optional<ras::Answer> answer;
    std::string why;
    try {
      answer = ras::parse_answer(ask(options_.address, options_.asked), options_.address.text());
    } catch (const Error& error) {
      why = error.problem();
    }
    outputs_.change([&] {
      lines = answer ? record_.watch.answered(now, std::move(*answer)) : record_.watch.missed(why);
    });
    return lines;
  }

  const WatchOptions& options_;
  tool::Outputs& outputs_;
  Record& record_;
  std::vector<Source> sources_;
  Clock::time_point begin_ = Clock::now();
};

void require_paths(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code error;
    if (path.empty() || !std::filesystem::exists(path, error))
      throw Error(ErrorKind::usage, text("--logs ", path, ": there is no such file or folder"),
                  "name a folder into which the logs are written; it may be empty");
  }
}

}  // namespace

int watch_command(const std::vector<std::string>& arguments) {
  const WatchOptions options = parse_watch_options(arguments);
  if (options.help) {
    std::cout << watch_help();
    return 0;
  }
  require_paths(options.logs);
  tool::Outputs outputs("weft-report");
  open(options.outputs, outputs);
  const auto record = std::make_shared<Record>(Record{.watch = Watch(options.patience)});
  if (!options.metrics.empty()) write_metrics(options.metrics, record->watch);
  outputs.keep([record] {
    std::ostringstream printed;
    print_end(*record, printed);
    return tool::Kept{.how_far = text(record->watch.answers(), " answers"),
                      .printed = std::move(printed).str(),
                      .files = {{"--json", to_json(*record, tool::Partial::yes)}}};
  });
  Look look(options, outputs, *record);
  for (look.once(); !look.ended(); look.once()) look.rest();
  print_end(*record, outputs.people());
  const Report report{.subject = "NCCL job that ran",
                      .looked_at = text("a watch of ", static_cast<long long>(record->seconds), " s"),
                      .findings = record->watch.findings()};
  write(outputs, report, [&] { return to_json(*record, tool::Partial::no); });
  return exit_status(report.findings);
}

}  // namespace weft::report
