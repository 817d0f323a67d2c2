// Lines to facts: one pass, each line looked at once.

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "common/findings/words.hpp"
#include "weft-report/bandwidth/table_reader.hpp"
#include "weft-report/documents/start.hpp"
#include "weft-report/nccl/calls.hpp"
#include "weft-report/nccl/catalogue/catalogue.hpp"
#include "weft-report/nccl/formats.hpp"
#include "weft-report/nccl/log_line.hpp"
#include "weft-report/nccl/log_source.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft-report/nccl/phrases.hpp"
#include "weft-report/nccl/rules/rules.hpp"
#include "weft-report/nccl/statements.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::size_t most_of_a_rule = 3;
constexpr std::size_t most_unexplained = 5;
constexpr std::size_t longest_value = 1024;
constexpr std::size_t most_hosts = 64;

/// The rows of the catalogue that lines of INFO state, too.
const std::vector<std::uint16_t>& reason_rows() {
  static const std::vector<std::uint16_t> all = [] {
    std::vector<std::uint16_t> of_info;
    for (std::uint16_t row = 0; row < rows().size(); ++row) {
      if (rows()[row].of_info) of_info.push_back(row);
    }
    return of_info;
  }();
  return all;
}

/// Rows of line_rules(), then those of statements(), then what begins the output of other tools, then line_formats(), then reason_rows().
const PhraseSet& phrases_of_all() {
  static const PhraseSet phrases = [] {
    std::vector<std::string_view> all;
    for (const LineRule& rule : line_rules()) all.push_back(rule.phrases[0]);
    for (const Statement& one : statements()) all.push_back(one.phrase);
    for (const std::string_view phrase : topology::tool_phrases()) all.push_back(phrase);
    for (const LineFormat& one : line_formats()) all.push_back(longest_literal(one.pattern));
    for (const std::uint16_t row : reason_rows()) all.push_back(longest_text(rows()[row].pattern));
    return PhraseSet(all);
  }();
  return phrases;
}

/// Whether all phrases of a rule stand in the line, one after the other.
bool stands_in(const LineRule& rule, std::string_view line) {
  if (!rule.unless.empty() && line.find(rule.unless) != std::string_view::npos) return false;
  std::size_t from = 0;
  for (const std::string_view phrase : rule.phrases) {
    const auto at = line.find(phrase, from);
    if (at == std::string_view::npos) return false;
    from = at + phrase.size();
  }
  return true;
}

constexpr std::size_t most_rule_sets = 8;

/// NCCL prints where it left its functions: "misc/socket.cc:564 -> 2", "init.cc:1303 -> 2 [Async thread]".
bool is_failed_return(std::string_view message) {
  const auto arrow = message.find(" -> ");
  if (arrow == std::string_view::npos || arrow + 4 >= message.size()) return false;
  const std::string_view source = message.substr(0, arrow);
  return source.find(' ') == std::string_view::npos && source.find(':') != std::string_view::npos &&
         message[arrow + 4] >= '1' && message[arrow + 4] <= '7' &&
         source.find(".c") != std::string_view::npos;
}

void count(Occurrences& all, const Said& said) {
  ++all.count;
  if (all.evidence.size() < most_of_a_rule) all.evidence.push_back(said.evidence());
  if (!said.line.host.empty() && all.hosts.size() < most_hosts) all.hosts.emplace(said.line.host);
}

using Carrier = int Channels::*;

/// What stands behind "via". Null: something else.
Carrier carried_by(std::string_view carrier) {
  if (carrier.starts_with("P2P/")) return &Channels::p2p;
  if (carrier.starts_with("SHM/") || carrier == "direct shared memory") return &Channels::shm;
  if (carrier.starts_with("NET/Socket/")) return &Channels::socket;
  if (!carrier.starts_with("NET/")) return nullptr;
  return carrier.find("/GDRDMA") != std::string_view::npos ? &Channels::rdma_direct : &Channels::rdma;
}

/// The ranks in "Channel 00/0 : 1[1] -> 8[0] [receive]", as a key of Process::links.
std::optional<std::uint64_t> ends_of(std::string_view message) {
  constexpr std::int64_t most = 0xffffffff;
  const auto colon = message.find(" : ");
  const auto arrow = message.find(" -> ");
  if (colon == std::string_view::npos || arrow == std::string_view::npos || arrow < colon)
    return std::nullopt;
  const std::int64_t from = number_in(message.substr(colon + 3), -1);
  const std::int64_t to = number_in(message.substr(arrow + 4), -1);
  if (from < 0 || to < 0 || from > most || to > most) return std::nullopt;
  return static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to);
}

}  // namespace

struct JobLog::Gatherer {
  Gatherer() { job.matches.resize(line_rules().size()); }

