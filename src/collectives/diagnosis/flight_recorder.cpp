#include "weft/collectives/flight_recorder.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "collectives/diagnosis/record_file.hpp"
#include "core/base/strings.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

using detail::json_string;

template <class Clock>
std::int64_t now() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string list(const std::vector<std::weak_ptr<const FlightNote>>& notes) {
  std::string result = "[";
  for (const auto& one : notes) {
    const auto note = one.lock();
    if (!note) continue;
    if (result.size() > 1) result += ",\n";
    result += note->json();
  }
  result += ']';
  return result;
}

// A signal is the process's, and so is the list of who hears it.
std::mutex all_mutex;
std::vector<FlightRecorder*> all;
int signalled = -1;

void write_all() {
  const std::lock_guard lock(all_mutex);
  for (FlightRecorder* one : all) one->dump("signal");
}

void on_signal(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(signalled, &one, sizeof(one));
  errno = saved;
}

}  // namespace

FlightRecorder::FlightRecorder(int rank, int size, std::string folder)
    : rank_(rank), size_(size), folder_(std::move(folder)) {
  const std::lock_guard lock(all_mutex);
  all.push_back(this);
}

FlightRecorder::~FlightRecorder() {
  const std::lock_guard lock(all_mutex);
  std::erase(all, this);
}

void FlightRecorder::raised(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!raised_) raised_ = Raised{error, now<std::chrono::steady_clock>()};  // clang 14 knows no () of it
}

void FlightRecorder::add(std::weak_ptr<const FlightNote> note) {
  const std::lock_guard lock(mutex_);
  std::erase_if(notes_, [](const auto& one) { return one.expired(); });
  notes_.push_back(std::move(note));
}

void FlightRecorder::add_communicator(std::weak_ptr<const FlightNote> operations) {
  const std::lock_guard lock(mutex_);
  std::erase_if(communicators_, [](const auto& one) { return one.expired(); });
  communicators_.push_back(std::move(operations));
}

std::string FlightRecorder::json(std::string_view reason) const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  out << R"({"weft_flight":1,"rank":)" << rank_ << ",\"size\":" << size_
      << ",\"host\":" << json_string(host_name()) << ",\"pid\":" << getpid()
      << ",\"reason\":" << json_string(reason)
      << ",\n\"clock\":{\"steady_ns\":" << now<std::chrono::steady_clock>()
      << ",\"wall_ns\":" << now<std::chrono::system_clock>() << "},\n";
  if (raised_) {
    const ErrorContext& context = raised_->error.context();
    out << "\"error\":{\"kind\":" << json_string(name(raised_->error.kind()))
        << ",\"message\":" << json_string(raised_->error.problem())
        << ",\"operation\":" << json_string(context.operation) << ",\"number\":" << context.number
        << ",\"at_ns\":" << raised_->at << "},\n";
  }
  out << "\"progress\":" << list(notes_) << ",\n\"communicators\":" << list(communicators_) << "}\n";
  return std::move(out).str();
}

void FlightRecorder::dump(std::string_view reason) noexcept {
  if (folder_.empty()) return;
  try {
    const std::lock_guard lock(writing_);
    const std::string file = text("rank-", rank_, ".json");
    const std::string path = text(folder_, "/", file);
    const bool own = folder_.starts_with("/tmp/weft-flight-");  // others can foresee its name
    detail::write_record(folder_, file, json(reason), own);
    // The watchdog hears of an error before those who wait do.
    const bool is_told = reason == "error" && std::exchange(has_told_of_error_, true);
    if (is_told) return;
    log::warn(text("rank ", rank_, ": flight record in ", path, "; weft-report flight ", folder_,
                   " says which rank held the others up"));
  } catch (const Error& error) {
    const std::string& advice = error.advice();
    log::warn(
        text("rank ", rank_, ": no flight record: ", error.problem(), advice.empty() ? "" : "; ", advice));
  } catch (const std::exception& error) {
    log::warn(text("rank ", rank_, ": no flight record: ", message_of(error)));
  }
}

// A later process may have the same number, and its job would find this one's records in its folder.
std::string FlightRecorder::process_name() {
  static const std::string digits = [] {
    std::random_device random;
    const std::array<unsigned char, 3> bytes{static_cast<unsigned char>(random()),
                                             static_cast<unsigned char>(random()),
                                             static_cast<unsigned char>(random())};
    return detail::hex_digits(bytes);
  }();
  std::string name = text(host_name(), '-', getpid(), '-', digits);
  const auto is_odd = [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; };
  std::ranges::replace_if(name, is_odd, '_');
  return name;
}

void FlightRecorder::dump_on_sigusr2() {
  static std::once_flag once;
  std::call_once(once, [] {
    signalled = eventfd(0, EFD_CLOEXEC);
    if (signalled < 0) throw system_error("cannot make an event for SIGUSR2");
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    if (sigaction(SIGUSR2, &action, nullptr) != 0) throw system_error("cannot handle SIGUSR2");
    // For as long as the process lives; a handler itself may hardly do anything.
    std::thread([] {
      std::uint64_t count = 0;
      while (read(signalled, &count, sizeof(count)) == sizeof(count) || errno == EINTR) write_all();
    }).detach();
  });
}

}  // namespace weft
