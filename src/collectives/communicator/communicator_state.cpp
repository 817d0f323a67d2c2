#include "collectives/communicator/communicator_state.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "collectives/communicator/issued_task.hpp"
#include "collectives/communicator/message_chains.hpp"
#include "core/streams/stream_state.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft {

namespace detail {

CommunicatorState::CommunicatorState(std::shared_ptr<Backend> backend, std::shared_ptr<Rendezvous> rendezvous,
                                     Topology topology, std::chrono::nanoseconds timeout,
                                     std::shared_ptr<Trace> trace, Identity identity)
    : backend_(std::move(backend)),
      rendezvous_(std::move(rendezvous)),
      rank_(rendezvous_->rank()),
      size_(rendezvous_->size()),
      topology_(std::move(topology)),
      timeout_(timeout),
      trace_(std::move(trace)),
      identity_(std::move(identity)) {
  if (identity_.ranks.empty()) {
    identity_.ranks.resize(static_cast<std::size_t>(size_));
    std::iota(identity_.ranks.begin(), identity_.ranks.end(), 0);
  }
  log_ = std::make_shared<OperationLog>(identity_.name, identity_.ranks, rank_);
  if (!counters()) identity_.counters = std::make_shared<Counters>(rank_, size_, backend_->name());
  counters()->add(log_);
  if (recorder()) recorder()->add_communicator(log_);
  if (recorder()) {
    backend_->on_error([recorder = recorder()](const Error& error) {
      recorder->raised(error);
      recorder->dump("error");
    });
  }
  if (SideChannel* side_channel = backend_->side_channel())
    watchdog_.emplace(*side_channel, *log_, rank_, size_);
}

CommunicatorState::~CommunicatorState() {
  if (!origin_.is_here()) {  // the parent goes on with all that they reach
    keep_for_ever(std::pair(std::move(backend_), std::move(rendezvous_)));
    keep_for_ever(std::move(identity_));
    return;
  }
  counters()->end(*log_);
  // A rank alone holds up no other.
  if (std::uncaught_exceptions() == 0 || is_broken_ || size_ == 1) return;
  const auto why = Error::in_flight();
  fail(why ? why->in({rank_, {}, 0})
           : Error(ErrorKind::system, "an exception of the program's own ended it",
                   "Communicator::run() tells the others what it says", {rank_, {}, 0}));
}

Work CommunicatorState::issue(Operation&& operation, const Stream& stream, Payload payload) {
  expect_intact();
  const std::string_view label = name(operation.kind);
  const Device memory = operation.kind == Collective::barrier ? stream.device() : operation.in.device();
  check_stream(label, memory, stream);
  operation.number = memory.is_host() ? ++collectives_ : ++device_collectives_;
  operation.timeout = timeout_;
  const std::uint64_t sent = sends(payload);
  const auto sequence = memory.is_host() ? OperationLog::Sequence::host : OperationLog::Sequence::device;
  Issued issued{label, operation.number, log_->issued(sequence, operation, sent), true};
  issued.on_device = !memory.is_host();
  issued.timeout = timeout_;
  const bool begins_now =
      memory.is_host() && backend_->overlaps() && StreamAccess::state(stream)->takes_work_at_once();
  if (begins_now) issued.span = begin_span(issued);
  auto task = begins_now ? begin(operation, stream) : backend_->start(operation, stream);
  if (!task) {
    log_->done_at_once(issued.place);
    record_span(issued);
    return {Event(), label, operation.number};
  }
  log_->waits(issued.place);
  if (watchdog_ && memory.is_host()) issued.watched = operation;
  if (backend_->overlaps() || !memory.is_host()) return work(submit(std::move(task), issued, stream), issued);
  return work(in_turn(std::move(task), issued, stream), issued);
}

Work CommunicatorState::work(Event event, const Issued& issued, std::shared_ptr<GroupProgress> group) {
  class Asked final : public UnderWay {
   public:
    Asked(std::weak_ptr<CommunicatorState> communicator, std::uint64_t place,
          std::shared_ptr<GroupProgress> group)
        : communicator_(std::move(communicator)), place_(place), group_(std::move(group)) {}
    std::string late() const override {
      const auto communicator = communicator_.lock();
      return communicator ? communicator->late(place_, group_.get()) : "";
    }
    std::optional<int> source(std::size_t receive) const override {
      return group_ ? group_->source(receive) : std::nullopt;
    }

   private:
    std::weak_ptr<CommunicatorState> communicator_;
    std::uint64_t place_;
    std::shared_ptr<GroupProgress> group_;
  };
  return {std::move(event), issued.label, issued.number,
          make_recycled<Asked>(weak_from_this(), issued.place, std::move(group))};
}

std::uint64_t CommunicatorState::sends(Payload payload) {
  const auto ranks = static_cast<std::uint64_t>(size_);
  const std::uint64_t parts = payload.shared * (ranks - 1) + sent_rest_;
  sent_rest_ = parts % ranks;
  const std::uint64_t more = payload.whole + parts / ranks;
  sent_ += more;
  return more;
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

// The device's own time is taken by device_trace_.
std::optional<SpanBegin> CommunicatorState::begin_span(const Issued& issued) const {
  if (!trace_ || issued.on_device) return std::nullopt;
  return SpanBegin{Trace::Clock::now(), backend_->network_bytes()};
}

// Operations that use the network follow each other, so what went out meanwhile is this one's.
void CommunicatorState::record_span(const Issued& issued) const {
  if (!issued.span) return;
  std::vector<Trace::Figure> figures;
  const std::uint64_t sent = backend_->network_bytes() - issued.span->network_bytes;
  if (sent > 0) figures.push_back({"network_bytes", sent});
  trace_->span("communicator", text(issued.label, " #", issued.number), issued.span->at, Trace::Clock::now(),
               std::move(figures));
}

Work CommunicatorState::issue(std::vector<Transfer> transfers, const Stream& stream) {
  expect_intact();
  Payload payload;
  for (const Transfer& transfer : transfers) {
    if (transfer.sends && transfer.peer != rank()) payload.whole += transfer.out.size_bytes();
  }
  constexpr std::string_view label = "send/receive group";
  const Device memory = transfers.empty() ? stream.device() : transfers.front().device();
  for (const Transfer& transfer : transfers) check_stream(label, transfer.device(), stream);
  const std::uint64_t number = ++groups_;
  Issued issued{label, number,
                log_->issued(OperationLog::Sequence::group, {.number = number}, sends(payload))};
  issued.on_device = !memory.is_host();
  issued.timeout = timeout_;
  const bool by_channel = memory.is_host() && backend_->overlaps();
  const auto channels = by_channel ? MessageChains::of(transfers) : MessageChains::Channels();
  auto progress = make_recycled<GroupProgress>(transfers);
  auto task = backend_->start({std::move(transfers), timeout_, progress}, stream);
  log_->waits(issued.place);
  Event event = !memory.is_host() ? submit(std::move(task), issued, stream)
                : !by_channel     ? in_turn(std::move(task), issued, stream)
                                  : behind_messages(channels, std::move(task), issued, stream);
  return work(std::move(event), issued, std::move(progress));
}

Event CommunicatorState::behind_messages(const MessageChains::Channels& channels, std::unique_ptr<Task> task,
                                         const Issued& issued, const Stream& stream) {
  Stream lane(stream);
  messages_.join(lane, channels);
  Event sent = submit(std::move(task), issued, stream);
  messages_.issued(channels, sent);
  return sent;
}

Event CommunicatorState::in_turn(std::unique_ptr<Task> task, const Issued& issued, const Stream& stream) {
  Stream(stream).wait(last_);
  last_ = submit(std::move(task), issued, stream);
  return last_;
}

void CommunicatorState::check_stream(std::string_view operation, Device memory, const Stream& stream) const {
  const bool fits = memory == stream.device() && (memory.is_host() || memory == backend_->device());
  if (fits && memory.is_host()) return;
  const ErrorContext here{rank(), std::string(operation), 0};
  if (fits) {
    try {
      StreamAccess::state(stream)->admit();  // before the operation has a number
    } catch (const Error& error) {
      throw error.in(here);
    }
    return;
  }
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
Event CommunicatorState::submit_to_device(std::unique_ptr<Task> task, const Issued& issued, Stream stream) {
  if (trace_ && !device_trace_) device_trace_.emplace(trace_, stream.device(), "communicator");
  if (device_trace_) device_trace_->begin(stream, text(issued.label, " #", issued.number));
  auto in_order = std::make_unique<IssuedTask>(shared_from_this(), std::move(task), issued);
  if (DeviceOrder* const order = backend_->device_order()) in_order->take_turn(*order, stream);
  const Event event = stream.submit(std::move(in_order));
  if (device_trace_) device_trace_->end(stream);
  if (recorder()) log_->handed_over(issued.place, event);
  return event;
}

Event CommunicatorState::submit(std::unique_ptr<Task> task, const Issued& issued, Stream stream) {
  if (!stream.device().is_host()) return submit_to_device(std::move(task), issued, std::move(stream));
  Event event = stream.submit(std::make_unique<IssuedTask>(shared_from_this(), std::move(task), issued));
  under_way().issued(event);
  return event;
}

void CommunicatorState::fail(const Error& error) noexcept {
  if (!is_here()) return;
  {
    const std::lock_guard lock(broken_mutex_);
    if (broken_) return;
    broken_ = error;
    is_broken_.store(true, std::memory_order_release);
  }
  backend_->give_up(error);
  if (watchdog_) watchdog_->give_up(error);
  if (!recorder()) return;
  recorder()->raised(error);
  recorder()->dump("error");
}

void CommunicatorState::expect_intact() const {
  expect_here();
  if (!is_broken_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(broken_mutex_);
  throw Error(*broken_);
}

Error CommunicatorState::in_context(const Error& error, std::string_view operation,
                                    std::uint64_t number) const {
  return error.in({rank(), std::string(operation), number});
}

// A rank that has left may have said why.
Error CommunicatorState::explained(const Error& error, const Issued& issued,
                                   std::chrono::steady_clock::time_point since) {
  const Error here = in_context(error, issued.label, issued.number);
  if (!watchdog_) return here;
  if (error.kind() == ErrorKind::peer_lost) {
    try {
      watchdog_->hear();
    } catch (const Error& said) {
      return in_context(said, issued.label, issued.number);
    }
  }
  if (error.kind() != ErrorKind::timeout || !issued.is_collective) return here;
  return watchdog_->naming_late(here, issued.number, since);
}

std::optional<Communicator> CommunicatorState::split(std::optional<int> color, int key) {
  expect_intact();
  ++splits_;
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

  // A rank without a color still takes part, alone: the rendezvous splits for all ranks at once.
  const bool alone = members.empty();
  if (alone) members.push_back(rank());
  auto rendezvous = rendezvous_->split(members);
  auto backend = backend_->split(members, rendezvous);
  if (alone) return std::nullopt;
  Identity identity{
      text(identity_.name, '/', splits_, ':', *color), {}, recorder(), counters(), identity_.under_way};
  for (const int member : members)
    identity.ranks.push_back(identity_.ranks[static_cast<std::size_t>(member)]);
  return make_communicator(std::move(backend), std::move(rendezvous), topology_.of(members), timeout_, trace_,
                           std::move(identity));
}

Communicator make_communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Rendezvous> rendezvous,
                               Topology topology, std::chrono::nanoseconds timeout,
                               std::shared_ptr<Trace> trace, Identity identity) {
  auto state =
      std::make_shared<CommunicatorState>(std::move(backend), std::move(rendezvous), std::move(topology),
                                          timeout, std::move(trace), std::move(identity));
  if (state->size() > 1) tell_of_exit(state);
  return Communicator(std::move(state));
}

}  // namespace detail
}  // namespace weft