  void take(const std::string& file, int number, std::string_view text) {
    ++job.lines;
    const LogLine line = parse_log_line(tables.behind_row(text));
    if (line.level != Level::none) ++job.nccl_lines;
    const Said said{file, number, text, line};
    if (line.level == Level::info && (count_connection(said) || compare_call(said))) return;
    Found found;
    phrases.scan(line.level == Level::info ? line.message : text,
                 [&](std::uint16_t phrase) { take_phrase(phrase, said, found); });
    if (line.level == Level::none && !found.tool) found.tool = tools.follow({file, number, text});
    if (line.level == Level::none && !found.tool && tables.take(file, number, text)) found.statement = true;
    if (line.level == Level::info && is_failed_return(line.message)) count(job.failed_returns, said);
    // Since 2.32 the usual cause of an error stands below it, at a level of its own.
    const bool is_hint = line.level == Level::info && line.message.starts_with("HINT: In many cases");
    if (line.level == Level::warn || is_hint) {
      keep_warning(text, said, found);
    } else if (found.reason) {
      keep_row(*found.reason, said, found);
    } else if (line.level == Level::none && keep_last_error(said, found)) {
      found.statement = true;
    }
    if (!found.rules.empty() || found.statement || found.tool) ++job.known_lines;
  }

  Job job;
  topology::ToolReader tools{job.tools};

 private:
  bandwidth::TableReader tables{job.tables};
  struct Found {
    std::vector<std::uint16_t> rules{};  ///< of line_rules()
    bool statement = false;
    bool tool = false;  ///< of another tool
    std::optional<std::uint16_t>
        reason{};             ///< of reason_rows(), in a line of INFO: the row with the most text
    std::size_t letters = 0;  ///< of that row
  };
  struct KeyHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };

  void take_phrase(std::uint16_t phrase, const Said& said, Found& found) {
    const auto rules = line_rules();
    const std::size_t of_tools = rules.size() + statements().size();
    const std::size_t of_formats = of_tools + topology::tool_phrases().size();
    const std::size_t of_reasons = of_formats + line_formats().size();
    if (phrase >= of_reasons) return take_reason(reason_rows()[phrase - of_reasons], said, found);
    if (phrase >= of_formats) {
      if (take_format(line_formats()[phrase - of_formats], said)) found.statement = true;
      return;
    }
    if (phrase >= of_tools) {
      if (said.line.level == Level::none &&
          tools.open(phrase - of_tools, {said.file, said.number, said.text}))
        found.tool = true;
      return;
    }
    if (phrase >= rules.size()) {
      const Statement& statement = statements()[phrase - rules.size()];
      if (statement.take(said, process_of(said), job)) found.statement = true;
      return;
    }
    if (!stands_in(rules[phrase], said.text)) return;
    found.rules.push_back(phrase);
    count(job.matches[phrase], said);
  }

  static void take_reason(std::uint16_t row, const Said& said, Found& found) {
    if (said.line.level != Level::info) return;
    const std::size_t letters = text_in(said.text, rows()[row].pattern);
    if (letters <= found.letters) return;
    found.letters = letters;
    found.reason = row;
    found.statement = true;
  }

  /// @param words the line, or what it quotes of a warning
  void keep_warning(std::string_view words, const Said& said, const Found& found) {
    const auto row = row_of(words);
    if (!row && found.rules.empty()) {
      if (job.unexplained.size() < most_unexplained)
        job.unexplained.push_back({std::string(words.substr(0, longest_value)), said.evidence()});
      return;
    }
    keep_row(row.value_or(no_row), said, found);
  }

  void keep_row(std::uint16_t row, const Said& said, const Found& found) {
    Warned& warned = job.warnings[row];
    count(warned.lines, said);
    if (std::ranges::find(warned.rules, found.rules) == warned.rules.end() &&
        warned.rules.size() < most_rule_sets)
      warned.rules.push_back(found.rules);
  }

  /// PyTorch and JAX quote NCCL's last warning: behind "Last error:" in the next line, or behind "Last NCCL warning(error):".
  bool keep_last_error(const Said& said, const Found& found) {
    constexpr std::string_view label = "Last NCCL warning(error):";
    const bool follows = said.file == last_error_file && said.number == last_error_line + 1;
    if (trimmed(said.text).ends_with("Last error:")) {
      last_error_file = said.file;
      last_error_line = said.number;
      return true;
    }
    const std::string_view quoted = follows ? said.text : after(said.text, label);
    if (trimmed(quoted).empty()) return false;
    keep_warning(quoted, said, found);
    return true;
  }

  /// The first line of each format counts, and of two formats that it matches the longer one.
  bool take_format(const LineFormat& format, const Said& said) {
    if (said.line.level != Level::info && said.line.level != Level::warn) return false;
    const auto values = values_in(said.line.message, format.pattern);
    if (!values) return false;
    const auto [at, fresh] = process_of(said).stated.try_emplace(format.id);
    Stated& stated = at->second;
    const bool same_line = stated.evidence.line == said.number && stated.evidence.file == said.file;
    if (!fresh && (!same_line || stated.values.size() >= values->size())) return true;
    stated.values.clear();
    for (const std::string_view value : *values) stated.values.emplace_back(value.substr(0, longest_value));
    if (fresh) stated.evidence = said.evidence();
    return true;
  }

  /// A line of a channel, which most lines of a log are. They state no other fact.
  bool count_connection(const Said& said) {
    const std::string_view message = said.line.message;
    if (!message.starts_with("Channel ")) return false;
    const auto via = message.find(" via ");
    if (via == std::string_view::npos) return true;
    const auto kind = carried_by(message.substr(via + 5));
    if (kind == nullptr) return true;
    Process& process = process_of(said);
    Connections& all = process.connections;
    if (all.*kind == 0 && kind == &Channels::shm) all.first_shm = said.evidence();
    if (all.*kind == 0 && kind == &Channels::rdma) all.first_rdma = said.evidence();
    ++(all.*kind);
    const auto ends = ends_of(message.substr(0, via));
    if (!ends || !process.on_widest || process.host.empty()) return true;
    ++(process.links[*ends].*kind);
    const bool receives = message.substr(0, via).ends_with("[receive]");
    process.own_end = static_cast<std::int64_t>(receives ? *ends & 0xffffffff : *ends >> 32);
    return true;
  }
  /// A line of a collective, of which a log with the subsystem COLL is full.
  bool compare_call(const Said& said) {
    CallLine call;
    if (!begins_call(said.line.message) || !parse_call(said.line.message, call)) return false;
    ++job.known_lines;
    (void)process_of(said);
    calls.take(call, said, newest, job);
    return true;
  }

  Process& process_of(const Said& said) {
    const LogLine& line = said.line;
    if (newest < job.processes.size()) {
      Process& same = job.processes[newest];
      if (same.pid == line.pid && same.host == line.host) return same;
    }
    key.assign(line.host).append(":").append(reinterpret_cast<const char*>(&line.pid), sizeof line.pid);
    const auto [at, fresh] = index.try_emplace(key, job.processes.size());
    if (fresh) {
      job.processes.emplace_back();
      job.processes.back().host = line.host;
      job.processes.back().pid = line.pid;
      job.processes.back().first = said.evidence();
    }
    newest = at->second;
    return job.processes[newest];
  }

  const PhraseSet& phrases = phrases_of_all();
  std::unordered_map<std::string, std::size_t> index;
  std::string key;
  std::size_t newest = 0;
  std::string last_error_file;
  int last_error_line = -1;
  CallComparison calls;
};

