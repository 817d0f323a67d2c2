#include "collectives/nccl/issuer.hpp"

#include <exception>
#include <utility>

#include "weft/core/log.hpp"

namespace weft::detail::nccl {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 20ms;
constexpr int looks_before_sleep = 50;
constexpr auto tell_when_idle = 200ms;  // where ranks have to tell each other
// A rank that has done its part may leave while others still finish theirs, and NCCL may hear that a peer is
// gone before the node does: only what stays so is an error, and one that can name the rank.
constexpr auto grace = 1s;

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Error who_is_gone(PeerStatus* status, const Error& error) {
  if (error.kind() != ErrorKind::peer_lost || status == nullptr) return error;
  for (const Deadline deadline = Deadline::in(grace); !deadline.passed();
       std::this_thread::sleep_for(look_every)) {
    status->tell(true);
    if (const auto missing = status->lost(0)) return *missing;
  }
  return error;
}

Issuer::Issuer(std::unique_ptr<Communicator> comm, std::shared_ptr<Backend> host,
               std::chrono::nanoseconds timeout)
    : comm_(std::move(comm)),
      host_(std::move(host)),
      peer_status_(host_->peer_status()),
      tells_(peer_status_ != nullptr && peer_status_->needs_telling()),
      timeout_(timeout) {
  comm_->on_break([this](const Error& reason) { make_void(reason); });
  comm_->on_failure([this](const Error& error) { return who_is_gone(peer_status_, error); });
  watchdog_ = std::thread([this] { watch(); });
}

Issuer::~Issuer() {
  if (std::uncaught_exceptions() > 0)
    comm_->give_up(Error(ErrorKind::peer_lost, "left the communicator while an exception was thrown"));
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return flights_.empty(); });
    stopping_ = true;
  }
  wake_.notify_all();
  watchdog_.join();
  comm_->on_break({});  // its end may fail, when this is no longer there to hear of it
  comm_->on_failure({});
}

void Issuer::announce(const Description& what) {
  if (!what.collective || peer_status_ == nullptr || comm_->broken()) return;
  peer_status_->issued(*what.collective);
  try {
    peer_status_->compare(*what.collective);
  } catch (const Error& error) {
    comm_->give_up(error);
    throw;
  }
}

// Waking the watchdog costs a call of the system: it stays awake for a while.
Issuer::Ascent::Ascent(Issuer& issuer, Flight flight) : issuer_(issuer) {
  const std::lock_guard lock(issuer_.mutex_);
  issuer_.flights_.push_back(std::move(flight));
  if (std::exchange(issuer_.idle_, false)) issuer_.wake_.notify_all();
}

void Issuer::Ascent::handed_over(Point end) {
  const std::lock_guard lock(issuer_.mutex_);
  if (!issuer_.flights_.empty()) issuer_.flights_.back().end = std::move(end);  // else void meanwhile
}

Issuer::Ascent::~Ascent() {
  const std::lock_guard lock(issuer_.mutex_);
  auto& flights = issuer_.flights_;
  if (flights.empty() || flights.back().end) return;
  flights.pop_back();
  if (flights.empty()) issuer_.wake_.notify_all();
}

void Issuer::call_apart(const char* operation, Communicator::OwningCall call) {
  const std::lock_guard turn(calls_);
  try {
    comm_->call_apart(operation, std::move(call), [this] { look_for_the_lost(); });
  } catch (const Error& error) {
    throw error.in({rank(), operation, 0});
  }
}

std::unique_ptr<Communicator> Issuer::split(int color, int key, int rank, int size) {
  const std::lock_guard turn(calls_);
  try {
    return comm_->split(color, key, rank, size, [this] { look_for_the_lost(); });
  } catch (const Error& error) {
    throw error.in({this->rank(), "split", 0});
  }
}

bool Issuer::broken() const {
  return comm_->broken();
}

void Issuer::give_up(const Error& reason) noexcept {
  comm_->give_up(reason);
}

