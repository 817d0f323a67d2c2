// The text of NCCL 2.24 and later, as rasClientRunInit() and rasClientRunComms() print it: a job summary, a table of groups of communicators
// that are alike, errors and warnings. Each line is taken by what it says, in the part in which it may stand; what is none of these is kept.
//
// 2.24 and 2.25 differ from later versions: one count for all collectives, ranks of a list without their processes, and UNKNOWN where later
// versions say NOCOMM.

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "common/findings/words.hpp"
#include "weft-report/ras/forms.hpp"
#include "weft/core/error.hpp"

namespace weft::report::ras {
namespace {

/// Takes words and numbers from the front of a line.
class Line {
 public:
  explicit Line(std::string_view words) : rest_(words) {}

  bool take(std::string_view words) {
    if (!rest_.starts_with(words)) return false;
    rest_.remove_prefix(words.size());
    return true;
  }
  template <class Number>
  bool take_number(Number& value) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  /// Up to the words, which are taken, too.
  std::optional<std::string_view> take_until(std::string_view words) {
    const std::size_t at = rest_.find(words);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view taken = rest_.substr(0, at);
    rest_.remove_prefix(at + words.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }
  bool ended() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!(line = trimmed(line)).empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

std::optional<std::vector<int>> numbers_of(std::string_view line) {
  std::vector<int> numbers;
  for (const std::string_view word : words_of(line)) {
    Line one(word);
    int value = 0;
    if (!one.take_number(value) || !one.ended() || value < 0) return std::nullopt;
    numbers.push_back(value);
  }
  return numbers;
}

std::optional<Status> status_named(std::string_view word) {
  if (word == "UNKNOWN") return Status::no_communicator;
  const auto found = std::ranges::find(status_names, word);
  if (found == status_names.end()) return std::nullopt;
  return static_cast<Status>(found - status_names.begin());
}

/// "GPU 4 managed by process 323032 on node 10.0.0.1", or that nothing is known.
std::optional<Process> process_in(std::string_view words) {
  Process process;
  if (words == "[process information not found]") return process;
  Line line(words);
  if (!line.take("GPU ")) return std::nullopt;
  const auto gpu = line.take_until(" managed by process ");
  if (!gpu || !line.take_number(process.pid) || !line.take(" on node ")) return std::nullopt;
  process.gpus = *gpu;
  process.node = trimmed(line.rest());
  return process;
}

class Reader {
 public:
  Reader(std::string_view bytes, std::string file, int first) : rest_(bytes), line_(first - 1) {
    answer_.file = std::move(file);
  }

  Answer read() {
    while (!rest_.empty()) {
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      while (line.ends_with(' ')) line.remove_suffix(1);
      take(line);
    }
    if (part_ != Part::warnings)
      throw Error(ErrorKind::usage,
                  text(answer_.file, ": the answer of RAS ends in line ", line_, ", before its ",
                       part_ == Part::head     ? "communicators"
                       : part_ == Part::groups ? "errors"
                                               : "warnings"),
                  "save all of it: the process may have ended while it answered");
    return std::move(answer_);
  }

 private:
  enum class Part : std::uint8_t { head, groups, errors, warnings };
  /// What the lines below a heading are about.
  enum class Topic : std::uint8_t { none, silent, dead, timeout, incomplete, error, mismatch };

  void take(std::string_view line) {
    const bool rule = !line.empty() && line.find_first_not_of('=') == std::string_view::npos;
    if (line.empty() || rule || take_heading(line)) return;
    if (part_ == Part::head ? take_head(line) : part_ == Part::groups ? take_group(line) : take_detail(line))
      return;
    constexpr std::size_t most = 100;
    if (answer_.unread.size() < most) answer_.unread.push_back({answer_.file, line_, std::string(line)});
  }

  bool take_heading(std::string_view line) {
    if (line.starts_with("Communicators...") && part_ == Part::head) {
      part_ = Part::groups;
    } else if (line == "Errors" && part_ == Part::groups) {
      part_ = Part::errors;
    } else if (line == "Warnings" && part_ == Part::errors) {
      part_ = Part::warnings;
    } else {
      return false;
    }
    topic_ = Topic::none;
    return true;
  }

  bool take_head(std::string_view line) {
    Line words(line);
    if (words.take("NCCL version ")) {
      answer_.nccl = words.take_until(" ").value_or(words.rest());
      return true;
    }
    if (line == "Job summary" || line.starts_with("CUDA runtime version ")) return true;
    if (line.starts_with("The outlier node") || line.starts_with("  Node ")) return true;
    const auto headed = words_of(line);
    if (!headed.empty() && (headed[0] == "Nodes" || headed[0] == "Processes" || headed[0] == "per"))
      return true;
    if (!headed.empty() && headed[0] == "(total)") {
      totals_ = headed.size();  // "(total) per node per process (total) (total)", "(total) (total) (total)"
      return true;
    }
    const auto numbers = numbers_of(line);
    if (!numbers) return false;
    if (totals_ == 3 && numbers->size() == 3) set_totals((*numbers)[0], (*numbers)[1], (*numbers)[2]);
    if (totals_ > 3 && numbers->size() == 5) set_totals((*numbers)[0], (*numbers)[3], (*numbers)[4]);
    return true;
  }
  void set_totals(int nodes, int processes, int gpus) {
    answer_.nodes = nodes;
    answer_.processes = processes;
    answer_.gpus = gpus;
  }

  bool take_group(std::string_view line) {
    if (line == "No communicator data collected!") return true;
    const auto words = words_of(line);
    if (!words.empty() && (words[0] == "Group" || words[0] == "#")) return true;
    if (words.size() != 8) return false;
    Group group{.line = line_};
    const auto number = [&](std::size_t at, int& value) {
      Line one(words[at]);
      return one.take_number(value) && one.ended() && value >= 0;
    };
    const auto status = status_named(words[6]);
    if (!number(0, group.number) || !number(1, group.communicators) || !number(4, group.size) || !status)
      return false;
    group.status = *status;
    group.errors = words[7];
    // A group has a place in its line for as many as there are; a job has fewer than this.
    constexpr int most = 1 << 24;
    answer_.communicator_count =
        std::min(answer_.communicator_count, most) + std::min(group.communicators, most);
    answer_.groups.push_back(std::move(group));
    return true;
  }

  bool take_detail(std::string_view line) {
    if (take_topic(line)) return true;
    switch (topic_) {
      case Topic::silent:
        return take_process(line, answer_.silent, "Missing communicator data from ", " job process");
      case Topic::dead:
        return take_process(line, answer_.dead, "", " job process");
      case Topic::timeout: {
        Line words(line);
        return words.take("  Encountered ") && words.take_number(answer_.timeouts);
      }
      case Topic::incomplete:
        return take_incomplete(line);
      case Topic::error:
        return take_error(line);
      case Topic::mismatch:
        return take_mismatch(line);
      case Topic::none:
        break;
    }
    return false;
  }

  bool take_topic(std::string_view line) {
    if (line == "INCOMPLETE") {
      topic_ = Topic::silent;
      answer_.silent.line = line_;
    } else if (line == "DEAD") {
      topic_ = Topic::dead;
      answer_.dead.line = line_;
    } else if (line == "TIMEOUT") {
      topic_ = Topic::timeout;
    } else {
      return take_communicator(line);
    }
    return true;
  }

  /// "#0-1 (fa93daea854b060b) MISMATCH"
  bool take_communicator(std::string_view line) {
    Line words(line);
    int group = 0;
    int index = 0;
    if (!words.take("#") || !words.take_number(group) || !words.take("-") || !words.take_number(index) ||
        !words.take(" ("))
      return false;
    const auto hash = words.take_until(") ");
    if (!hash) return false;
    if (words.rest() == "INCOMPLETE") {
      topic_ = Topic::incomplete;
    } else if (words.rest() == "ERROR") {
      topic_ = Topic::error;
    } else if (words.rest() == "MISMATCH") {
      topic_ = Topic::mismatch;
    } else {
      return false;
    }
    const std::string name(line.substr(0, line.find(')') + 1));
    const auto known = std::ranges::find(answer_.communicators, name, &Communicator::name);
    current_ = static_cast<std::size_t>(known - answer_.communicators.begin());
    if (known == answer_.communicators.end()) {
      const auto row = std::ranges::find(answer_.groups, group, &Group::number);
      answer_.communicators.push_back(
          {.name = name, .hash = plain_hash(*hash), .size = row == answer_.groups.end() ? 0 : row->size});
    }
    lists_ = Lists::none;
    return true;
  }

  Communicator& current() { return answer_.communicators[current_]; }

  bool take_process(std::string_view line, Processes& list, std::string_view before, std::string_view after) {
    Line words(line);
    Process process;
    if (!words.take("  ")) return false;
    if (words.take("Process ")) {
      if (!words.take_number(process.pid) || !words.take(" on node ")) return false;
      const auto node = words.take_until(" managing GPU");
      if (!node) return false;
      (void)words.take("s");
      process.node = *node;
      process.gpus = trimmed(words.rest());
      list.named.push_back(std::move(process));
      return true;
    }
    if (words.rest().starts_with("[could not find information on ")) return true;
    return words.take(before) && words.take_number(list.size) && words.take(after);
  }

  /// "  Missing communicator data from 2 ranks", and the ranks
  bool take_incomplete(std::string_view line) {
    Line words(line);
    if (words.take("  Missing communicator data from ")) {
      current().unanswered.line = line_;
      return words.take_number(current().unanswered.size);
    }
    if (words.take("  The missing ranks: ") || words.take("  The missing rank: "))
      return take_ranks(words.rest(), current().unanswered);
    Member member;
    std::string_view does;
    if (!take_member(line, member, does) || !does.empty()) return false;
    current().unanswered.named.push_back(std::move(member));
    return true;
  }

  bool take_error(std::string_view line) {
    Line words(line);
    if (words.take("  Initialization error")) {
      at_init_ = true;
      lists_ = Lists::none;
      return true;
    }
    if (words.take("  Asynchronous error")) {
      at_init_ = false;
      lists_ = Lists::none;
      return true;
    }
    int size = 0;
    if (words.take("  ") && words.take_number(size)) {
      if (!words.take(" ranks reported ")) return false;
      current().failures.push_back(
          {.what = std::string(words.rest()), .at_init = at_init_, .who = {.size = size, .line = line_}});
      lists_ = Lists::failure;
      return true;
    }
    Member member;
    std::string_view does;
    if (!take_member(line, member, does)) return false;
    if (does.empty()) return add_to_list(std::move(member));
    Line what(does);
    if (!what.take("reported ")) return false;
    current().failures.push_back({.what = std::string(what.rest()), .at_init = at_init_, .who = one(member)});
    lists_ = Lists::none;
    return true;
  }

  bool take_mismatch(std::string_view line) {
    Line words(line);
    if (line == "  Communicator ranks have different status") {
      lists_ = Lists::none;
      return true;
    }
    if (words.take("  Communicator ranks have different ")) {
      const auto type = words.take_until(" operation counts");
      if (!type) return false;
      current().collectives.push_back({.type = std::string(*type)});
      lists_ = Lists::none;
      return true;
    }
    if (words.take("  The unknown ranks: ")) {
      if (lists_ != Lists::status) return false;
      return take_ranks(words.rest(), current().statuses.back().who);
    }
    int size = 0;
    if (words.take("  ") && words.take_number(size))
      return words.take(" ranks have ") && take_state(words.rest(), {.size = size, .line = line_}, true);
    Member member;
    std::string_view does;
    if (!take_member(line, member, does)) return false;
    if (does.empty()) return add_to_list(std::move(member));
    Line has(does);
    return has.take("has ") && take_state(has.rest(), one(member), false);
  }

  /// "status INIT", "launched up to operation 640", "not launched any operations"
  bool take_state(std::string_view state, Share who, bool listed) {
    Line words(state);
    if (words.take("status ")) {
      const auto status = status_named(words.rest());
      if (!status) return false;
      current().statuses.push_back({.status = *status, .who = std::move(who)});
      lists_ = listed ? Lists::status : Lists::none;
      return true;
    }
    if (current().collectives.empty()) return false;
    Launched launched{.who = std::move(who)};
    if (words.take("launched up to operation ")) {
      if (!words.take_number(launched.operations) || !words.ended()) return false;
    } else if (!words.take("not launched any operations")) {
      return false;
    }
    current().collectives.back().levels.push_back(std::move(launched));
    lists_ = listed ? Lists::level : Lists::none;
    return true;
  }

  /// "  Rank 12 has launched up to operation 640 -- GPU 4 managed by ...": `does` is what stands before the dashes. A line of 2.24 about an
  /// unknown rank has no dashes.
  bool take_member(std::string_view line, Member& member, std::string_view& does) {
    Line words(line);
    if (!words.take("  Rank ") || !words.take_number(member.rank) || !words.take(" ")) return false;
    const std::string_view rest = words.rest();
    const std::size_t dashes = rest.find("-- ");
    does = trimmed(rest.substr(0, dashes));
    if (dashes == std::string_view::npos) return does.starts_with("has status ");
    const auto process = process_in(rest.substr(dashes + 3));
    if (!process) return false;
    member.process = *process;
    return true;
  }

  bool take_ranks(std::string_view list, Share& who) {
    Line words(list);
    Member member;
    do {
      if (!words.take_number(member.rank)) return false;
      who.named.push_back(member);
    } while (words.take(","));
    return words.ended();
  }

  Share one(const Member& member) const { return {.size = 1, .named = {member}, .line = line_}; }

  bool add_to_list(Member member) {
    Share* list = lists_ == Lists::status    ? &current().statuses.back().who
                  : lists_ == Lists::level   ? &current().collectives.back().levels.back().who
                  : lists_ == Lists::failure ? &current().failures.back().who
                                             : nullptr;
    if (list == nullptr) return false;
    list->named.push_back(std::move(member));
    return true;
  }

  /// Which list the lines "  Rank 12 -- ..." continue.
  enum class Lists : std::uint8_t { none, status, level, failure };

  std::string_view rest_;
  int line_;
  Answer answer_{};
  Part part_ = Part::head;
  Topic topic_ = Topic::none;
  Lists lists_ = Lists::none;
  std::size_t totals_ = 0;
  std::size_t current_ = 0;
  bool at_init_ = false;
};

}  // namespace

Answer parse_text(std::string_view bytes, const std::string& file, int first) {
  return Reader(bytes, file, first).read();
}

}  // namespace weft::report::ras
