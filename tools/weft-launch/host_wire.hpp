#pragma once
// What weft-launch and its own process on a host, `weft-launch host`, tell each other through the agent that starts it (ssh).
//
// To the host: the job as one line of JSON, then a line for each signal that its ranks are to get ("15"). The end of
// the stream, however it comes, ends them all. The token is in the job, so that it stands in no command line.
// From the host: a greeting, before which a login shell may have printed anything; then frames.

#include <cstdint>
#include <string>

#include "local_ranks.hpp"

namespace weft::launch {

/// "weft-host 0.1.0\n"
std::string greeting();
inline constexpr std::string_view greeting_mark = "weft-host ";

enum class FrameKind : std::uint32_t { output = 'o', errors = 'e', exited = 'x', killed = 'k' };

/// The header of a frame. `bytes` bytes follow: what a rank wrote, or its process number and why it ended, a line each.
struct Frame {
  FrameKind kind{};
  std::int32_t rank = 0;
  std::int32_t number = 0;  ///< status or signal of a rank that has ended
  std::uint32_t bytes = 0;
};
inline constexpr std::uint32_t most_framed = 1 << 20;

/// The job of a host.
struct HostJob {
  Job job;
  Share share;
  std::string folder;  ///< in which the program starts
};
/// One line of JSON, whose strings are the bytes that a process gets: they need not be UTF-8.
std::string to_line(const HostJob& job);
/// @throws Error (usage) if to_line() did not make this line
HostJob from_line(const std::string& line);

}  // namespace weft::launch
