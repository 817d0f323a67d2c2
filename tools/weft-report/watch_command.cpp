// The loop of a watch: asks, reads, prints, waits.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "commands.hpp"
#include "common/command_line.hpp"
#include "common/findings/findings_json.hpp"
#include "metrics/exposer.hpp"
#include "print.hpp"
#include "ras_output.hpp"
#include "watch_options.hpp"
#include "watch_sources.hpp"
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

int answers_of(const Watch& watch) {
  return watch.answers() + watch.ranks().answers();
}

std::string to_json(const Record& record, tool::Partial partial) {
  json::object all{{"findings", ras_findings_json(record.watch.standing())},
                   {"seconds", record.seconds},
                   {"answers", answers_of(record.watch)}};
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
              counted(static_cast<std::size_t>(answers_of(record.watch)), "answer"), "\n\n");
  print(findings, out);
}

/// What HTTP serves, which another thread asks for.
class Served {
 public:
  Served(int port, const std::string& bind)
      : exposer_(
            [this] {
              const std::lock_guard lock(mutex_);
              return figures_;
            },
            bind, port, 0, {}) {}

  const std::string& address() const { return exposer_.address(); }
  void set(std::string figures) {
    const std::lock_guard lock(mutex_);
    figures_ = std::move(figures);
  }

 private:
  std::mutex mutex_{};
  std::string figures_{};
  detail::Exposer exposer_;
};

/// One watch: what it looks at, and what it prints.
class Look {
 public:
  Look(const WatchOptions& options, tool::Outputs& outputs, Record& record)
      : options_(options), outputs_(outputs), record_(record), sources_(options) {
    if (options.metrics_port) served_.emplace(*options.metrics_port, options.metrics_bind);
    publish();
  }

  /// "http://127.0.0.1:9400/metrics"; empty: nothing is served
  std::string address() const { return served_ ? served_->address() : std::string(); }

  /// @param last whether no look follows
  void once(bool last) {
    const double now = elapsed_since(begin_);
    std::vector<std::string> lines;
    const auto add = [&lines](std::vector<std::string> more) {
      std::ranges::move(more, std::back_inserter(lines));
    };
    if (options_.asks_ras) add(ask_job(now));
    if (!options_.ranks.empty()) add(ask_all_ranks(now));
    for (SourceRead& one : sources_.look(now, options_.patience, last)) {
      for (const std::string& problem : one.problems) lines.push_back(text(one.name, ": ", problem));
      if (!one.findings) continue;
      outputs_.change([&] {
        for (std::string& line : record_.watch.found(one.name, *one.findings))
          lines.push_back(text(one.name, ": ", line));
      });
    }
    outputs_.change([&] {
      record_.seconds = elapsed_since(begin_);
      for (const std::string& line : lines) record_.changes.emplace_back(now, line);
    });
    for (const std::string& line : lines)
      outputs_.people() << text(clock_text(), ' ', one_line(line), "\n") << std::flush;
    publish();
  }

  /// Whether this was the last look.
  bool ended() const {
    if (closed_ || is_over()) return true;
    if (options_.most > 0 && elapsed_since(begin_) >= options_.most) return true;
    if (!options_.until_alarm) return false;
    return std::ranges::any_of(record_.watch.findings(),
                               [](const Finding& one) { return one.severity == Severity::critical; });
  }

  /// Until the next look. @returns whether that is the last one: standard input was closed
  bool rest() {
    double seconds = options_.every;
    if (options_.most > 0) seconds = std::min(seconds, std::max(0.0, options_.most - elapsed_since(begin_)));
    if (options_.until_closed) {
      closed_ = input_closes_within(seconds);
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    return closed_;
  }

 private:
  /// Whether nobody answers any more who has answered before.
  bool is_over() const {
    constexpr int most_misses = 3;
    const Watch& watch = record_.watch;
    const RanksWatch& ranks = watch.ranks();
    const bool ras_answers = watch.answers() > 0 && watch.misses() < most_misses;
    const bool ranks_answer = ranks.ever_answered() && ranks.misses() < most_misses;
    return (watch.answers() > 0 || ranks.ever_answered()) && !ras_answers && !ranks_answer;
  }

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

  std::vector<std::string> ask_all_ranks(double now) {
    std::vector<std::string> lines;
    const auto looks = ask_ranks(options_.ranks, std::clamp(options_.every, 1.0, most_for_ranks));
    outputs_.change([&] { lines = record_.watch.looked(now, looks); });
    return lines;
  }

  /// Served first: who has seen the file finds nothing older there.
  void publish() {
    if (served_) served_->set(figures_of(record_.watch));
    if (!options_.metrics.empty()) write_metrics(options_.metrics, record_.watch);
  }

  /// What is written there is heard.
  bool input_closes_within(double seconds) {
    const Clock::time_point end =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return false;
      pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      if (poll(&input, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000))) <= 0) continue;
      char space[4096];
      const ssize_t got = read(STDIN_FILENO, space, sizeof(space));
      if (got > 0) sources_.hear({space, static_cast<std::size_t>(got)});
      if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return true;
    }
  }

  static constexpr double most_for_ranks = 5;  // seconds

  const WatchOptions& options_;
  tool::Outputs& outputs_;
  Record& record_;
  WatchSources sources_;
  std::optional<Served> served_{};
  bool closed_ = false;
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
  outputs.keep([record] {
    std::ostringstream printed;
    print_end(*record, printed);
    return tool::Kept{.how_far = text(answers_of(record->watch), " answers"),
                      .printed = std::move(printed).str(),
                      .files = {{"--json", to_json(*record, tool::Partial::yes)}}};
  });
  Look look(options, outputs, *record);
  if (!look.address().empty())
    outputs.people() << text(clock_text(), " metrics at ", look.address(), "\n") << std::flush;
  for (look.once(false); !look.ended(); look.once(look.rest())) {
  }
  print_end(*record, outputs.people());
  const Report report{.subject = "job that ran",
                      .looked_at = text("a watch of ", static_cast<long long>(record->seconds), " s"),
                      .findings = record->watch.findings()};
  write(outputs, report, [&] { return to_json(*record, tool::Partial::no); });
  return exit_status(report.findings);
}

}  // namespace weft::report
