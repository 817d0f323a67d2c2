#pragma once
// A fake NCCL whose ranks are threads of this process: it moves data, over a fake CUDA, when all ranks have
// come, and waits on the stream for ever when they do not, as NCCL's kernels do. Faults are injected by rank.
// It stands in for the library where backends are tested without a GPU; it says nothing about NCCL itself,
// and its sums are weft's own.
//
// As NCCL 2.28.9 does,
// - blocking communicators wait in the call: in CommInitRank, CommSplit and CommWindowRegister (dev_runtime.cc:629) for all ranks, in the first
//   collective for all ranks, in a group's first message to or from a rank for that rank's part of it (group.cc:441, transport.cc:179); the abort flag, which CommRevoke and CommAbort set, ends
//   all but CommInitRank;
// - non-blocking ones (NCCL_COMM_BLOCKING=0, init.cc:1647) answer CommSplit and CommWindowRegister with success, are in progress
//   for up to three polls, and store their result then (init.cc:2665, dev_runtime.cc:890); a communicator in progress refuses every
//   call but a look (init.cc:379).

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "collectives/nccl/api.hpp"
#include "support/fake_cuda.hpp"
#include "support/fake_nccl_sums.hpp"

namespace weft::test {

/// NCCL's functions carry no state, so a process has one of these in force: the newest.
class FakeNcclRanks {
 public:
  explicit FakeNcclRanks(int version = detail::nccl::version_code(2, 28, 9)) : version_(version) {
    current = this;
  }
  ~FakeNcclRanks() {
    std::unique_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return waiting_ == 0; });
    current = nullptr;
  }
  FakeNcclRanks(const FakeNcclRanks&) = delete;
  FakeNcclRanks& operator=(const FakeNcclRanks&) = delete;

  std::shared_ptr<const detail::nccl::Api> api() {
    return detail::nccl::Api::load([this](const char* symbol) { return find(symbol); }, "the fake");
  }

  /// What every call of this function answers from now on; success ends it.
  void refuse(const std::string& function, detail::nccl::Result answer) {
    const std::lock_guard lock(mutex_);
    refusals_[function] = answer;
  }
  /// The collectives of a rank in the order in which they came: communicator and number.
  std::vector<std::pair<const void*, int>> handed_over(int rank) {
    const std::lock_guard lock(mutex_);
    return handed_over_[rank];
  }
  /// What a rank's communicators report as their asynchronous state from now on.
  void fail(int rank, detail::nccl::Result state) { states_[static_cast<std::size_t>(rank)] = state; }
  std::atomic<bool> non_blocking{false};  ///< as NCCL_COMM_BLOCKING=0
  /// The calls of this rank wait until they are aborted.
  std::atomic<int> stuck{-1};
  std::atomic<int> aborted{0};
  std::atomic<bool> reachable{
      true};  ///< whether peers can be reached through windows; without, NCCL gives none
  std::atomic<int> registered{0};
  std::atomic<int> windows{0};
  std::atomic<int> communicators{0};
  std::atomic<int> blocks{0};  ///< blocks of NCCL's allocator

 private:
  using Result = detail::nccl::Result;
  using Type = detail::nccl::Type;
  using Op = detail::nccl::Op;
  using Stream = detail::nccl::Stream;
  using RawComm = detail::nccl::Comm;
  using UniqueId = detail::nccl::UniqueId;
  using Config = detail::nccl::Config;

  static inline FakeNcclRanks* current = nullptr;
  static constexpr std::size_t most_ranks = 16;

  /// What one rank brings to an operation.
  struct Part {
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    int color = 0;
    int key = 0;
  };

  /// Ranks that were connected. They meet by the number of the operation.
  struct Team {
    explicit Team(int size) : parts_of(static_cast<std::size_t>(size)) {}
    using Parts = std::vector<Part>;

    std::mutex mutex;
    std::condition_variable changed;
    Parts parts_of;
    struct CollectiveCall {
      Parts parts;
      std::size_t come = 0;
      bool done = false;
      std::map<int, std::shared_ptr<Team>> made;  // by color
    };
    std::map<int, CollectiveCall> calls;
    std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters;  // from, to
    std::size_t connected = 0;                                                  // ranks that were made
    std::map<int, std::size_t> in_registration;    // ranks that have come to it, by number
    std::size_t in_collectives = 0;                // that have begun their first
    std::map<std::pair<int, int>, unsigned> ends;  // of the connection from, to: bit 0 sends, bit 1 receives
    std::size_t size() const { return parts_of.size(); }
  };

  struct Comm {
    std::shared_ptr<Team> team;
    int rank = 0;
    int operations = 0;
    int registrations = 0;
    bool does_collectives = false;
    std::atomic<bool> aborted{false};
    int polls = 0;                  // for which it is in progress
    std::function<void()> store{};  // what it stores then
  };

  // The handle is a shared pointer, for work on streams may outlive the communicator.
  static const std::shared_ptr<Comm>& of(const RawComm* comm) {
    return *reinterpret_cast<const std::shared_ptr<Comm>*>(comm);
  }

  /// Waits on the stream for everybody; the last to come does the work of all.
  template <class Work>
  static void meet(Comm& comm, int number, const Part& part, Work work) {
    Team& team = *comm.team;
    std::unique_lock lock(team.mutex);
    auto& call = team.calls[number];
    call.parts.resize(team.size());
    call.parts[static_cast<std::size_t>(comm.rank)] = part;
    if (++call.come == team.size()) {
      work(call);
      call.done = true;
      team.changed.notify_all();
    }
    team.changed.wait(lock, [&] { return call.done || comm.aborted; });
    if (!call.done) --call.come;  // ended, and brings nothing any more
  }

  /// Waits in the caller's thread, as a blocking communicator does. False: it was aborted.
  template <class Condition>
  static bool wait_in_call(Comm& comm, std::unique_lock<std::mutex>& lock, Condition condition) {
    Team& team = *comm.team;
    team.changed.notify_all();
    if (current->non_blocking) return true;
    team.changed.wait(lock, [&] { return comm.aborted || (condition() && current->stuck != comm.rank); });
    return !comm.aborted;
  }
  static bool connect_collectives(Comm& comm) {
    Team& team = *comm.team;
    std::unique_lock lock(team.mutex);
    if (!std::exchange(comm.does_collectives, true)) ++team.in_collectives;
    return wait_in_call(comm, lock, [&] { return team.in_collectives == team.size(); });
  }

  static bool meet_to_register(Comm& comm) {
    Team& team = *comm.team;
    std::unique_lock lock(team.mutex);
    const int number = comm.registrations++;
    ++team.in_registration[number];
    return wait_in_call(comm, lock, [&] { return team.in_registration[number] == team.size(); });
  }

  template <class Work>
  static Result enqueue(RawComm* one, Stream stream, const Part& part, Work work) {
    if (const Result no = current->refusal("collective"); no != detail::nccl::success) return no;
    const auto comm = of(one);
    if (comm->store) return detail::nccl::invalid_argument;
    const Result state = current->states_[static_cast<std::size_t>(comm->rank)];
    if (state != detail::nccl::success) return state;  // as ncclCommEnsureReady does (init.cc:373)
    if (!connect_collectives(*comm)) return detail::nccl::internal_error;
    const int number = comm->operations++;
    current->note(*comm, number);
    FakeCuda::enqueue(stream, [comm, number, part, work] { meet(*comm, number, part, work); });
    return current->non_blocking && current->stuck == comm->rank ? detail::nccl::in_progress
                                                                 : detail::nccl::success;
  }

  static std::vector<const std::byte*> inputs(const Team::CollectiveCall& call) {
    std::vector<const std::byte*> result;
    for (const Part& part : call.parts) result.push_back(part.in);
    return result;
  }
  static std::vector<std::byte> sum(const Team::CollectiveCall& call, std::size_t count, Type type, Op op) {
    return fake_nccl_sum(inputs(call), count, type, op);
  }

  static Part part(const void* in, void* out) {
    return {static_cast<const std::byte*>(in), static_cast<std::byte*>(out)};
  }
  static void put(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to != nullptr && to != from && bytes > 0) std::memcpy(to, from, bytes);
  }

  static Result all_reduce(const void* in, void* out, std::size_t count, Type type, Op op, RawComm* comm,
                           Stream stream) {
    return enqueue(comm, stream, part(in, out), [=](Team::CollectiveCall& call) {
      const auto result = sum(call, count, type, op);
      for (const Part& one : call.parts) put(one.out, result.data(), result.size());
    });
  }
  static Result reduce(const void* in, void* out, std::size_t count, Type type, Op op, int root,
                       RawComm* comm, Stream stream) {
    return enqueue(comm, stream, part(in, out), [=](Team::CollectiveCall& call) {
      const auto result = sum(call, count, type, op);
      put(call.parts[static_cast<std::size_t>(root)].out, result.data(), result.size());
    });
  }
  static Result reduce_scatter(const void* in, void* out, std::size_t count, Type type, Op op, RawComm* comm,
                               Stream stream) {
    return enqueue(comm, stream, part(in, out), [=](Team::CollectiveCall& call) {
      const auto result = sum(call, count * call.parts.size(), type, op);
      const std::size_t share = count * fake_nccl_size(type);
      for (std::size_t r = 0; r < call.parts.size(); ++r)
        put(call.parts[r].out, result.data() + r * share, share);
    });
  }
  static Result all_gather(const void* in, void* out, std::size_t count, Type type, RawComm* comm,
                           Stream stream) {
    return enqueue(comm, stream, part(in, out), [=](Team::CollectiveCall& call) {
      const std::size_t share = count * fake_nccl_size(type);
      for (const Part& one : call.parts) {
        for (std::size_t r = 0; r < call.parts.size(); ++r) put(one.out + r * share, call.parts[r].in, share);
      }
    });
  }
  static Result all_to_all(const void* in, void* out, std::size_t count, Type type, RawComm* comm,
                           Stream stream) {
    return enqueue(comm, stream, part(in, out), [=](Team::CollectiveCall& call) {
      const std::size_t share = count * fake_nccl_size(type);
      for (std::size_t to = 0; to < call.parts.size(); ++to) {
        for (std::size_t from = 0; from < call.parts.size(); ++from)
          put(call.parts[to].out + from * share, call.parts[from].in + to * share, share);
      }
    });
  }
  static Result broadcast(const void* in, void* out, std::size_t count, Type type, int root, RawComm* comm,
                          Stream stream) {
    return enqueue(comm, stream, part(in, out), [=](Team::CollectiveCall& call) {
      for (const Part& one : call.parts)
        put(one.out, call.parts[static_cast<std::size_t>(root)].in, count * fake_nccl_size(type));
    });
  }

  // Messages: noted while a group is open, and put on the stream together when it closes.
  struct Message {
    std::shared_ptr<Comm> comm;
    Stream stream;
    int peer;
    bool sends;
    const std::byte* out;
    std::byte* in;
    std::size_t bytes;
  };
  static inline thread_local std::vector<Message> group;

  static bool connect_messages(const std::vector<Message>& messages) {
    Comm& comm = *messages.front().comm;
    Team& team = *comm.team;
    const auto key = [&](const Message& one) {
      return one.sends ? std::pair(comm.rank, one.peer) : std::pair(one.peer, comm.rank);
    };
    std::unique_lock lock(team.mutex);
    for (const Message& one : messages) team.ends[key(one)] |= one.sends ? 1 : 2;
    return wait_in_call(comm, lock, [&] {
      return std::ranges::all_of(messages, [&](const Message& one) { return team.ends[key(one)] == 3; });
    });
  }

  static Result end_group() {
    if (group.empty()) return detail::nccl::success;
    if (!connect_messages(group)) return group.clear(), detail::nccl::internal_error;
    const Stream stream = group.front().stream;
    FakeCuda::enqueue(stream, [messages = std::exchange(group, {})] {
      const Comm& comm = *messages.front().comm;
      Team& team = *comm.team;
      std::unique_lock lock(team.mutex);
      for (const Message& one : messages) {
        if (one.sends) team.letters[{comm.rank, one.peer}].emplace_back(one.out, one.out + one.bytes);
      }
      team.changed.notify_all();
      for (const Message& one : messages) {
        if (one.sends) continue;
        auto& box = team.letters[{one.peer, comm.rank}];
        team.changed.wait(lock, [&] { return !box.empty() || comm.aborted; });
        if (box.empty()) break;
        put(one.in, box.front().data(), one.bytes);
        box.pop_front();
      }
    });
    return detail::nccl::success;
  }

  static Result connect(RawComm** comm, int size, const UniqueId& id, int rank) {
    const std::string key(id.internal, sizeof(int));
    std::unique_lock lock(current->mutex_);
    auto& team = current->teams_[key];
    if (!team) team = std::make_shared<Team>(size);
    ++team->connected;
    current->changed_.notify_all();
    ++current->waiting_;
    if (!current->non_blocking)
      current->changed_.wait(lock, [&] { return current->over_ || team->connected == team->size(); });
    --current->waiting_;
    current->changed_.notify_all();
    if (current->over_) return detail::nccl::internal_error;
    *comm = current->make(team, rank);
    return detail::nccl::success;
  }
  RawComm* make(std::shared_ptr<Team> team, int rank) {
    ++communicators;
    auto made = std::make_shared<Comm>();
    made->team = std::move(team);
    made->rank = rank;
    return reinterpret_cast<RawComm*>(new std::shared_ptr<Comm>(std::move(made)));
  }

  static Result split(RawComm* one, int color, int key, RawComm** result) {
    if (const Result no = current->refusal("CommSplit"); no != detail::nccl::success) return no;
    Comm& comm = *of(one);
    *result = nullptr;
    if (comm.store) return detail::nccl::invalid_argument;
    Part mine;
    mine.color = color;
    mine.key = key;
    const int number = comm.operations++;
    int rank = 0;
    std::shared_ptr<Team> team;
    meet(comm, number, mine, [](Team::CollectiveCall& call) {
      std::map<int, int> members;
      for (const Part& part : call.parts) ++members[part.color];
      for (const auto& [color_of, count] : members) call.made[color_of] = std::make_shared<Team>(count);
    });
    if (comm.aborted) return detail::nccl::internal_error;
    if (color == detail::nccl::no_color) return detail::nccl::success;
    const std::lock_guard lock(comm.team->mutex);
    const auto& call = comm.team->calls[number];
    for (const Part& part : call.parts) rank += part.color == color && part.key < key ? 1 : 0;
    RawComm* const child = current->make(call.made.at(color), rank);
    if (current->non_blocking) {
      current->later(comm, [result, child] { *result = child; });
    } else {
      *result = child;
    }
    return detail::nccl::success;
  }

  void note(const Comm& comm, int number) {
    const std::lock_guard lock(mutex_);
    handed_over_[comm.rank].emplace_back(comm.team.get(), number);
  }
  void later(Comm& comm, std::function<void()> store) {
    comm.polls = static_cast<int>(++delays_ % 4);
    comm.store = std::move(store);
  }
  static Result state_of(Comm& comm) {
    if (current->non_blocking && current->stuck == comm.rank) return detail::nccl::in_progress;
    if (comm.store) {
      if (comm.polls-- > 0) return detail::nccl::in_progress;
      std::exchange(comm.store, {})();
    }
    return current->states_[static_cast<std::size_t>(comm.rank)];
  }

  static Result abort(RawComm* one) {
    Comm& comm = *of(one);
    {
      const std::lock_guard lock(comm.team->mutex);
      comm.aborted = true;
    }
    comm.team->changed.notify_all();
    return detail::nccl::success;
  }
  static Result destroy(RawComm* one) {
    delete &of(one);
    --current->communicators;
    return detail::nccl::success;
  }

  template <class Function>
  static void* address(Function* function) {
    return reinterpret_cast<void*>(function);  // NOLINT: what dlsym gives
  }

  void* find(const std::string& symbol) const {
    using detail::nccl::success;
    static const std::map<std::string, std::pair<int, void*>> table{
        {"ncclGetVersion",
         {0, address(+[](int* version) -> Result { return *version = current->version_, success; })}},
        {"ncclGetErrorString", {0, address(+[](Result) -> const char* { return "remote error"; })}},
        {"ncclGetLastError",
         {0, address(+[](const RawComm*) -> const char* { return "socket closed by the fake"; })}},
        {"ncclGetUniqueId", {0, address(+[](UniqueId* id) -> Result {
                               std::memset(id->internal, 0, sizeof(id->internal));
                               const int number = ++current->ids_;
                               std::memcpy(id->internal, &number, sizeof(number));
                               return success;
                             })}},
        {"ncclCommInitRankConfig",
         {0, address(+[](RawComm** comm, int size, UniqueId id, int rank, Config*) -> Result {
            return connect(comm, size, id, rank);
          })}},
        {"ncclCommSplit",
         {0, address(+[](RawComm* comm, int color, int key, RawComm** part, Config*) -> Result {
            return split(comm, color, key, part);
          })}},
        {"ncclCommGetAsyncError", {0, address(+[](RawComm* comm, Result* state) -> Result {
                                     *state = state_of(*of(comm));
                                     return success;
                                   })}},
        {"ncclCommFinalize", {0, address(+[](RawComm*) -> Result { return success; })}},
        {"ncclCommDestroy", {0, address(&destroy)}},
        {"ncclCommAbort", {0, address(+[](RawComm* comm) -> Result {
                             ++current->aborted;
                             abort(comm);
                             return destroy(comm);
                           })}},
        {"ncclCommRevoke", {22807, address(+[](RawComm* comm, int) -> Result { return abort(comm); })}},
        {"ncclCommShrink", {22700, address(+[]() -> Result { return detail::nccl::internal_error; })}},
        {"ncclMemAlloc", {21900, address(+[](void** memory, std::size_t bytes) -> Result {
                            if (const Result no = current->refusal("MemAlloc"); no != success) return no;
                            ++current->blocks;
                            *memory = std::calloc(1, bytes);
                            return success;
                          })}},
        {"ncclMemFree", {21900, address(+[](void* memory) -> Result {
                           --current->blocks;
                           return std::free(memory), success;
                         })}},
        {"ncclCommRegister",
         {21900, address(+[](const RawComm*, void*, std::size_t, void** handle) -> Result {
            if (const Result no = current->refusal("CommRegister"); no != success) return no;
            *handle = current;
            ++current->registered;
            return success;
          })}},
        {"ncclCommDeregister", {21900, address(+[](const RawComm*, void*) -> Result {
                                  --current->registered;
                                  return success;
                                })}},
        {"ncclCommWindowRegister",
         {22700,
          address(+[](RawComm* comm, void*, std::size_t, detail::nccl::Window** window, int) -> Result {
            if (const Result no = current->refusal("CommWindowRegister"); no != success) return no;
            if (of(comm)->store) return detail::nccl::invalid_argument;
            if (!current->reachable) return success;
            if (!meet_to_register(*of(comm))) return detail::nccl::internal_error;
            const auto store = [window] { *window = reinterpret_cast<detail::nccl::Window*>(current); };
            if (current->non_blocking) {
              current->later(*of(comm), store);
            } else {
              store();
            }
            ++current->windows;
            return success;
          })}},
        {"ncclCommWindowDeregister", {22700, address(+[](RawComm*, detail::nccl::Window*) -> Result {
                                        --current->windows;
                                        return success;
                                      })}},
        {"ncclAllReduce", {0, address(&all_reduce)}},
        {"ncclReduceScatter", {0, address(&reduce_scatter)}},
        {"ncclAllGather", {0, address(&all_gather)}},
        {"ncclAlltoAll", {22800, address(&all_to_all)}},
        {"ncclBroadcast", {0, address(&broadcast)}},
        {"ncclReduce", {0, address(&reduce)}},
        {"ncclSend",
         {0, address(+[](const void* out, std::size_t count, Type type, int peer, RawComm* comm,
                         Stream stream) -> Result {
            if (const Result no = current->refusal("Send"); no != success) return no;
            group.push_back({of(comm), stream, peer, true, static_cast<const std::byte*>(out), nullptr,
                             count * fake_nccl_size(type)});
            return success;
          })}},
        {"ncclRecv",
         {0, address(+[](void* in, std::size_t count, Type type, int peer, RawComm* comm,
                         Stream stream) -> Result {
            group.push_back({of(comm), stream, peer, false, nullptr, static_cast<std::byte*>(in),
                             count * fake_nccl_size(type)});
            return success;
          })}},
        {"ncclRedOpCreatePreMulSum",
         {0, address(+[](Op* op, void* scalar, Type, int, RawComm* comm) -> Result {
            if (of(comm)->store) return detail::nccl::invalid_argument;
            *op = fake_nccl_scaled_sum(scalar);
            return success;
          })}},
        {"ncclGroupStart", {0, address(+[]() -> Result { return current->refusal("GroupStart"); })}},
        {"ncclGroupEnd", {0, address(&end_group)}},
    };
    const auto found = table.find(symbol);
    return found == table.end() || version_ < found->second.first ? nullptr : found->second.second;
  }

  Result refusal(const std::string& function) {
    const std::lock_guard lock(mutex_);
    const auto found = refusals_.find(function);
    return found == refusals_.end() ? detail::nccl::success : found->second;
  }

  int version_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;  // calls that wait for ranks to connect
  bool over_ = false;
  std::map<std::string, Result> refusals_;
  std::map<int, std::vector<std::pair<const void*, int>>> handed_over_;  // by rank
  int ids_ = 0;
  std::atomic<unsigned> delays_{0};
  std::map<std::string, std::shared_ptr<Team>> teams_;
  std::array<std::atomic<Result>, most_ranks> states_{};
};

}  // namespace weft::test
