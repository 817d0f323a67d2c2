// Reads settings from text. Every line that is no setting is passed over: output of env has functions of the shell in it, and a script
// has commands. nccl.conf is read as strictly as NCCL reads it, because what NCCL passes over there is a setting that never was.

#include <algorithm>
#include <optional>
#include <utility>

#include "common/findings/words.hpp"
#include "weft-report/env/settings.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

constexpr std::size_t longest_name = 256;
/// NCCL copies a value of nccl.conf into 1,024 bytes.
constexpr std::size_t longest_configured = 1023;

bool is_name(std::string_view words) {
  const auto good = [](unsigned char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !words.empty() && words.size() <= longest_name && !(words[0] >= '0' && words[0] <= '9') &&
         std::ranges::all_of(words, good);
}

bool is_quoted(std::string_view value) {
  return value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
         value.back() == value.front();
}

std::string_view unquoted(std::string_view value) {
  return is_quoted(value) ? value.substr(1, value.size() - 2) : value;
}

using Pair = std::pair<std::string_view, std::string_view>;

std::optional<Pair> split_at_equals(std::string_view line) {
  const std::size_t at = line.find('=');
  if (at == std::string_view::npos) return std::nullopt;
  return Pair{line.substr(0, at), line.substr(at + 1)};
}

Finding remark(std::string cause, const Setting& setting, std::string verdict, std::string fix) {
  return {.cause = std::move(cause),
          .severity = Severity::warning,
          .confidence = 0.95,
          .verdict = std::move(verdict),
          .evidence = {evidence_of(setting)},
          .fix = std::move(fix)};
}

/// Reads the lines of one file into settings.
class Reader {
 public:
  Reader(std::string file, Lines lines) : lines_(lines) {
    settings_.who = std::move(file);
    settings_.whole = lines == Lines::environment;
  }

  void read(std::string_view line) {
    ++number_;
    if (lines_ == Lines::configuration)
      read_configuration(line);
    else
      read_environment(line);
  }
  Settings result() && { return std::move(settings_); }

 private:
  void add(std::string_view name, std::string_view value) {
    Setting setting{std::string(name), std::string(value), settings_.who, number_};
    const auto [at, fresh] = settings_.values.try_emplace(setting.name, setting);
    if (fresh || at->second.value == setting.value) return;
    const bool first_wins = lines_ == Lines::configuration;
    if (name.starts_with("NCCL_")) {
      Finding twice =
          remark("set-twice", at->second, text(name, " is set twice in one file, to different values"),
                 text("keep one of the lines; the ", first_wins ? "first" : "last", " one counts"));
      twice.evidence.push_back(evidence_of(setting));
      settings_.remarks.push_back(std::move(twice));
    }
    if (!first_wins) at->second = std::move(setting);
  }

  void read_environment(std::string_view line) {
    line = trimmed(line);
    if (line.starts_with('#')) return;
    if (read_manifest(line)) return;
    bool shell = false;
    for (const std::string_view word : {"export ", "declare -x ", "setenv "}) {
      if (!line.starts_with(word)) continue;
      line = trimmed(line.substr(word.size()));
      shell = true;
    }
    const auto pair = split_at_equals(line);
    if (pair && is_name(pair->first)) {
      const std::string_view value = pair->second;
      if (is_quoted(value) && !shell && pair->first.starts_with("NCCL_")) remark_quotes(*pair);
      return add(pair->first, shell ? unquoted(value) : value);
    }
    if (!read_log(line)) read_mpirun(line);
  }

  /// "host:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22." A log has only what NCCL looked at, so it is no whole environment.
  bool read_log(std::string_view line) {
    constexpr std::string_view by = " set by environment to ";
    const std::size_t at = line.find(by);
    if (at == std::string_view::npos || line.find("NCCL INFO ") > at) return false;
    const std::string_view name = line.substr(0, at).substr(line.substr(0, at).rfind(' ') + 1);
    std::string_view value = trimmed(line.substr(at + by.size()));
    // Only numbers are followed by a full stop.
    const std::string_view number = value.substr(0, value.find_last_not_of('.') + 1);
    if (number.find_first_not_of("-0123456789") == std::string_view::npos) value = number;
    if (!is_name(name)) return false;
    settings_.whole = false;
    add(name, value);
    return true;
  }

  /// "- name: NCCL_DEBUG" and, on a line below, "value: INFO".
  bool read_manifest(std::string_view line) {
    std::string_view item = line;
    if (item.starts_with("- ")) item = trimmed(item.substr(2));
    if (item.starts_with("name:")) {
      pending_ = unquoted(trimmed(item.substr(5)));
      return true;
    }
    if (!item.starts_with("value:") || !is_name(pending_)) return false;
    add(pending_, unquoted(trimmed(item.substr(6))));
    pending_.clear();
    return true;
  }

  /// mpirun -n 2 -x NCCL_DEBUG=INFO -x PATH program
  void read_mpirun(std::string_view line) {
    for (std::size_t at = line.find("-x "); at != std::string_view::npos; at = line.find("-x ", at + 3)) {
      const std::string_view rest = trimmed(line.substr(at + 3));
      const auto pair = split_at_equals(rest.substr(0, rest.find_first_of(" \t")));
      if (pair && is_name(pair->first)) add(pair->first, unquoted(pair->second));
    }
  }

  void remark_quotes(const Pair& pair) {
    const Setting setting{std::string(pair.first), std::string(pair.second), settings_.who, number_};
    settings_.remarks.push_back(
        remark("value-in-quotes", setting, text(pair.first, " has quotes in its value"),
               "leave the quotes out: only a shell takes them away, and NCCL, nccl.conf and "
               "docker --env-file do not"));
  }

  void read_configuration(std::string_view line) {
    if (line.starts_with('#') || trimmed(line).empty()) return;
    const auto pair = split_at_equals(line);
    if (!pair || !is_name(pair->first)) {
      const Setting all{"", std::string(line), settings_.who, number_};
      settings_.remarks.push_back(
          remark("conf-line-ignored", all, "a line sets nothing that NCCL reads",
                 "write NAME=VALUE from the first column on, without blanks around the =, without "
                 "export, and comments with # in the first column"));
      return;
    }
    std::string_view value = pair->second;
    const Setting setting{std::string(pair->first), std::string(value), settings_.who, number_};
    if (is_quoted(value)) remark_quotes(*pair);
    if (value != trimmed(value) || value.find(" #") != std::string_view::npos) {
      settings_.remarks.push_back(
          remark("conf-value-with-rest", setting,
                 text(pair->first, ": blanks, a comment or a carriage return belong to the value"),
                 "end the line after the value: NCCL takes all of the line"));
      value = trimmed(value.substr(0, value.find(" #")));
    }
    if (value.size() > longest_configured) {
      settings_.remarks.push_back(remark(
          "conf-value-cut", setting, text(pair->first, " has ", value.size(), " characters; NCCL takes 1023"),
          "shorten it, or set the variable in the environment"));
      value = value.substr(0, longest_configured);
    }
    add(pair->first, value);
  }

  Lines lines_;
  Settings settings_;
  std::string pending_;
  int number_ = 0;
};

}  // namespace

Lines lines_of(std::string_view file) {
  return file.ends_with(".conf") ? Lines::configuration : Lines::environment;
}

Settings read_settings(const std::string& content, const std::string& file, Lines lines) {
  if (content.empty()) throw Error(ErrorKind::usage, text(file, ": is empty"), "give the output of env");
  // /proc/PID/environ has a NUL after each setting.
  const bool nuls = content.find('\0') != std::string::npos;
  const char separator = nuls ? '\0' : '\n';
  Reader reader(file, lines);
  for (std::size_t from = 0; from < content.size();) {
    const std::size_t end = std::min(content.find(separator, from), content.size());
    const std::string_view line = std::string_view(content).substr(from, end - from);
    if (nuls && !split_at_equals(line) && !line.empty())
      throw Error(ErrorKind::usage, text(file, ": is a binary file"), "give the output of env, or nccl.conf");
    reader.read(line);
    from = end + 1;
  }
  Settings settings = std::move(reader).result();
  if (settings.values.empty() && settings.remarks.empty() && lines == Lines::environment) {
    throw Error(ErrorKind::usage, text(file, ": has no line NAME=VALUE"),
                "give the output of env, or a configuration file whose name ends in .conf");
  }
  return settings;
}

}  // namespace weft::report
