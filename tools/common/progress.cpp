#include "common/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "weft/core/text.hpp"

namespace weft::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_drawings{250};
constexpr std::chrono::seconds first_plain_line{2};
constexpr std::chrono::seconds between_plain_lines{10};
constexpr const char* erase = "\r\033[K";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A signal ends the process from a thread of its own, which knows no Progress.
std::mutex current_mutex;
std::function<void()> end_current;

}  // namespace

struct Progress::State {
  State(std::string name, bool terminal) : program(std::move(name)), is_terminal(terminal) {}

  void serve() {
    std::unique_lock lock(mutex);
    while (!is_over) {
      if (is_terminal || Clock::now() >= next_plain) draw();
      changed.wait_for(lock, between_drawings, [this] { return is_over; });
    }
  }
  void draw() {
    if (is_over || (what.empty() && total == 0)) return;
    if (is_terminal) {
      std::cerr << erase << words() << std::flush;
      is_drawn = true;
    } else {
      std::cerr << words() + "\n" << std::flush;
      next_plain = Clock::now() + between_plain_lines;
    }
  }
  void end() {
    is_over = true;
    take_away();
  }
  void take_away() {
    if (std::exchange(is_drawn, false)) std::cerr << erase << std::flush;
  }
  std::string words() const {
    const double spent = seconds_since(began);
    if (total == 0) return text(program, ": preparing: ", what, ", ", static_cast<std::int64_t>(spent), " s");
    std::string line = text(program, ": ", what, done, " of ", total, ' ', parts);
    if (done > 0 && done < total) line += text(", ", time_left(spent * (1 / share_done() - 1)), " left");
    return line;
  }
  double share_done() const {
    if (weights.empty()) return static_cast<double>(done) / static_cast<double>(total);
    return std::accumulate(weights.begin(), weights.begin() + done, 0.0) /
           std::accumulate(weights.begin(), weights.end(), 0.0);
  }

  const std::string program;
  const bool is_terminal;
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::string what;
  std::string parts;
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::vector<double> weights;  // of the parts; none where they are alike
  Clock::time_point began = Clock::now();
  Clock::time_point next_plain = Clock::now() + first_plain_line;
  bool is_drawn = false;
  bool is_over = false;
  std::thread drawer;
};

std::string time_left(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::max(0.0, seconds)));
  if (whole < 60) return text(whole, " s");
  if (whole < 3600) return text(whole / 60, " min ", whole % 60, " s");
  return text(whole / 3600, " h ", whole % 3600 / 60, " min");
}

Progress::Progress(std::string program, Quiet quiet) {
  if (quiet == Quiet::yes) return;
  state_ = std::make_shared<State>(std::move(program), isatty(STDERR_FILENO) == 1);
  state_->drawer = std::thread([state = state_.get()] { state->serve(); });
  const std::lock_guard lock(current_mutex);
  end_current = [state = state_] {
    // What prints may be stuck, at a pipe that nothing reads: the process ends all the same.
    const std::unique_lock drawing(state->mutex, std::try_to_lock);
    if (drawing.owns_lock()) state->end();
  };
}

Progress::~Progress() {
  end();
}

void Progress::prepare(std::string what) {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  state_->what = std::move(what);
  state_->total = 0;
  state_->began = Clock::now();
  if (state_->is_terminal) state_->draw();
}

void Progress::begin(std::string parts, std::int64_t total) {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  state_->parts = std::move(parts);
  state_->total = total;
  state_->done = 0;
  state_->weights.clear();
  state_->what.clear();
  state_->began = Clock::now();
}

void Progress::begin(std::string parts, std::vector<double> weights) {
  if (!state_) return;
  begin(std::move(parts), static_cast<std::int64_t>(weights.size()));
  const std::lock_guard lock(state_->mutex);
  state_->weights = std::move(weights);
}

void Progress::advance() {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  state_->done = std::min(state_->done + 1, state_->total);
}

void Progress::doing(std::string what) {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  state_->what = std::move(what) + ", ";
  if (state_->is_terminal) state_->draw();
}

void Progress::aside(const std::function<void()>& print) {
  if (!state_) return print();
  const std::lock_guard lock(state_->mutex);
  state_->take_away();
  print();
}

void Progress::end() {
  if (!state_) return;
  {
    const std::lock_guard lock(current_mutex);
    end_current = nullptr;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->end();
  }
  state_->changed.notify_all();
  state_->drawer.join();
  state_.reset();
}

void end_progress() {
  const std::lock_guard lock(current_mutex);
  if (const auto end = std::exchange(end_current, nullptr)) end();
}

}  // namespace weft::tool
