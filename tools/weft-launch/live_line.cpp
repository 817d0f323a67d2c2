#include "live_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "common/progress.hpp"
#include "core/base/strings.hpp"
#include "weft/core/text.hpp"

namespace weft::launch {
namespace {

LiveLine* current = nullptr;  // weft-launch has one thread
constexpr std::chrono::seconds between_drawings{1};
constexpr const char* erase = "\r\033[K";

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

LiveLine::LiveLine(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) == 1) {
  if (shown_) current = this;
}

LiveLine::~LiveLine() {
  take_away();
  if (current == this) current = nullptr;
}

void LiveLine::begin(const std::string& job, int restarts) {
  if (!shown_) return;
  job_ = job;
  if (restarts > 0) job_ += text("; ", restarts, restarts == 1 ? " restart" : " restarts");
  heard_.clear();
  next_ = Deadline::in({});
}

void LiveLine::hear(std::string_view lines) {
  while (lines.ends_with('\n')) lines.remove_suffix(1);
  const std::size_t before = lines.rfind('\n');
  if (before != std::string_view::npos) lines.remove_prefix(before + 1);
  if (!lines.empty()) heard_ = detail::printable(lines);
}

std::string LiveLine::words(std::size_t width) const {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began_;
  std::string line = text("weft-launch: ", detail::printable(job_), "; ", tool::time_left(spent.count()));
  if (!heard_.empty()) line += "; " + heard_;
  if (line.size() < width) return line;
  line.resize(width - 1);
  while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0x80U) != 0)
    line.pop_back();  // no half character
  return line;
}

void LiveLine::draw() {
  if (!shown_ || job_.empty() || !next_.passed()) return;
  std::cerr << erase << words(terminal_width()) << std::flush;
  is_drawn_ = true;
  next_ = Deadline::in(between_drawings);
}

void LiveLine::take_away() {
  if (!std::exchange(is_drawn_, false)) return;
  std::cerr << erase << std::flush;
  next_ = Deadline::in({});  // it comes back after what is written
}

void make_room() {
  if (current != nullptr) current->take_away();
}

void say(const std::string& line) {
  make_room();
  std::cerr << "weft-launch: " << detail::printable(line) << '\n' << std::flush;
}

}  // namespace weft::launch
