#include "weft/core/log.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

#include "core/base/file_limit.hpp"
#include "core/base/strings.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::log {
namespace {

constexpr std::array<const char*, 5> words{"off", "error", "warn", "info", "debug"};
constexpr int unset = -1;

// One sink and one level for the process, as there is one standard error.
std::mutex mutex;
Sink current_sink;
std::atomic<int> current_level{unset};

}  // namespace

void print(Level level, std::string_view line) {
  const detail::FileLimitIsAnError limit;  // a log file that is full ends no training
  std::fprintf(stderr, "weft %s: %.*s\n", words[static_cast<std::size_t>(level)],
               static_cast<int>(line.size()), line.data());
}

Level level_from(const std::string& word) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (word == words[i]) return static_cast<Level>(i);
  }
  throw Error(ErrorKind::usage, text(env::log.name, "=", word, " is none of off, error, warn, info, debug"));
}

void set_sink(Sink sink) {
  const std::lock_guard lock(mutex);
  current_sink = std::move(sink);
}

void set_level(Level level) {
  current_level = static_cast<int>(level);
}

Level level() {
  int value = current_level.load();
  if (value == unset) {
    value = static_cast<int>(level_from(Environment::of_process().value(env::log)));
    current_level = value;
  }
  return static_cast<Level>(value);
}

void write(Level line_level, std::string_view line) {
  if (line_level == Level::off || line_level > level()) return;
  const std::string safe = detail::printable(line);
  const std::lock_guard lock(mutex);
  if (current_sink) {
    current_sink(line_level, safe);
  } else {
    print(line_level, safe);
  }
}

}  // namespace weft::log
