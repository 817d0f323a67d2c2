#include "weft-report/nccl/log_line.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/base/number.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::string_view mark = "NCCL ";

struct LevelName {
  std::string_view name;
  Level level;
};
constexpr LevelName levels[] = {{"INFO ", Level::info},
                                {"WARN ", Level::warn},
                                {"CALL ", Level::call},
                                {"TRACE ", Level::trace},
                                // Of 2.32: what is worth attention, and no error.
                                {"ATTN ", Level::info}};

/// "NCCL INFO ", wherever it stands in the line.
std::optional<std::pair<std::size_t, LevelName>> find_level(std::string_view line) {
  for (auto at = line.find(mark); at != std::string_view::npos; at = line.find(mark, at + 1)) {
    const std::string_view rest = line.substr(at + mark.size());
    for (const LevelName& one : levels) {
      if (rest.starts_with(one.name)) return std::pair(at, one);
    }
  }
  return std::nullopt;
}

std::string_view without_spaces_behind(std::string_view words) {
  while (!words.empty() && (words.back() == ' ' || words.back() == '\t')) words.remove_suffix(1);
  return words;
}

/// Takes the last word off `words`.
std::string_view take_last(std::string_view& words) {
  words = without_spaces_behind(words);
  const auto space = words.find_last_of(" \t");
  const std::string_view last = words.substr(space == std::string_view::npos ? 0 : space + 1);
  words.remove_suffix(last.size());
  return last;
}

std::optional<std::int64_t> whole_number(std::string_view digits) {
  const auto value = detail::number_of<std::int64_t>(digits);
  return value && *value >= 0 ? value : std::nullopt;
}

/// Takes the last part after a colon off `word`.
std::string_view take_field(std::string_view& word) {
  const auto colon = word.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view field = word.substr(colon + 1);
  word = word.substr(0, colon);
  return field;
}

/// host:pid:tid, where tags may stand right before the host.
bool take_process(std::string_view word, LogLine& line) {
  const auto tid = whole_number(take_field(word));
  const auto pid = whole_number(take_field(word));
  if (!tid || !pid) return false;
  const auto before = word.find_last_of(":>])");
  const std::string_view host = before == std::string_view::npos ? word : word.substr(before + 1);
  if (host.empty()) return false;
  line.host = host;
  line.pid = *pid;
  line.tid = *tid;
  return true;
}

/// "[3]"
bool take_device(std::string_view word, LogLine& line) {
  if (word.size() < 3 || word.front() != '[' || word.back() != ']') return false;
  const auto device = whole_number(word.substr(1, word.size() - 2));
  if (!device || *device > 4096) return false;
  line.device = static_cast<int>(*device);
  return true;
}

/// What stands before the level, from the right: source, milliseconds (of TRACE), device, process.
void read_backwards(std::string_view before, LogLine& line) {
  while (!before.empty()) {
    const std::string_view shorter = before;
    const std::string_view word = take_last(before);
    if (word.empty()) break;
    if (take_process(word, line)) {
      line.stamp = shorter.substr(0, static_cast<std::size_t>(line.host.data() - shorter.data()));
      return;
    }
    if (line.device < 0 && take_device(word, line)) continue;
    const bool source = word.find(':') != std::string_view::npos && line.source.empty() && line.device < 0;
    const bool milliseconds = word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (source) {
      line.source = word;
    } else if (!milliseconds) {
      line.stamp = shorter;
      return;
    }
  }
}

/// Before 2.3 the levels stand without NCCL's name: "h1:5:5 [0] INFO NET : Using", "include/socket.h:344 WARN Call to connect failed".
std::optional<std::pair<std::size_t, LevelName>> find_old_level(std::string_view line) {
  if (const auto at = line.find("] INFO "); at != std::string_view::npos) {
    std::string_view before = line.substr(0, std::min(line.rfind('[', at), at));
    LogLine process;
    if (take_process(take_last(before), process)) return std::pair(at + 2, LevelName{"INFO ", Level::info});
  }
  const auto at = line.find(" WARN ");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = line.substr(0, at);
  const std::string_view source = before.substr(before.find_last_of(" \t") + 1);
  const auto colon = source.rfind(':');
  const auto dot = source.rfind('.', colon);
  if (colon == std::string_view::npos || dot == std::string_view::npos || dot > colon) return std::nullopt;
  const std::string_view ending = source.substr(dot + 1, colon - dot - 1);
  const bool is_code = ending == "cu" || ending == "cc" || ending == "h" || ending == "c";
  const bool numbered = source.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  if (!is_code || !numbered) return std::nullopt;
  return std::pair(at + 1, LevelName{"WARN ", Level::warn});
}

}  // namespace

LogLine parse_log_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == '\n')) text.remove_suffix(1);
  LogLine line;
  const auto named = find_level(text);
  const auto level = named ? named : find_old_level(text);
  if (!level) {
    line.message = text;
    return line;
  }
  line.level = level->second.level;
  line.message = text.substr(level->first + (named ? mark.size() : 0) + level->second.name.size());
  read_backwards(text.substr(0, level->first), line);
  return line;
}

std::int64_t number_in(std::string_view words, std::int64_t otherwise) {
  const int base = words.starts_with("0x") ? 16 : 10;
  if (base == 16) words.remove_prefix(2);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value, base);
  return error == std::errc() && end != words.data() ? value : otherwise;
}

std::string_view word_after(std::string_view words, std::string_view label) {
  const auto at = words.find(label);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = words.substr(at + label.size());
  return rest.substr(0, rest.find_first_of(" \t,;"));
}

}  // namespace weft::report::nccl