void Issuer::watch() {
  std::unique_lock lock(mutex_);
  int looks_at_nothing = 0;
  while (!stopping_) {
    if (flights_.empty() && ++looks_at_nothing > looks_before_sleep) {
      idle_ = true;
      const auto is_woken = [this] { return stopping_ || !idle_; };
      if (tells_) {
        wake_.wait_for(lock, tell_when_idle, is_woken);
      } else {
        wake_.wait(lock, is_woken);
      }
    } else {
      wake_.wait_for(lock, look_every, [this] { return stopping_; });
    }
    tell(lock);
    const auto error = look();
    if (!flights_.empty()) looks_at_nothing = 0;
    if (!error && !flights_.empty()) continue;
    lock.unlock();
    if (error) comm_->give_up(*error);
    wake_.notify_all();
    lock.lock();
  }
}

// It may take the time of a message to each rank, for which no operation waits.
void Issuer::tell(std::unique_lock<std::mutex>& lock) {
  if (!tells_ || stopping_) return;
  const bool is_active = !flights_.empty();
  lock.unlock();
  peer_status_->tell(is_active);
  lock.lock();
}

// A thread begins on device 0, and its first call there opens a context, which takes memory of that device.
void Issuer::use_device() {
  if (has_device_ || flights_.empty()) return;
  const cuda::Timeline& timeline = flights_.front().begin->timeline();
  timeline.runtime().make_current(timeline.device());
  has_device_ = true;
}

std::optional<Error> Issuer::look() {
  try {
    use_device();
    std::erase_if(flights_, [](const Flight& flight) { return flight.end && flight.end->reached(); });
    if (flights_.empty()) {
      trouble_since_.reset();
      return std::nullopt;
    }
    for (Flight& flight : flights_) {
      if (flight.what.collective && peer_status_ != nullptr) peer_status_->compare(*flight.what.collective);
      check_deadline(flight);
    }
    const auto missing = lost(flights_.front().what);
    const auto trouble = comm_->trouble();
    if (!missing && !trouble) {
      trouble_since_.reset();
    } else if (!trouble_since_) {
      trouble_since_ = Clock::now();
    } else if (Clock::now() - *trouble_since_ > grace) {
      return missing ? *missing : *trouble;
    }
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void Issuer::check_deadline(Flight& flight) const {
  if (!flight.began && (!flight.end || flight.begin->reached())) flight.began = Clock::now();
  if (!flight.began || Clock::now() - *flight.began < timeout_of(flight.what)) return;
  if (const auto missing = lost(flight.what)) throw Error(*missing);
  const std::string behind =
      flight.what.collective && peer_status_ != nullptr ? peer_status_->behind(flight.what.number) : "";
  throw Error(ErrorKind::timeout,
              text("waited ", seconds(Clock::now() - *flight.began), " s for ",
                   behind.empty() ? "the device, and no rank is known to be late" : behind),
              behind.empty()
                  ? "a device or the network between them is stuck: NCCL_DEBUG=INFO and dmesg say more"
                  : "look at what those ranks do, or raise the timeout",
              {rank(), flight.what.label, flight.what.number});
}

std::optional<Error> Issuer::lost(const Description& what) const {
  if (peer_status_ == nullptr) return std::nullopt;
  return peer_status_->lost(what.collective ? what.number : 0);
}

void Issuer::look_for_the_lost() const {
  if (const auto missing = lost({})) throw Error(*missing);
}

// Before NCCL ends: its kernels then return as if all were well.
void Issuer::make_void(const Error& reason) noexcept {
  try {
    std::function<void(const Error&)> hear;
    {
      const std::lock_guard lock(mutex_);
      for (const Flight& flight : flights_) {
        const Error theirs = reason.in({rank(), flight.what.label, flight.what.number});
        flight.begin->timeline().fail_after(flight.begin->place(), std::make_exception_ptr(theirs));
      }
      flights_.clear();
      hear = hear_;
    }
    log::debug(text("rank ", rank(), " gives up NCCL: ", reason.what()));
    if (hear) hear(reason.in({rank(), {}, 0}));
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): no memory for a message; the communicator ends all the same
  }
  host_->give_up(reason);
  wake_.notify_all();
}

}  // namespace weft::detail::nccl
