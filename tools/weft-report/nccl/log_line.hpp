#pragma once
// One line of an NCCL log, taken apart.
//
//   gn41:78291:30341 [3] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion with error 12
//   host pid   tid   dev source                     level  message
//
// The level is found first and the rest is read backwards from it, for the time stamp before the host has any form the user likes,
// and launchers put tags before it: "[1,3]<stdout>:", "3: ", "[rank3]:", "(pid=77) ", Kubernetes' and journald's time stamps.
// Views point into the line that was given.

#include <cstdint>
#include <string_view>

namespace weft::report::nccl {

enum class Level : std::uint8_t { none, info, warn, call, trace };

struct LogLine {
  Level level = Level::none;  ///< none: not a line of NCCL
  std::string_view host{};    ///< empty: the line does not say
  std::int64_t pid = 0;       ///< 0: the line does not say, also for tid
  std::int64_t tid = 0;
  int device = -1;             ///< the CUDA device of the thread; -1: the line does not say
  std::string_view stamp{};    ///< all that stands before the host: time stamp and tags of launchers
  std::string_view source{};   ///< "transport/net_ib.cc:839"
  std::string_view message{};  ///< after the level; the whole line where it is not one of NCCL
};

/// Takes any bytes. A carriage return at the end is left out.
LogLine parse_log_line(std::string_view line);

/// The decimal or, after "0x", hexadecimal number at the start of `words`; `otherwise` where there is none or it is too large.
std::int64_t number_in(std::string_view words, std::int64_t otherwise);
/// The word after `label`: word_after("comm 0x1 rank 8 nranks 16", "nranks ") is "16". Empty where there is none.
std::string_view word_after(std::string_view words, std::string_view label);

}  // namespace weft::report::nccl
