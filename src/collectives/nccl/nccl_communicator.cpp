#include "collectives/nccl/nccl_communicator.hpp"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "weft/core/backoff.hpp"
#include "weft/core/log.hpp"

namespace weft::detail::nccl {
namespace {

ErrorKind kind_of(Result result) {
  switch (result) {
    case invalid_argument:
    case invalid_usage:
      return ErrorKind::usage;
    case remote_error:
      return ErrorKind::peer_lost;
    default:
      return ErrorKind::system;
  }
}

const char* advice_for(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "NCCL_DEBUG=WARN prints what it refuses; every rank needs a device of its own";
    case ErrorKind::peer_lost:
      return "another rank failed first: its own message says why";
    default:
      return "NCCL_DEBUG=INFO prints where; look at the driver's log (dmesg) too";
  }
}

}  // namespace

UniqueId Communicator::make_id(const Api& api) {
  UniqueId id;
  const Result result = api.GetUniqueId(&id);
  if (result != success) {
    throw Error(ErrorKind::system,
                text("NCCL makes no id for a new group: ", api.GetErrorString(result), ": ",
                     api.GetLastError(nullptr)),
                "it needs a network interface; NCCL_SOCKET_IFNAME names one");
  }
  return id;
}

Communicator::Communicator(std::shared_ptr<const Api> api, Comm* comm, int rank, int size, Options options)
    : api_(std::move(api)), comm_(comm), rank_(rank), size_(size), options_(options) {}

Communicator::Communicator(std::shared_ptr<const Api> api, const UniqueId& id, int rank, int size,
                           Options options, Deadline deadline)
    : Communicator(std::move(api), nullptr, rank, size, options) {
  Config wanted = config();
  // From here on the destructor runs, also when this throws: the object is complete.
  settle(api_->CommInitRankConfig(&comm_, size, id, rank, &wanted), "connect", deadline);
}

Communicator::~Communicator() {
  if (comm_ == nullptr) return;
  if (broken_ || std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  try {
    settle(api_->CommFinalize(comm_), "finalize", Deadline::in(options_.timeout));
    api_->CommDestroy(comm_);
  } catch (const Error& error) {
    log::warn(
        text("rank ", rank_, ": aborting an NCCL communicator that could not be ended: ", error.problem()));
    abort();
  }
}

Config Communicator::config() const {
  Config config = Config::for_library(api_->version);
  config.blocking = 0;
  if (options_.min_ctas) config.min_ctas = *options_.min_ctas;
  if (options_.max_ctas) config.max_ctas = *options_.max_ctas;
  config.split_share = options_.share_resources ? 1 : 0;
  return config;
}

void Communicator::expect_intact() const {
  if (broken_) throw Error(*broken_);
}

Result Communicator::state() const {
  Result state = success;
  const Result asked = api_->CommGetAsyncError(comm_, &state);
  return asked == success ? state : asked;
}

// Nothing else may be asked of the communicator, no event of its stream means anything, and what a call stores is not there
// before NCCL has said that it is done. A deadline that passes breaks it, which joins NCCL's thread (ncclGroupJobAbort):
// it stores nothing later.
Result Communicator::poll(Result result, const char* operation, Deadline deadline,
                          const std::function<void()>& meanwhile) {
  if (result == success && comm_ != nullptr) result = state();
  for (Backoff backoff; result == in_progress; backoff.pause()) {
    try {
      if (meanwhile) meanwhile();
    } catch (const Error& error) {
      give_up(error);
      throw;
    }
    if (deadline.passed()) {
      const Error error(
          ErrorKind::timeout, text("NCCL was still in progress after ", deadline.waited_seconds(), " s"),
          "a rank did not come, or the network between them is blocked; NCCL_DEBUG=INFO shows how far it got",
          {rank_, operation, 0});
      give_up(error);
      throw error;
    }
    if (comm_ != nullptr) result = state();
  }
  return result;
}

void Communicator::settle(Result result, const char* operation, Deadline deadline,
                          const std::function<void()>& meanwhile) {
  if (result = poll(result, operation, deadline, meanwhile); result != success) fail(result, operation);
}

Error Communicator::error_of(Result result, const char* operation) const {
  const ErrorKind kind = kind_of(result);
  return {kind,
          text("NCCL ", version_text(api_->version), ": ", api_->GetErrorString(result), ": ",
               api_->GetLastError(comm_)),
          advice_for(kind),
          {rank_, operation, 0}};
}

void Communicator::fail(Result result, const char* operation) {
  const Error error = error_of(result, operation);
  give_up(error);
  throw error;
}

std::optional<Error> Communicator::trouble() const {
  if (broken_) return broken_;
  const Result result = state();
  if (result == success || result == in_progress) return std::nullopt;
  return error_of(result, "");
}

// NCCL also stores a child whose making has failed (init.cc:1612), for its caller to abort.
std::unique_ptr<Communicator> Communicator::child(Result result, Comm*& part, int rank, int size,
                                                  const char* operation) {
  try {
    const Deadline deadline = Deadline::in(options_.timeout);
    if (result = poll(result, operation, deadline); result != success) {
      if (broken_) throw error_of(result, operation);
      fail(result, operation);
    }
    if (part == nullptr) return nullptr;
    std::unique_ptr<Communicator> made(new Communicator(api_, part, rank, size, options_));
    part = nullptr;
    made->settle(success, operation, deadline);
    return made;
  } catch (...) {
    if (part != nullptr) api_->CommAbort(part);
    throw;
  }
}

std::unique_ptr<Communicator> Communicator::split(int color, int key, int new_rank, int new_size) {
  expect_intact();
  Config wanted = config();
  Comm* part = nullptr;
  const Result result = api_->CommSplit(comm_, color, key, &part, &wanted);
  return child(result, part, new_rank, new_size, "split");
}

std::unique_ptr<Communicator> Communicator::shrink(std::span<const int> lost) {
  const int needed = broken_ ? version_code(2, 28, 7) : version_code(2, 27);
  if (api_->version < needed) {
    throw Error(ErrorKind::usage,
                text("NCCL ", version_text(api_->version), " cannot leave ranks out of ",
                     broken_ ? "a broken group" : "a group"),
                text("that came with ", version_text(needed), "; connect the ranks that are left anew"),
                {rank_, "shrink", 0});
  }
  std::vector<int> excluded(lost.begin(), lost.end());
  Config wanted = config();
  // What ended it may still be under way, and NCCL refuses a communicator that is in progress (init.cc:379).
  if (broken_) poll(success, "shrink", Deadline::in(options_.timeout));
  Comm* rest = nullptr;
  const Result result = api_->CommShrink(comm_, excluded.data(), static_cast<int>(excluded.size()), &rest,
                                         &wanted, broken_ ? shrink_abort : 0);
  const auto before = std::ranges::count_if(excluded, [&](int other) { return other < rank_; });
  return child(result, rest, rank_ - static_cast<int>(before), size_ - static_cast<int>(excluded.size()),
               "shrink");
}

// A rank that stops answering would leave kernels of this one waiting for ever, so pending work ends here and
// now: revoked, which keeps the communicator fit for shrink(), or aborted.
void Communicator::give_up(const Error& reason) noexcept {
  if (broken_) return;
  broken_ = reason;
  if (tell_) tell_(reason);
  if (api_->CommRevoke == nullptr) return abort();
  if (comm_ != nullptr) api_->CommRevoke(comm_, 0);
}

void Communicator::abort() noexcept {
  if (comm_ != nullptr) api_->CommAbort(std::exchange(comm_, nullptr));
}

}  // namespace weft::detail::nccl
