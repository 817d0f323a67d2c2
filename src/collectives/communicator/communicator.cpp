#include "weft/collectives/communicator.hpp"

#include <sched.h>
#include <unistd.h>

#include <functional>

#include "collectives/communicator/communicator_state.hpp"
#include "weft/core/error.hpp"

namespace weft {

using detail::Operation;

namespace {

[[noreturn]] void refuse(Collective kind, const std::string& problem, const std::string& advice = {}) {
  throw Error(ErrorKind::usage, problem, advice, {-1, std::string(name(kind)), 0});
}

bool overlap(const ConstView& a, const ConstView& b) {
  const std::less<const std::byte*> before;
  return !a.empty() && !b.empty() && before(a.bytes(), b.bytes() + b.size_bytes()) &&
         before(b.bytes(), a.bytes() + a.size_bytes());
}

/// `in` and `out` have the same data type and device, and are either apart or with `in_place` as the shared
/// part.
void check_pair(Collective kind, const ConstView& in, const ConstView& out, const ConstView& a,
                const ConstView& b) {
  if (in.dtype() != out.dtype()) refuse(kind, text("input is ", in.dtype(), " and output is ", out.dtype()));
  if (in.device() != out.device())
    refuse(kind, text("input is on ", in.device(), " and output on ", out.device()));
  const bool in_place = a.data() == b.data() && a.count() == b.count();
  if (!in_place && overlap(in, out)) {
    refuse(kind, "input and output overlap without being in place",
           "give separate buffers, or in place as documented");
  }
}

void check_op(Collective kind, ReduceOp op, DataType dtype) {
  if (is_bitwise(op) && is_floating(dtype))
    refuse(kind, text(op, " of ", dtype, ": bits of floating-point numbers mean nothing together"),
           "give integers, or a view of the bits as integers");
}

void check_root(Collective kind, int root, int size) {
  if (root < 0 || root >= size)
    refuse(kind, text("root ", root, " of ", size, " ranks"), text("roots are 0 to ", size - 1));
}

void check_count(Collective kind, std::int64_t whole, std::int64_t part, int size) {
  if (whole != part * size) {
    refuse(kind, text("buffers of ", whole, " and ", part, " elements for ", size, " ranks"),
           text("one side must be ", size, " times the other"));
  }
}

}  // namespace

int Communicator::rank() const {
  return state_->rank();
}
int Communicator::size() const {
  return state_->size();
}
const Topology& Communicator::topology() const {
  return state_->topology();
}
std::string Communicator::backend() const {
  return state_->backend().name();
}
Device Communicator::device() const {
  return state_->backend().device();
}
std::chrono::nanoseconds Communicator::timeout() const {
  return state_->timeout();
}
void Communicator::timeout(std::chrono::nanoseconds duration) {
  if (duration.count() <= 0) {
    throw Error(ErrorKind::usage,
                text("a timeout of ", std::chrono::duration<double>(duration).count(), " s"),
                "give a positive one", {rank(), "timeout", 0});
  }
  state_->timeout(duration);
}
std::uint64_t Communicator::wire_bytes() const {
  return state_->wire_bytes();
}
std::uint64_t Communicator::network_bytes() const {
  return state_->backend().network_bytes();
}
Meter Communicator::meter() const {
  return Meter(state_->counters());
}
detail::Counters& detail::counters(const Communicator& comm) {
  return *comm.state_->counters();
}
std::shared_ptr<detail::Counters> detail::shared_counters(const Communicator& comm) {
  return comm.state_->counters();
}
std::string Communicator::explain(Collective kind, DataType dtype, std::int64_t count, ReduceOp op) const {
  if (kind > Collective::barrier) refuse(kind, "a step of other operations, which is never issued");
  return state_->backend().explain({.kind = kind, .count = count, .dtype = dtype, .op = op});
}

namespace {

// Unbound, the node's cores are shared by its ranks; bound, the rank has the cores it was given.
bool has_spare_core(int ranks_on_node) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  const int cores = CPU_COUNT(&allowed);
  const bool bound = cores < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return bound ? cores > 1 : cores > ranks_on_node;
}

}  // namespace

