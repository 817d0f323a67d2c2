#include "collectives/communicator_state.hpp"

#include <algorithm>
#include <charconv>

#include "core/stream_state.hpp"
#include "weft/core/error.hpp"

namespace weft {

void Work::wait(Deadline deadline) const {
  try {
    event_.wait(deadline);
  } catch (const Error& error) {
    throw error.in({-1, std::string(operation_), number_});
  }
}

namespace detail {
namespace {

/// An operation as its stream sees it: the backend's task, with context on its errors and a span in the
/// trace.
class IssuedTask final : public Task {
 public:
  /// @param trace for a span of the host's time, or null
  IssuedTask(std::shared_ptr<CommunicatorState> state, std::unique_ptr<Task> task, std::string_view operation,
             std::uint64_t number, std::shared_ptr<Trace> trace)
      : state_(std::move(state)),
        task_(std::move(task)),
        operation_(operation),
        number_(number),
        trace_(std::move(trace)) {}

  bool advance() override {
    state_->expect_intact();
    if (trace_ && !begin_) {
      begin_ = Trace::Clock::now();
      sent_before_ = state_->backend().network_bytes();
    }
    try {
      if (!task_->advance()) return false;
    } catch (const Error& error) {
      const Error enriched = state_->in_context(error, operation_, number_);
      state_->fail(enriched);
      throw enriched;
    }
    if (trace_) record();
    return true;
  }
  void rest(std::chrono::microseconds at_most) override { task_->rest(at_most); }

 private:
  // Operations that use the network follow each other, so what went out meanwhile is this one's.
  void record() {
    std::vector<Trace::Figure> figures;
    const std::uint64_t sent = state_->backend().network_bytes() - sent_before_;
    if (sent > 0) figures.push_back({"network_bytes", sent});
    trace_->span("communicator", text(operation_, " #", number_), *begin_, Trace::Clock::now(),
                 std::move(figures));
  }

