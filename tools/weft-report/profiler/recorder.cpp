#include "weft-report/profiler/recorder.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace weft::profiler {
namespace {

// A handle: what it is, its communicator's id, the serial number of its operation.
constexpr unsigned what_bits = 4;
constexpr unsigned id_bits = 24;
constexpr unsigned serial_bits = 36;
constexpr std::uint64_t id_mask = (std::uint64_t{1} << id_bits) - 1;
constexpr std::uint64_t serial_mask = (std::uint64_t{1} << serial_bits) - 1;
constexpr std::uint64_t operation_handle = 0x5;
constexpr std::uint64_t part_handle = 0xa;
static_assert(what_bits + id_bits + serial_bits == 64);

constexpr std::uint64_t make_handle(std::uint64_t what, std::uint64_t id, std::uint64_t serial) {
  return what << (id_bits + serial_bits) | (id & id_mask) << serial_bits | (serial & serial_mask);
}
constexpr std::uint64_t what_of(std::uint64_t handle) {
  return handle >> (id_bits + serial_bits);
}
constexpr std::uint64_t id_of(std::uint64_t handle) {
  return handle >> serial_bits & id_mask;
}

struct KindWord {
  const char* nccl;
  std::string_view name;
};
constexpr std::array<KindWord, kinds> kind_words{{{"AllReduce", "all_reduce"},
                                                  {"ReduceScatter", "reduce_scatter"},
                                                  {"AllGather", "all_gather"},
                                                  {"Broadcast", "broadcast"},
                                                  {"Reduce", "reduce"},
                                                  {"AlltoAll", "all_to_all"},
                                                  {"Send", "send"},
                                                  {"Recv", "recv"},
                                                  {"", "other"}}};
constexpr std::array<Type, 12> types{{{"ncclInt8", "i8", 1},
                                      {"ncclUint8", "u8", 1},
                                      {"ncclInt32", "i32", 4},
                                      {"ncclUint32", "u32", 4},
                                      {"ncclInt64", "i64", 8},
                                      {"ncclUint64", "u64", 8},
                                      {"ncclFloat16", "f16", 2},
                                      {"ncclFloat32", "f32", 4},
                                      {"ncclFloat64", "f64", 8},
                                      {"ncclBfloat16", "bf16", 2},
                                      {"ncclFloat8e4m3", "", 1},
                                      {"ncclFloat8e5m2", "", 1}}};
constexpr std::uint8_t bytes_type = 1;

void add_to(Sums& into, const Sums& more) {
  into.operations += more.operations;
  into.ended += more.ended;
  into.bytes += more.bytes;
  into.nanoseconds += more.nanoseconds;
}

}  // namespace

std::string_view name(Kind kind) {
  return kind_words[static_cast<std::size_t>(kind)].name;
}
Kind kind_of(const char* word) {
  if (word == nullptr) return Kind::other;
  if (std::strcmp(word, "All2All") == 0) return Kind::all_to_all;
  for (std::size_t i = 0; i + 1 < kinds; ++i) {
    if (std::strcmp(word, kind_words[i].nccl) == 0) return static_cast<Kind>(i);
  }
  return Kind::other;
}
Kind kind_of(int number) {
  // ncclFunc_t of 2.23.4 (nccl_common.h).
  constexpr std::array<Kind, 8> in_order{Kind::broadcast,      Kind::reduce,     Kind::all_gather,
                                         Kind::reduce_scatter, Kind::all_reduce, Kind::other,
                                         Kind::send,           Kind::receive};
  return number >= 0 && static_cast<std::size_t>(number) < in_order.size()
             ? in_order[static_cast<std::size_t>(number)]
             : Kind::other;
}
std::uint8_t type_of(const char* word) {
  if (word == nullptr) return bytes_type;
  const auto found = std::ranges::find(types, std::string_view(word), &Type::word);
  return found == types.end() ? bytes_type : static_cast<std::uint8_t>(found - types.begin());
}
const Type& type_at(std::uint8_t type) {
  return types[type < types.size() ? type : bytes_type];
}

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::uint64_t Recorder::add(About about) {
  const std::lock_guard registry(registry_);
  for (std::size_t tries = 0; tries < most_communicators; ++tries) {
    const std::uint64_t id = ++last_id_ & id_mask;
    if (id == 0) continue;
    Communicator& one = communicators_[id % most_communicators];
    const std::lock_guard lock(one.mutex);
    if (one.id != 0) continue;
    one.id = id;
    one.about = std::move(about);
    one.serial = 0;
    one.collectives = 0;
    one.sums = {};
    return id;
  }
  return 0;
}

