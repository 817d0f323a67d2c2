#pragma once
// Where weft writes what it has to say while it runs.
//
// A library linked into somebody's trainer must not choose that trainer's logger: weft hands each line to a
// `Sink`. The default sink prints to standard error what WEFT_LOG allows (warn and worse unless told
// otherwise); a program with a logger of its own replaces it once, before the first World. Safe to call from
// any thread.
//
//   weft::log::set_sink([](weft::log::Level level, std::string_view line) { spdlog::log(to_spdlog(level),
//   line); });

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace weft::log {

enum class Level : std::uint8_t { off, error, warn, info, debug };

using Sink = std::function<void(Level, std::string_view line)>;

/// Replaces the sink; an empty one restores the default.
void set_sink(Sink sink);

/// Lines above this level are dropped before they reach any sink. @throws Error (usage) on an unknown word in
/// WEFT_LOG
Level level();
void set_level(Level level);

/// @throws Error (usage) when `word` is none of off, error, warn, info, debug
Level level_from(const std::string& word);

void write(Level level, std::string_view line);
inline void error(std::string_view line) {
  write(Level::error, line);
}
inline void warn(std::string_view line) {
  write(Level::warn, line);
}
inline void info(std::string_view line) {
  write(Level::info, line);
}
inline void debug(std::string_view line) {
  write(Level::debug, line);
}

}  // namespace weft::log