  std::shared_ptr<CommunicatorState> state_;
  std::unique_ptr<Task> task_;
  std::string_view operation_;  // one of the names that last for ever
  std::uint64_t number_;
  std::shared_ptr<Trace> trace_;
  std::optional<Trace::Clock::time_point> begin_;
  std::uint64_t sent_before_ = 0;
};

}  // namespace

CommunicatorState::CommunicatorState(std::shared_ptr<Backend> backend, std::shared_ptr<Rendezvous> rendezvous,
                                     Topology topology, std::chrono::nanoseconds timeout,
                                     std::shared_ptr<Trace> trace)
    : backend_(std::move(backend)),
      rendezvous_(std::move(rendezvous)),
      rank_(rendezvous_->rank()),
      size_(rendezvous_->size()),
      topology_(std::move(topology)),
      timeout_(timeout),
      trace_(std::move(trace)) {}

Work CommunicatorState::issue(Operation&& operation, const Stream& stream, Payload payload) {
  expect_intact();
  const std::string_view label = name(operation.kind);
  const Device memory = operation.kind == Collective::barrier ? stream.device() : operation.in.device();
  check_stream(label, memory, stream);
  operation.number = memory.is_host() ? ++collectives_ : ++device_collectives_;
  sent_ += payload.whole;
  shared_ += payload.shared;
  const bool its_turn =
      memory.is_host() && backend_->overlaps() && !trace_ && Behind::of(stream)->takes_work_at_once();
  auto task = its_turn ? begin(operation, stream) : backend_->start(operation, stream);
  if (!task) return {Event(), label, operation.number};
  if (backend_->overlaps() || !memory.is_host())
    return {submit(std::move(task), label, operation.number, stream), label, operation.number};
  Stream(stream).wait(last_);
  last_ = submit(std::move(task), label, operation.number, stream);
  return {last_, label, operation.number};
}

std::unique_ptr<Task> CommunicatorState::begin(const Operation& operation, const Stream& stream) {
  class Failed final : public Task {
   public:
    explicit Failed(std::exception_ptr error) : error_(std::move(error)) {}
    bool advance() override { std::rethrow_exception(error_); }

   private:
    std::exception_ptr error_;
  };
  try {
    return backend_->begin(operation, stream);
  } catch (...) {  // is the stream's error, as it would be a moment later
    return std::make_unique<Failed>(std::current_exception());
  }
}

Work CommunicatorState::issue(std::vector<Transfer> transfers, const Stream& stream) {
  expect_intact();
  for (const Transfer& transfer : transfers) {
    if (transfer.sends && transfer.peer != rank()) sent_ += transfer.out.size_bytes();
  }
  constexpr std::string_view label = "send/receive group";
  const Device memory = transfers.empty() ? stream.device() : transfers.front().device();
  for (const Transfer& transfer : transfers) check_stream(label, transfer.device(), stream);
  auto task = backend_->start(std::move(transfers), stream);
  const std::uint64_t number = ++groups_;
  if (!memory.is_host()) return {submit(std::move(task), label, number, stream), label, number};
  Stream(stream).wait(last_);
  last_ = submit(std::move(task), label, number, stream);
  return {last_, label, number};
}

void CommunicatorState::check_stream(std::string_view operation, Device memory, const Stream& stream) const {
  if (memory == stream.device() && (memory.is_host() || memory == backend_->device())) return;
  const ErrorContext here{rank(), std::string(operation), 0};
  if (!memory.is_host() && memory != backend_->device()) {
    throw Error(ErrorKind::usage,
                text("a buffer on ", memory, " given to a communicator of ", backend_->device()),
                backend_->device().is_host() ? "copy it to the host, or connect with WEFT_DEVICE=cuda"
                                             : "copy it to that device",
                here);
  }
  if (memory != stream.device()) {
    throw Error(ErrorKind::usage, text("a buffer on ", memory, " used on a stream of ", stream.device()),
                "use a stream of the buffer's device, and join streams with events", here);
  }
}

// What the host does of it is over long before the device: its time is taken there.
Event CommunicatorState::submit_to_device(std::unique_ptr<Task> task, std::string_view operation,
                                          std::uint64_t number, Stream stream) {
  if (trace_ && !device_trace_) device_trace_.emplace(trace_, stream.device(), "communicator");
  if (device_trace_) device_trace_->begin(stream, text(operation, " #", number));
  const Event event = stream.submit(
      std::make_unique<IssuedTask>(shared_from_this(), std::move(task), operation, number, nullptr));
  if (device_trace_) device_trace_->end(stream);
  return event;
}

Event CommunicatorState::submit(std::unique_ptr<Task> task, std::string_view operation, std::uint64_t number,
                                Stream stream) {
  if (!stream.device().is_host()) return submit_to_device(std::move(task), operation, number, stream);
  return stream.submit(
      std::make_unique<IssuedTask>(shared_from_this(), std::move(task), operation, number, trace_));
}

void CommunicatorState::fail(const Error& error) noexcept {
  {
    const std::lock_guard lock(broken_mutex_);
    if (broken_) return;
    broken_ = error;
    is_broken_.store(true, std::memory_order_release);
  }
  backend_->give_up(error.problem());
}

void CommunicatorState::expect_intact() const {
  if (!is_broken_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(broken_mutex_);
  throw Error(*broken_);
}

Error CommunicatorState::in_context(const Error& error, std::string_view operation,
                                    std::uint64_t number) const {
  return error.in({rank(), std::string(operation), number});
}

std::optional<Communicator> CommunicatorState::split(std::optional<int> color, int key) {
  expect_intact();
  const std::string note = color ? text(*color, " ", key) : "";
  const auto notes = rendezvous_->all_gather(note, "split", Deadline::in(timeout_));
  struct Member {
    int key;
    int rank;
  };
  std::vector<Member> chosen;
  for (int other = 0; other < size(); ++other) {
    std::istringstream in(notes[static_cast<std::size_t>(other)]);
    int other_color = 0;
    int other_key = 0;
    if (color && in >> other_color >> other_key && other_color == *color)
      chosen.push_back({other_key, other});
  }
  std::ranges::stable_sort(chosen, {}, &Member::key);
  std::vector<int> members;
  for (const Member& member : chosen) members.push_back(member.rank);

  // Who has no color still takes part, alone: the rendezvous splits for everybody at once.
  const bool alone = members.empty();
  if (alone) members.push_back(rank());
  auto rendezvous = rendezvous_->split(members);
  auto backend = backend_->split(members, rendezvous);
  if (alone) return std::nullopt;
  return make_communicator(std::move(backend), std::move(rendezvous), topology_.of(members), timeout_,
                           trace_);
}

Communicator make_communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Rendezvous> rendezvous,
                               Topology topology, std::chrono::nanoseconds timeout,
                               std::shared_ptr<Trace> trace) {
  return Communicator(std::make_shared<CommunicatorState>(std::move(backend), std::move(rendezvous),
                                                          std::move(topology), timeout, std::move(trace)));
}

}  // namespace detail
}  // namespace weft