void Recorder::remove(std::uint64_t communicator) {
  const std::lock_guard registry(registry_);
  Communicator& one = communicators_[communicator % most_communicators];
  const std::lock_guard lock(one.mutex);
  if (communicator == 0 || one.id != communicator) return;
  for (Operation& operation : one.ring) {
    if (operation.begun_ns != 0 && !operation.ended) count_busy(-1, steady_now());
  }
  for (std::size_t kind = 0; kind < kinds; ++kind) add_to(gone_[kind], one.sums[kind]);
  one.id = 0;
  one.about = {};
  one.ring = {};
}

void Recorder::learn(std::uint64_t communicator, const char* name, std::uint64_t hash, int rank) {
  Communicator& one = communicators_[communicator % most_communicators];
  const std::lock_guard lock(one.mutex);
  if (communicator == 0 || one.id != communicator || one.about.rank >= 0) return;
  one.about.rank = rank;
  one.about.hash = hash;
  if (name != nullptr) one.about.name = std::string_view(name).substr(0, 255);
}

std::uint64_t Recorder::start(std::uint64_t communicator, const Description& description) {
  Communicator& one = communicators_[communicator % most_communicators];
  const std::int64_t now = steady_now();
  const std::lock_guard lock(one.mutex);
  if (communicator == 0 || one.id != communicator) return 0;
  if (one.ring.empty()) one.ring.resize(operations_kept);
  const std::uint64_t serial = ++one.serial;
  Operation& operation = one.ring[serial % operations_kept];
  // One that is still under way makes room: its end will find nothing.
  if (operation.serial != 0 && operation.begun_ns != 0 && !operation.ended) count_busy(-1, now);
  const bool is_p2p = description.kind == Kind::send || description.kind == Kind::receive;
  operation = {
      .serial = serial, .number = is_p2p ? 0 : ++one.collectives, .issued_ns = now, .about = description};
  Sums& sums = one.sums[static_cast<std::size_t>(description.kind)];
  ++sums.operations;
  sums.bytes += operation.bytes();
  return make_handle(operation_handle, communicator, serial);
}

template <class Change>
void Recorder::change(std::uint64_t handle, Change&& how) {
  const std::uint64_t id = id_of(handle);
  if (id == 0 || (what_of(handle) != operation_handle && what_of(handle) != part_handle)) return;
  Communicator& one = communicators_[id % most_communicators];
  const std::lock_guard lock(one.mutex);
  const std::uint64_t serial = handle & serial_mask;
  if (one.id != id || one.ring.empty() ||
      (one.ring[serial % operations_kept].serial & serial_mask) != serial) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  how(one, one.ring[serial % operations_kept]);
}

std::uint64_t Recorder::start_part(std::uint64_t operation, std::uint64_t gpu_nanoseconds) {
  std::uint64_t part = 0;
  if (what_of(operation) != operation_handle) return 0;
  change(operation, [&](Communicator&, Operation& one) {
    ++one.started;
    if (one.started == 1 || one.ended) begin(one, steady_now());
    if (gpu_nanoseconds != 0 && (one.gpu_first == 0 || gpu_nanoseconds < one.gpu_first))
      one.gpu_first = gpu_nanoseconds;
    part = make_handle(part_handle, id_of(operation), operation & serial_mask);
  });
  return part;
}