JobLog::JobLog() : gatherer_(std::make_unique<Gatherer>()) {}
JobLog::~JobLog() = default;
JobLog::JobLog(JobLog&&) noexcept = default;
JobLog& JobLog::operator=(JobLog&&) noexcept = default;

std::vector<std::string> JobLog::read(const std::vector<std::string>& paths) {
  std::vector<std::string> notes;
  const auto skipped = [&](const std::string& file, const std::string& why) {
    notes.push_back(file + " " + why);
  };
  read_inputs(paths,
              {.line = [&](const std::string& file, int number,
                           std::string_view line) { gatherer_->take(file, number, line); },
               .document =
                   [&](const std::string& file, const documents::Kind& kind, std::string_view content) {
                     const std::string wrong = documents::read(kind, content, file, gatherer_->job.documents);
                     if (!wrong.empty()) skipped(file, wrong);
                   },
               .skipped = skipped});
  return notes;
}

std::string JobLog::add(std::string_view content, const std::string& file) {
  if (const documents::Kind* kind = documents::kind_of(content.substr(0, documents::start_bytes)))
    return documents::read(*kind, content, file, gatherer_->job.documents);
  read_text(content, file, [&](const std::string& name, int number, std::string_view line) {
    gatherer_->take(name, number, line);
  });
  return {};
}

const Job& JobLog::job() const {
  return gatherer_->job;
}

LogFeed::LogFeed(JobLog& log, std::string file)
    : lines_(std::make_unique<LineCutter>(
          std::move(file),
          [&all = *log.gatherer_](const std::string& name, int number, std::string_view line) {
            all.take(name, number, line);
          })) {}
LogFeed::~LogFeed() = default;

void LogFeed::add(std::string_view piece) {
  lines_->add(piece);
}

bool LogFeed::finish() {
  return lines_->finish();
}

}  // namespace weft::report::nccl
