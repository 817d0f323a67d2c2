#include "collectives/nccl/issuer.hpp"

#include <exception>

#include "weft/core/log.hpp"

namespace weft::detail::nccl {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 20ms;
// A rank that has done its part may leave while others still finish theirs, and NCCL may hear that a peer is
// gone before the node does: only what stays so is an error, and one that can name the rank.
constexpr auto grace = 1s;

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Error lost_error(const std::string& missing) {
  return Error(ErrorKind::peer_lost, missing, "its own message says why");
}

}  // namespace

Issuer::Issuer(std::unique_ptr<Communicator> comm, std::shared_ptr<Backend> host,
               std::chrono::nanoseconds timeout)
    : comm_(std::move(comm)), host_(std::move(host)), peer_status_(host_->peer_status()), timeout_(timeout) {
  comm_->on_break([this](const Error& reason) { make_void(reason); });
  watchdog_ = std::thread([this] { watch(); });
}

Issuer::~Issuer() {
  {
    std::unique_lock lock(mutex_);
    if (std::uncaught_exceptions() > 0) {
      comm_->give_up(Error(ErrorKind::peer_lost, "left the communicator while an exception was thrown"));
    }
    wake_.wait(lock, [this] { return flights_.empty(); });
    stopping_ = true;
  }
  wake_.notify_all();
  watchdog_.join();
  comm_->on_break({});  // its end may fail, when this is no longer there to hear of it
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

void Issuer::take_off(const Description& what, Point begin, Point end) {
  flights_.push_back({what, std::move(begin), std::move(end)});
  if (flights_.size() == 1) wake_.notify_all();
}

std::unique_ptr<Communicator> Issuer::split(int color, int key, int rank, int size) {
  const std::lock_guard lock(mutex_);
  return comm_->split(color, key, rank, size);
}

bool Issuer::broken() const {
  const std::lock_guard lock(mutex_);
  return comm_->broken();
}

void Issuer::give_up(const Error& reason) noexcept {
  const std::lock_guard lock(mutex_);
  comm_->give_up(reason);
}

void Issuer::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (flights_.empty()) {
      wake_.wait(lock, [this] { return stopping_ || !flights_.empty(); });
    } else {
      wake_.wait_for(lock, look_every);
    }
    look();
    if (flights_.empty()) wake_.notify_all();
  }
}

// A thread begins on device 0, and its first call there opens a context, which takes memory of that device.
void Issuer::use_device() {
  if (has_device_ || flights_.empty()) return;
  const cuda::Timeline& timeline = flights_.front().begin->timeline();
  timeline.runtime().make_current(timeline.device());
  has_device_ = true;
}

void Issuer::look() {
  try {
    use_device();
    std::erase_if(flights_, [](const Flight& flight) { return flight.end->reached(); });
    if (flights_.empty()) {
      trouble_since_.reset();
      return;
    }
    Flight& first = flights_.front();
    for (Flight& flight : flights_) {
      if (flight.what.collective && peer_status_ != nullptr) peer_status_->compare(*flight.what.collective);
      check_deadline(flight);
    }
    const auto missing = lost(first.what);
    const auto trouble = comm_->trouble();
    if (!missing && !trouble) {
      trouble_since_.reset();
    } else if (!trouble_since_) {
      trouble_since_ = Clock::now();
    } else if (Clock::now() - *trouble_since_ > grace) {
      throw missing ? lost_error(*missing) : *trouble;
    }
  } catch (const Error& error) {
    comm_->give_up(error);
  }
}

void Issuer::check_deadline(Flight& flight) const {
  if (!flight.began && flight.begin->reached()) flight.began = Clock::now();
  if (!flight.began || Clock::now() - *flight.began < timeout_) return;
  if (const auto missing = lost(flight.what)) throw lost_error(*missing);
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

std::optional<std::string> Issuer::lost(const Description& what) const {
  if (peer_status_ == nullptr) return std::nullopt;
  return peer_status_->lost(what.collective ? what.number : 0);
}

// NCCL connects ranks at their first operation, in the issuing thread's time.
void Issuer::look_around(const Description& what) {
  if (peer_status_ == nullptr || Clock::now() < next_look_) return;
  next_look_ = Clock::now() + look_every;  // it asks the system about every peer
  if (what.collective) peer_status_->compare(*what.collective);
  if (const auto missing = lost(what)) throw lost_error(*missing);
}

// Before NCCL ends: its kernels then return as if all were well.
void Issuer::make_void(const Error& reason) noexcept {
  try {
    for (const Flight& flight : flights_) {
      const Error theirs = reason.in({rank(), flight.what.label, flight.what.number});
      flight.begin->timeline().fail_after(flight.begin->place(), std::make_exception_ptr(theirs));
    }
    log::debug(text("rank ", rank(), " gives up NCCL: ", reason.what()));
    if (hear_) hear_(reason.in({rank(), {}, 0}));
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): no memory for a message; the communicator ends all the same
  }
  flights_.clear();
  host_->give_up(reason.problem());
  wake_.notify_all();
}

}  // namespace weft::detail::nccl