void Recorder::time_part(std::uint64_t part, std::uint64_t gpu_nanoseconds) {
  if (what_of(part) != part_handle) return;
  change(part,
         [&](Communicator&, Operation& one) { one.gpu_last = std::max(one.gpu_last, gpu_nanoseconds); });
}

void Recorder::stop(std::uint64_t handle) {
  change(handle, [&](Communicator& communicator, Operation& one) {
    if (what_of(handle) == operation_handle) {
      one.enqueued = true;
    } else if (one.stopped < one.started) {
      ++one.stopped;
    }
    end_if_over(communicator, one);
  });
}

void Recorder::end(std::uint64_t operation) {
  if (what_of(operation) != operation_handle) return;
  change(operation, [&](Communicator& communicator, Operation& one) {
    if (one.ended) return;
    if (one.begun_ns == 0) {
      one.begun_ns = one.issued_ns;
      count_busy(1, one.issued_ns);
    }
    finish(communicator, one);
  });
}

/// Also of one that had ended before all its parts had begun: how many there are is not always said.
void Recorder::begin(Operation& operation, std::int64_t now) {
  if (operation.begun_ns == 0) operation.begun_ns = now;
  operation.ended = false;
  count_busy(1, now);
}

void Recorder::end_if_over(Communicator& communicator, Operation& operation) {
  if (operation.ended || !operation.enqueued || operation.started == 0 ||
      operation.started != operation.stopped || operation.stopped < operation.about.parts)
    return;
  finish(communicator, operation);
}

void Recorder::finish(Communicator& communicator, Operation& operation) {
  const bool again = operation.ended_ns != 0;
  operation.ended_ns = steady_now();
  operation.ended = true;
  count_busy(-1, operation.ended_ns);
  const bool by_gpu = operation.gpu_first != 0 && operation.gpu_last > operation.gpu_first;
  const std::int64_t taken = by_gpu ? static_cast<std::int64_t>(operation.gpu_last - operation.gpu_first)
                                    : operation.ended_ns - operation.begun_ns;
  Sums& sums = communicator.sums[static_cast<std::size_t>(operation.about.kind)];
  if (!again) ++sums.ended;
  sums.nanoseconds += taken - operation.counted_ns;
  operation.counted_ns = taken;
}

void Recorder::count_busy(int more, std::int64_t now) {
  const std::lock_guard lock(busy_mutex_);
  if (more > 0 && under_way_ == 0) busy_since_ = now;
  under_way_ += more;
  if (more < 0 && under_way_ == 0) busy_ns_ += std::max<std::int64_t>(now - busy_since_, 0);
}

std::vector<Snapshot> Recorder::snapshots() {
  std::vector<Snapshot> all;
  for (Communicator& one : communicators_) {
    const std::lock_guard lock(one.mutex);
    if (one.id == 0) continue;
    Snapshot snapshot{.id = one.id, .about = one.about, .sums = one.sums, .collectives = one.collectives};
    const std::uint64_t kept = std::min<std::uint64_t>(one.serial, operations_kept);
    for (std::uint64_t serial = one.serial - kept + 1; serial <= one.serial; ++serial)
      snapshot.operations.push_back(one.ring[serial % operations_kept]);
    all.push_back(std::move(snapshot));
  }
  std::ranges::sort(all, {}, &Snapshot::id);
  return all;
}

Totals Recorder::totals() {
  Totals totals;
  {
    const std::lock_guard registry(registry_);
    totals.sums = gone_;
    for (Communicator& one : communicators_) {
      const std::lock_guard lock(one.mutex);
      if (one.id == 0) continue;
      for (std::size_t kind = 0; kind < kinds; ++kind) add_to(totals.sums[kind], one.sums[kind]);
    }
  }
  const std::lock_guard lock(busy_mutex_);
  totals.busy_ns = busy_ns_ + (under_way_ > 0 ? steady_now() - busy_since_ : 0);
  totals.dropped = dropped_.load(std::memory_order_relaxed);
  return totals;
}

}  // namespace weft::profiler