bool Communicator::any_thread() const {
  return state_->backend().any_thread();
}

Stream Communicator::progress_stream(const Environment& environment) const {
  if (!device().is_host()) return Stream(device(), StreamPriority::high);
  const std::string choice = environment.value(env::progress);
  const bool possible = any_thread();
  if (choice == "inline") return Stream();
  if (choice == "thread") {
    if (possible) return Stream::queued();
    throw Error(ErrorKind::usage,
                text(env::progress.name, "=thread, but MPI was initialised for one thread only"),
                "initialise it with MPI_THREAD_SERIALIZED or more");
  }
  if (choice != "auto") {
    throw Error(ErrorKind::usage, text(env::progress.name, "=", choice, " is none of inline, thread, auto"));
  }
  const int neighbours = static_cast<int>(topology().ranks_of(topology().node_of(rank())).size());
  return possible && has_spare_core(neighbours) ? Stream::queued() : Stream();
}

Work Communicator::all_reduce(ConstView in, View out, ReduceOp op, const Stream& stream) {
  constexpr auto kind = Collective::all_reduce;
  if (in.count() != out.count())
    refuse(kind, text("input has ", in.count(), " elements, output ", out.count()));
  check_pair(kind, in, out, in, out);
  check_op(kind, op, in.dtype());
  return state_->issue(
      {.kind = kind, .in = in, .out = out, .count = in.count(), .dtype = in.dtype(), .op = op}, stream,
      {.shared = 2 * in.size_bytes()});
}

Work Communicator::reduce_scatter(ConstView in, View out, ReduceOp op, const Stream& stream) {
  constexpr auto kind = Collective::reduce_scatter;
  check_count(kind, in.count(), out.count(), size());
  check_pair(kind, in, out, in.slice(rank() * out.count(), out.count()), out);
  check_op(kind, op, in.dtype());
  return state_->issue(
      {.kind = kind, .in = in, .out = out, .count = out.count(), .dtype = in.dtype(), .op = op}, stream,
      {.shared = in.size_bytes()});
}

Work Communicator::all_gather(ConstView in, View out, const Stream& stream) {
  constexpr auto kind = Collective::all_gather;
  check_count(kind, out.count(), in.count(), size());
  check_pair(kind, in, out, in, out.slice(rank() * in.count(), in.count()));
  return state_->issue({.kind = kind, .in = in, .out = out, .count = in.count(), .dtype = in.dtype()}, stream,
                       {.shared = out.size_bytes()});
}

Work Communicator::broadcast(View data, int root, const Stream& stream) {
  constexpr auto kind = Collective::broadcast;
  check_root(kind, root, size());
  check_pair(kind, data, data, data, data);
  const auto payload = rank() == root ? data.size_bytes() * static_cast<std::size_t>(size() - 1) : 0;
  return state_->issue(
      {.kind = kind, .in = data, .out = data, .count = data.count(), .dtype = data.dtype(), .root = root},
      stream, {.whole = payload});
}

Work Communicator::reduce(ConstView in, View out, ReduceOp op, int root, const Stream& stream) {
  constexpr auto kind = Collective::reduce;
  check_root(kind, root, size());
  if (rank() == root && in.count() != out.count()) {
    refuse(kind, text("input has ", in.count(), " elements, root's output ", out.count()));
  }
  if (rank() != root) out = View(nullptr, 0, in.dtype(), in.device());
  check_pair(kind, in, out, in, out);
  check_op(kind, op, in.dtype());
  return state_->issue(
      {.kind = kind, .in = in, .out = out, .count = in.count(), .dtype = in.dtype(), .op = op, .root = root},
      stream, {.whole = rank() == root ? 0 : in.size_bytes()});
}

