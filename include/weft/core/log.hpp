#pragma once
// The lines that weft logs while it runs.
//
// A library must not choose the logger of the trainer that links it: weft passes each line to a `Sink`. The
// default sink prints to standard error the levels that WEFT_LOG allows, which are warn and error by default.
// A program with a logger of its own replaces the sink once, before it makes the first World. Any thread may
// call these functions.
//
//   weft::log::set_sink([](weft::log::Level level, std::string_view line) {
//     spdlog::log(to_spdlog(level), line);
//   });

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace weft::log {

enum class Level : std::uint8_t { off, error, warn, info, debug };

using Sink = std::function<void(Level, std::string_view line)>;

/// Replaces the sink; an empty one restores the default.
void set_sink(Sink sink);
/// What the default sink does: the line on standard error, as "weft warn: ...".
void print(Level level, std::string_view line);

/// Lines above this level are dropped before they reach a sink.
/// @throws Error (usage) for an unknown word in WEFT_LOG
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
