#include "common/outputs.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "common/command_line.hpp"
#include "common/late_warnings.hpp"
#include "common/progress.hpp"
#include "core/base/strings.hpp"
#include "core/files/output_file.hpp"
#include "weft/core/error.hpp"

namespace weft::tool {
namespace {

constexpr std::string_view standard_output = "-";

/// Whether both options would write one file; devices and pipes may be written twice.
bool is_one_file(const std::string& one, const std::string& other) {
  std::error_code unknown;
  if (one == standard_output || other == standard_output) return one == other;
  const auto place = std::filesystem::weakly_canonical(one, unknown);
  const bool is_device =
      std::filesystem::exists(place, unknown) && !std::filesystem::is_regular_file(place, unknown);
  return !is_device && place == std::filesystem::weakly_canonical(other, unknown);
}

}  // namespace

struct Outputs::State {
  struct Open {
    std::string path;
    std::optional<detail::OutputFile> file{};  // none: standard output

    void write(const std::string& content) {
      if (file) return file->write(content);
      tool::write(path, content);
    }
  };

  explicit State(std::string name) : program(std::move(name)) {}

  void await() {
    signals.async_wait([this](const boost::system::error_code& stopped, int signal) {
      if (!stopped) end(signal);
    });
    server = std::thread([this] { context.run(); });
  }
  std::ostream& people() const;
  std::string write_partial(const Kept& kept);
  [[noreturn]] void end(int signal);

  const std::string program;
  boost::asio::io_context context{1};
  boost::asio::signal_set signals{context, SIGINT, SIGTERM};
  std::thread server;
  bool speaks = true;
  std::mutex mutex;  // of what follows
  std::map<std::string, Open> open;
  std::function<Kept()> so_far;
};

std::ostream& Outputs::State::people() const {
  const bool figures_there = std::ranges::any_of(open, [](const auto& one) { return !one.second.file; });
  return figures_there ? std::cerr : std::cout;
}

/// @returns where it is
std::string Outputs::State::write_partial(const Kept& kept) {
  people() << kept.printed << std::flush;
  std::string written;
  for (const auto& [option, content] : kept.files) {
    const auto found = open.find(option);
    if (found == open.end()) continue;
    found->second.write(content);
    written += text(written.empty() ? "; partial figures: " : ", ", option, ' ',
                    detail::printable(found->second.path));
  }
  return written;
}

// The process ends here, without its destructors: another thread may be anywhere.
void Outputs::State::end(int signal) {
  const std::lock_guard lock(mutex);
  end_progress();
  std::string line = text(program, ": ended by ", signal == SIGINT ? "SIGINT" : "SIGTERM");
  try {
    const Kept kept = so_far ? so_far() : Kept();
    if (!kept.how_far.empty()) line += text(" after ", kept.how_far, write_partial(kept));
  } catch (const std::exception& error) {
    line += text("; ", message_of(error));
  }
  open.clear();
  if (speaks) std::cerr << line + "\n" << std::flush;
  print_warnings();
  std::_Exit(128 + signal);
}

Outputs::Outputs(std::string program) : state_(std::make_unique<State>(std::move(program))) {
  state_->await();
}

Outputs::~Outputs() {
  state_->context.stop();
  state_->server.join();
}

void Outputs::open(const std::string& option, const std::optional<std::string>& path) {
  if (!path) return;
  const std::lock_guard lock(state_->mutex);
  const std::string called = text(option, ' ', *path);
  if (path->empty()) throw Error(ErrorKind::usage, text(option, " names no file"));
  for (const auto& [other, there] : state_->open) {
    if (is_one_file(there.path, *path))
      throw Error(ErrorKind::usage, text(called, " is what ", other, " names, too"),
                  "give each a file of its own");
  }
  State::Open one{*path};
  if (*path != standard_output) one.file.emplace(*path, called);
  state_->open.emplace(option, std::move(one));
}

bool Outputs::has(const std::string& option) const {
  return state_->open.contains(option);
}

std::ostream& Outputs::people() const {
  return state_->people();
}

void Outputs::silence() {
  state_->speaks = false;
}

void Outputs::keep(std::function<Kept()> so_far) {
  const std::lock_guard lock(state_->mutex);
  state_->so_far = std::move(so_far);
}

void Outputs::change(const std::function<void()>& alter) {
  const std::lock_guard lock(state_->mutex);
  alter();
}

void Outputs::write(const Contents& contents) {
  const std::lock_guard lock(state_->mutex);
  std::optional<Error> failure;
  for (const auto& [option, content] : contents) {
    const auto found = state_->open.find(option);
    if (found == state_->open.end()) continue;
    try {
      found->second.write(content);
    } catch (const Error& error) {
      if (!failure) failure = error;  // the other files are written first
    }
    state_->open.erase(found);
  }
  if (failure) throw Error(*failure);
}

}  // namespace weft::tool
