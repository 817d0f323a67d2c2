#pragma once
// One line about the job on a terminal: its ranks and hosts, how often it has started again, how long it runs, and what a rank said last.
//
//   weft-launch: 3 ranks on a, b; without c; 1 restart; 2 min 5 s; [0] gpt: 400 of 12000 steps, 3 min left
//
// It is redrawn every second, and removed before anything else is written. It is shown only if standard error is a terminal and the output of ranks
// passes through weft-launch (--hosts, or --output ranks); otherwise ranks draw their own lines there. A process has at most one.

#include <chrono>
#include <string>
#include <string_view>

#include "weft/core/deadline.hpp"

namespace weft::launch {

class LiveLine {
 public:
  explicit LiveLine(bool wanted);
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  /// A start of the job: "3 ranks on a, b; without c".
  void begin(const std::string& job, int restarts);
  /// What ranks wrote to standard error, whole lines with their labels: the last stays in the line.
  void hear(std::string_view lines);
  /// Draws it if a second has passed.
  void draw();
  void take_away();
  /// When to draw it next.
  Deadline next() const { return next_; }

 private:
  std::string words(std::size_t width) const;

  const bool shown_;
  bool is_drawn_ = false;
  std::string job_;
  std::string heard_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Deadline next_ = Deadline::never();
};

/// One line on standard error, where the line about the job stands.
void say(const std::string& line);
/// Takes the line about the job away, if there is one, before something is written to the terminal.
void make_room();

}  // namespace weft::launch