Work Communicator::all_to_all(ConstView in, View out, const Stream& stream) {
  constexpr auto kind = Collective::all_to_all;
  if (in.count() != out.count())
    refuse(kind, text("input has ", in.count(), " elements, output ", out.count()));
  check_count(kind, in.count(), in.count() / size(), size());
  check_pair(kind, in, out, in, ConstView(nullptr, 0, in.dtype(), in.device()));
  return state_->issue(
      {.kind = kind, .in = in, .out = out, .count = in.count() / size(), .dtype = in.dtype()}, stream,
      {.shared = in.size_bytes()});
}

Work Communicator::barrier(const Stream& stream) {
  return state_->issue({.kind = Collective::barrier}, stream, {});
}

std::optional<Communicator> Communicator::split(std::optional<int> color, int key) {
  return state_->split(color, key);
}

void Communicator::give_up(const Error& error) noexcept {
  state_->fail(error);
}

void detail::show(Communicator& comm, std::uint64_t number) {
  comm.state_->expect_here();
  comm.state_->backend().show(number);
}

std::optional<std::uint64_t> detail::shown(const Communicator& comm, int rank) {
  return comm.state_->backend().shown(rank);
}

void Communicator::slow_after(std::chrono::nanoseconds duration) {
  state_->slow_after(duration);
}

std::shared_ptr<FlightRecorder> Communicator::flight_recorder() const {
  return state_->recorder();
}

Buffer Communicator::allocate(DataType dtype, std::int64_t count, Contents contents) {
  state_->expect_here();
  return state_->backend().allocate(dtype, count, contents);
}

std::shared_ptr<const void> Communicator::register_memory(View memory) {
  state_->expect_here();
  if (memory.device().is_host() || memory.device() != device()) {
    throw Error(ErrorKind::usage,
                text("memory on ", memory.device(), " registered with a communicator of ", device()),
                "memory of its device alone needs it", {rank(), "register", 0});
  }
  return memory.empty() ? nullptr : state_->backend().register_memory(memory);
}

namespace {

[[noreturn]] void refuse_message(const std::string& problem, const std::string& advice = {}) {
  throw Error(ErrorKind::usage, problem, advice, {-1, "send/receive group", 0});
}

}  // namespace

void Group::check(int peer) const {
  if (peer < 0 || peer >= communicator_.size())
    refuse_message(text("peer ", peer, " of ", communicator_.size(), " ranks"));
}

void Group::check(Device memory, std::uint32_t tag, bool from_any) const {
  if (tag == 0 && !from_any) return;
  const detail::MessageLimits limits =
      memory.is_host() ? communicator_.state_->backend().message_limits() : detail::MessageLimits();
  const std::string where =
      text(memory.is_host() ? "" : text("memory on ", memory, " over "), communicator_.backend());
  if (from_any && !limits.any_source) {
    refuse_message(text("a receive from any rank, with ", where, ", which must know the sender"),
                   memory.is_host()
                       ? "name the source: within a node any rank may be left open, between nodes not"
                       : "name the source, or receive host memory on a host stream");
  }
  if (tag > limits.largest_tag) {
    refuse_message(text("tag ", tag, " with ", where, ", whose largest is ", limits.largest_tag),
                   memory.is_host() ? "give a smaller tag"
                                    : "send in order with tag 0, or host memory on a host stream");
  }
}

Group& Group::send(ConstView data, int peer, std::uint32_t tag) {
  check(peer);
  check(data.device(), tag, false);
  transfers_.push_back({data, {}, peer, true, tag});
  return *this;
}

Group& Group::receive(View data, int peer, std::uint32_t tag) {
  check(peer);
  check(data.device(), tag, false);
  transfers_.push_back({{}, data, peer, false, tag});
  return *this;
}

Group& Group::receive_any(View data, std::uint32_t tag) {
  check(data.device(), tag, true);
  transfers_.push_back({{}, data, detail::any_source, false, tag});
  return *this;
}

Work Group::start(const Stream& stream) {
  std::vector<detail::Transfer> transfers;
  for (const Transfer& transfer : transfers_) {
    transfers.push_back({transfer.out, transfer.in, transfer.peer, transfer.sends, transfer.tag});
  }
  transfers_.clear();
  return communicator_.state_->issue(std::move(transfers), stream);
}

}  // namespace weft
