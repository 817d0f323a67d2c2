#include "collectives/nccl/nccl_communicator.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/nccl/separate_call.hpp"
#include "core/streams/interruption.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/log.hpp"

namespace weft::detail::nccl {
namespace {

using namespace std::chrono_literals;

// Looks at the others while a call waits: who is gone is told a quarter of a second late at most, and hundreds of ranks that connect for
// seconds, on few cores, do not spend them on looks.
constexpr std::chrono::nanoseconds first_look = 20ms;
constexpr std::chrono::nanoseconds last_look = 250ms;
constexpr auto time_to_return = 2s;  // of a call that was ended
constexpr auto time_to_end = 10s;    // for NCCL to end what is under way

Result destroy_it(const Api& api, Comm* comm) {
  return api.CommDestroy(comm);
}
Result revoke_it(const Api& api, Comm* comm) {
  return api.CommRevoke(comm, 0);
}

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
    : api_(std::move(api)), rank_(rank), size_(size), options_(std::move(options)), comm_(comm) {}

// A call that is given up on is not aborted: NCCL would free what its thread uses. It is left behind with what it has made.
Communicator::Communicator(std::shared_ptr<const Api> api, const UniqueId& id, int rank, int size,
                           Options options, Deadline deadline, const Meanwhile& meanwhile)
    : Communicator(std::move(api), nullptr, rank, size, std::move(options)) {
  const auto made = std::make_shared<Comm*>(nullptr);
  const Result result = wait_apart(
      "connect",
      [made, api = api_, size, id, rank, wanted = config()]() mutable {
        return api->CommInitRankConfig(made.get(), size, id, rank, &wanted);
      },
      deadline, meanwhile);
  comm_ = *made;
  // From here on the destructor runs, also when this throws: the object is complete.
  conclude(poll(result, "connect", deadline, meanwhile), "connect");
}

Communicator::~Communicator() {
  if (comm_ == nullptr) return;
  if (broken_ || std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  try {
    conclude(wait_apart("finalize", [api = api_, comm = comm_] { return api->CommFinalize(comm); },
                        Deadline::in(options_.timeout), {}),
             "finalize");
    if (end_now(destroy_it, comm_)) return;
  } catch (const Error& error) {
    log::warn(
        text("rank ", rank_, ": aborting an NCCL communicator that could not be ended: ", error.problem()));
  } catch (const std::exception& error) {
    log::warn(text("rank ", rank_, ": an NCCL communicator's end: ", message_of(error)));
  }
  abort();
}

Config Communicator::config() const {
  Config config = Config::for_library(api_->version);
  config.blocking = 1;
  config.set(options_.nccl);
  config.split_share = options_.share_resources ? 1 : 0;
  return config;
}

std::optional<Error> Communicator::reason() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

bool Communicator::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_.has_value();
}

Communicator::Calling::Calling(const Communicator& comm, bool may_be_broken) : communicator_(comm) {
  const std::lock_guard lock(comm.mutex_);
  if (comm.broken_ && !may_be_broken) throw Error(*comm.broken_);
  comm_ = comm.comm_;
  ++comm.calls_;
}

Comm* Communicator::current() const {
  const std::lock_guard lock(mutex_);
  return comm_;
}

// Under the lock, for another thread may be about to free the communicator.
Result Communicator::state() const {
  const std::lock_guard lock(mutex_);
  return state_of(comm_);
}

Result Communicator::state_of(Comm* comm) const {
  if (comm == nullptr) return internal_error;
  Result state = success;
  const Result asked = api_->CommGetAsyncError(comm, &state);
  return asked == success ? state : asked;
}

Error Communicator::late(const char* operation, Deadline deadline) const {
  return {ErrorKind::timeout,
          text("NCCL was still in progress after ", deadline.waited_seconds(), " s"),
          "a rank did not come, or the network between them is blocked; NCCL_DEBUG=INFO shows how far it got",
          {rank_, operation, 0}};
}

Result Communicator::wait_apart(const char* operation, std::function<Result()> call, Deadline deadline,
                                const Meanwhile& meanwhile) {
  const bool was_broken = broken();
  SeparateCall apart(options_.enter, std::move(call));
  try {
    auto between_looks = first_look;
    while (!apart.wait_for(std::min(between_looks, deadline.left()))) {
      look_up(operation, was_broken, deadline, meanwhile);
      between_looks = std::min(last_look, between_looks + between_looks / 8);
    }
  } catch (const Error& error) {
    give_up(error);
    if (current() != nullptr) apart.wait_for(time_to_return);  // else nothing ends it
    throw;
  }
  return apart.result();
}

void Communicator::look_up(const char* operation, bool was_broken, Deadline deadline,
                           const Meanwhile& meanwhile) const {
  if (const auto why = reason(); why && !was_broken) throw Error(*why);  // another thread gave up
  if (meanwhile) meanwhile();
  if (deadline.passed()) throw late(operation, deadline);
}

// What a call stores is not there before NCCL has said that it is done. A deadline that passes breaks the communicator, which joins NCCL's
// thread (ncclGroupJobAbort): it stores nothing later.
Result Communicator::poll(Result result, const char* operation, Deadline deadline,
                          const Meanwhile& meanwhile) {
  const bool was_broken = broken();
  if (result == success) result = state();
  for (Backoff backoff; result == in_progress; backoff.pause()) {
    try {
      look_up(operation, was_broken, deadline, meanwhile);
      Interruption::look();
    } catch (const Error& error) {
      give_up(error);
      throw;
    } catch (...) {
      give_up(Error(ErrorKind::peer_lost, "a signal ended the program's wait for NCCL"));
      throw;
    }
    result = state();
  }
  return result;
}

Error Communicator::error_of(Result result, const char* operation) const {
  const ErrorKind kind = kind_of(result);
  return {kind,
          text("NCCL ", version_text(api_->version), ": ", api_->GetErrorString(result), ": ",
               api_->GetLastError(nullptr)),
          advice_for(kind),
          {rank_, operation, 0}};
}

// Who gave up while NCCL was called knows more than NCCL's answer says.
void Communicator::conclude(Result result, const char* operation, std::chrono::nanoseconds timeout) {
  if (result == in_progress)
    result = poll(result, operation, Deadline::in(timeout.count() > 0 ? timeout : options_.timeout));
  if (const auto why = reason()) throw Error(*why);
  if (result == success) return;
  const Error error = error_of(result, operation);
  give_up(explain_ ? explain_(error) : error);
  throw Error(reason().value_or(error));
}

void Communicator::call_apart(const char* operation, OwningCall call, const Meanwhile& meanwhile) {
  const Deadline deadline = Deadline::in(options_.timeout);
  const Calling calling(*this);
  const Result result = wait_apart(
      operation, [api = api_, comm = calling.comm(), call = std::move(call)] { return call(*api, comm); },
      deadline, meanwhile);
  conclude(poll(result, operation, deadline, meanwhile), operation);
}

std::optional<Error> Communicator::trouble() const {
  Result result = success;
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return broken_;
    if (calls_ > 0) return std::nullopt;
    result = state_of(comm_);
  }
  if (result == success || result == in_progress) return std::nullopt;
  return error_of(result, "");
}

// A rank that stops answering would leave kernels of this one waiting for ever, so pending work ends here and
// now.
void Communicator::give_up(const Error& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return;
    broken_ = reason;
  }
  if (tell_) tell_(reason);
  end_what_is_under_way();
}

// On a thread of its own: it may not return.
bool Communicator::end_now(End end, Comm* comm) const noexcept {
  try {
    SeparateCall apart(options_.enter, [api = api_, end, comm] { return end(*api, comm); });
    return apart.wait_for(time_to_end) && apart.result() == success;
  } catch (const std::exception& error) {  // a lost device, which was reported where it was found
    if (!broken() && std::uncaught_exceptions() == 0)
      log::warn(text("rank ", rank_, ": the end of an NCCL communicator: ", message_of(error)));
    return false;
  }
}

// Revoked it is fit for shrink(). NCCL does not revoke what is being finalized (init.cc:2457).
void Communicator::end_what_is_under_way() noexcept {
  Comm* const comm = current();
  if (comm == nullptr) return;
  if (api_->CommRevoke == nullptr || !end_now(revoke_it, comm)) abort();
}

void Communicator::abort() noexcept {
  Comm* comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) end_now(aborting, comm);
}

}  // namespace weft::detail::nccl
