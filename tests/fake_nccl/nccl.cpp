// NCCL's functions.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <string_view>

#include "collectives/nccl/api.hpp"
#include "fake_nccl/functions.hpp"
#include "fake_nccl/hub.hpp"
#include "fake_nccl/rank.hpp"
#include "fake_nccl/words.hpp"
#include "support/fake_nccl_sums.hpp"

namespace weft::fake_nccl {
namespace {

using namespace detail::nccl;  // NOLINT: whose functions these are

std::atomic<const char*> said = "";

/// A word of WEFT_FAKE_NCCL: the whole of it, or what stands behind its "=".
std::string_view word(std::string_view name) {
  const char* all = std::getenv("WEFT_FAKE_NCCL");
  std::string_view rest = all != nullptr ? all : "";
  while (!rest.empty()) {
    const auto end = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one == name) return one;
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) return one.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

Wishes& wishes() {
  static auto* const all = new Wishes;  // never destroyed: threads may wait until the process ends
  return *all;
}
int version() {
  return wishes().version;
}
bool deaths_are_silent() {
  static const bool silent = !word("silent").empty();
  return silent;
}
Result wanted_fault(const char* function) {
  {
    const std::lock_guard lock(wishes().mutex);
    const auto refused = wishes().refusals.find(function);
    if (refused != wishes().refusals.end() && refused->second != success) return refused->second;
  }
  const std::string_view what = word(function);
  if (what == "abort") std::abort();
  if (what.empty()) return success;
  say("a fault that was asked for");
  return static_cast<Result>(std::atoi(std::string(what).c_str()));
}
void say(const char* what) {
  said = what;
  if (std::getenv("NCCL_DEBUG") != nullptr) std::fprintf(stderr, "fake NCCL WARN %s\n", what);
}
const char* last_said() {
  return said;
}

namespace {

/// What NCCL's handle points to; work on streams may outlive it.
using Handle = std::shared_ptr<Rank>;
const Handle& of(const Comm* comm) {
  return *reinterpret_cast<const Handle*>(comm);
}
Comm* handle_of(Handle rank) {
  ++wishes().communicators;
  return reinterpret_cast<Comm*>(new Handle(std::move(rank)));
}

void give_back(Comm* comm) {
  --wishes().communicators;
  delete &of(comm);
}
/// Once it is in progress no more, if it is not blocking.
void store(Rank& rank, std::function<void()> result) {
  if (!wishes().non_blocking) return result();
  rank.later(std::move(result));
}

struct Id {
  static constexpr std::uint64_t right = 0x7765667466616b65;
  std::uint64_t magic = right;
  Address hub;
  int number = 0;
};

// Operations of a group are noted until it ends.
struct Noted {
  Handle rank;
  Stream stream;
  int peer = -1;  // of a message
  bool sends = false;
  Enqueued told{};
  std::function<std::uint32_t(Rank&)> ask;
  std::function<void(const Frame&)> take;
};
thread_local int depth = 0;
thread_local std::vector<Noted> group;

// In the call, and all at once: no rank waits for one connection before it has named the others.
Result connect(const std::vector<Noted>& all) {
  if (wishes().non_blocking) return success;  // NCCL's thread does
  std::vector<std::pair<Rank*, std::uint32_t>> requests;
  for (const Noted& one : all) {
    Rank& rank = *one.rank;
    const int mine = rank.rank();
    const auto request = one.peer < 0 ? rank.connect_collectives()
                         : one.sends  ? rank.connect_message(mine, one.peer)
                                      : rank.connect_message(one.peer, mine);
    if (request) requests.emplace_back(&rank, *request);
  }
  for (const auto& [rank, request] : requests) {
    if (const Result result = rank->wait_in_call(request); result != success) return result;
  }
  for (const Noted& one : all) {
    if (const Result result = one.rank->hold(); result != success) return result;
  }
  return success;
}

/// Those of one communicator and stream: as one kernel does them, all at once.
Result launch(std::vector<Noted> all) {
  Rank& rank = *all.front().rank;
  const Stream stream = all.front().stream;
  std::vector<void*> told;
  if (Observed* const observed = rank.observed()) {
    for (const Noted& one : all) told.push_back(observed->enqueued(one.told));
  }
  return rank.enqueue(stream, [all = std::move(all), told = std::move(told)](Rank& of) {
    for (void* const one : told) of.observed()->began(one);
    std::vector<std::uint32_t> requests;
    for (const Noted& one : all) requests.push_back(one.ask(of));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto answer = of.wait(requests[i]);
      if (!answer) return;
      all[i].take(*answer);
      if (!told.empty()) of.observed()->ended(told[i]);
    }
  });
}

Result end_group() {
  std::vector<Noted> all = std::exchange(group, {});
  if (const Result result = connect(all); result != success) return result;
  while (!all.empty()) {
    const auto first = all.front();
    const auto others = std::stable_partition(all.begin(), all.end(), [&](const Noted& one) {
      return one.rank == first.rank && one.stream == first.stream;
    });
    std::vector<Noted> rest(others, all.end());
    all.erase(others, all.end());
    if (const Result result = launch(std::move(all)); result != success) return result;
    all = std::move(rest);
  }
  return success;
}

Result add(Noted one) {
  if (const Result result = one.rank->ready(); result != success) return result;
  group.push_back(std::move(one));
  return depth > 0 ? success : end_group();
}

void put(void* to, const std::vector<std::byte>& bytes) {
  if (!bytes.empty() && to != nullptr) std::memcpy(to, bytes.data(), bytes.size());
}

/// As NCCL names it (nccl_common.h, ncclDatatypeToString).
const char* word_of(Type type) {
  constexpr const char* words[]{"ncclInt8",   "ncclUint8",   "ncclInt32",   "ncclUint32",  "ncclInt64",
                                "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  return words[type];
}

struct Collective {
  const char* name;
  Kind kind;
  const void* in;
  void* out;
  std::size_t count;
  Type type;
  Op op = sum;
  int root = 0;
};

/// all_gather.h and broadcast.h (runRing): what a rank brings is copied only where it does not lie in its place already. Others may read it
/// there meanwhile.
void put_collective(const Collective& what, std::size_t bytes, int rank,
                    const std::vector<std::byte>& answer) {
  auto* const out = static_cast<std::byte*>(what.out);
  if (what.kind == Kind::broadcast && rank == what.root && what.in == what.out) return;
  const std::size_t own = static_cast<std::size_t>(rank) * bytes;
  if (what.kind != Kind::all_gather || answer.empty() || what.in != out + own) return put(out, answer);
  std::memcpy(out, answer.data(), own);
  std::memcpy(out + own + bytes, answer.data() + own + bytes, answer.size() - own - bytes);
}

Result collective(const Collective& what, Comm* comm, Stream stream) {
  if (const Result fault = wanted_fault(what.name); fault != success) return fault;
  if (what.count == 0) return success;  // enqueue.cc: an empty one is left out
  const Handle& rank = of(comm);
  if (what.root < 0 || what.root >= rank->size()) return invalid_argument;
  const int number = rank->next_operation();
  {
    const std::lock_guard lock(wishes().mutex);
    wishes().handed_over[rank->rank()].emplace_back(rank->name(), number);
  }
  std::size_t bytes = what.count * test::fake_nccl_size(what.type);
  if (what.kind == Kind::reduce_scatter) bytes *= static_cast<std::size_t>(rank->size());
  if (what.kind == Kind::broadcast && rank->rank() != what.root) bytes = 0;
  return add({.rank = rank,
              .stream = stream,
              .told = {what.name, word_of(what.type), what.count, what.root},
              .ask =
                  [=](Rank& one) {
                    const Header header{.kind = what.kind,
                                        .numbers = {number, static_cast<std::int64_t>(what.count), what.type,
                                                    what.op, what.root}};
                    std::ostringstream agreed;
                    agreed << what.count << ' ' << what.type << ' ' << what.op << ' ' << what.root;
                    return one.ask(header, agreed.str(), {static_cast<const std::byte*>(what.in), bytes});
                  },
              .take = [what, bytes, own = rank->rank()](
                          const Frame& answer) { put_collective(what, bytes, own, answer.bytes); }});
}

Result message(bool sends, const void* out, void* in, std::size_t count, Type type, int peer, Comm* comm,
               Stream stream) {
  const Handle& rank = of(comm);
  if (peer < 0 || peer >= rank->size()) return invalid_argument;
  const std::size_t bytes = count * test::fake_nccl_size(type);
  return add({.rank = rank,
              .stream = stream,
              .peer = peer,
              .sends = sends,
              .told = {sends ? "Send" : "Recv", word_of(type), count, peer, true},
              .ask =
                  [=](Rank& one) {
                    const Header header{.kind = sends ? Kind::send : Kind::receive,
                                        .numbers = {peer, static_cast<std::int64_t>(bytes)}};
                    return one.ask(header, {}, {static_cast<const std::byte*>(out), sends ? bytes : 0});
                  },
              .take = [in](const Frame& answer) { put(in, answer.bytes); }});
}

Result make_child(Rank& parent, const std::string& name, const std::vector<int>& ranks, Comm** child) {
  const auto mine = static_cast<int>(std::ranges::find(ranks, parent.rank()) - ranks.begin());
  const Team team{parent.members()[static_cast<std::size_t>(ranks.front())].hub, parent.name() + name};
  Handle made;
  const Result result = Rank::connect(team, static_cast<int>(ranks.size()), mine, &parent, made);
  if (result == success) {
    Comm* const handle = handle_of(std::move(made));
    store(parent, [child, handle] { *child = handle; });
  }
  return result;
}

// Memory of ncclMemAlloc. It holds anything at first.
std::mutex of_memory;
std::set<void*> memory_blocks;

}  // namespace
}  // namespace weft::fake_nccl

using namespace weft::fake_nccl;     // NOLINT
using namespace weft::detail::nccl;  // NOLINT

extern "C" {

Result ncclGetVersion(int* version) {
  *version = weft::fake_nccl::version();
  return success;
}
const char* ncclGetErrorString(Result code) {
  constexpr const char* texts[]{"no error",
                                "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                "internal error - please report this issue to the NCCL developers",
                                "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                "remote process exited or there was a network error",
                                "NCCL operation in progress"};
  return code >= success && code <= in_progress ? texts[code] : "unknown result code";
}
const char* ncclGetLastError(const Comm*) {
  return last_said();
}

Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> ids = 0;
  if (const Result fault = wanted_fault("GetUniqueId"); fault != success) return fault;
  const Id mine{.hub = own_hub(), .number = ++ids};
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, &mine, sizeof(mine));
  return success;
}

Result ncclCommInitRankConfig(Comm** comm, int size, UniqueId unique, int rank, Config* config) {
  if (const Result fault = wanted_fault("CommInitRankConfig"); fault != success) return fault;
  Id id;
  std::memcpy(&id, unique.internal, sizeof(id));
  const char* blocking = std::getenv("NCCL_COMM_BLOCKING");
  if ((config != nullptr && config->blocking == 0) ||
      (blocking != nullptr && std::string_view(blocking) == "0")) {
    say("this fake is blocking");
    return invalid_usage;
  }
  if (id.magic != Id::right || size < 1 || rank < 0 || rank >= size) return invalid_argument;
  Handle made;
  std::ostringstream name;
  name << id.hub.host << ':' << id.hub.port << '/' << id.number;
  const Result result = Rank::connect({id.hub, name.str()}, size, rank, nullptr, made);
  if (result == success) *comm = handle_of(std::move(made));
  return result;
}

Result ncclCommSplit(Comm* comm, int color, int key, Comm** child, Config*) {
  if (const Result fault = wanted_fault("CommSplit"); fault != success) return fault;
  Rank& parent = *of(comm);
  *child = nullptr;
  if (const Result result = parent.ready(); result != success) return result;
  const int number = parent.next_child();
  struct Wish {
    int color, key;
  };
  const Wish mine{color, key};
  std::vector<std::byte> bytes;
  const Result result = parent.meet("split " + std::to_string(number), parent.size(),
                                    std::as_bytes(std::span(&mine, 1)), &bytes);
  if (result != success || color == no_color) return result;
  std::vector<Wish> wishes(bytes.size() / sizeof(Wish));
  std::memcpy(wishes.data(), bytes.data(), bytes.size());
  std::vector<int> ranks;
  for (int one = 0; one < parent.size(); ++one) {
    if (wishes[static_cast<std::size_t>(one)].color == color) ranks.push_back(one);
  }
  std::ranges::stable_sort(ranks, {}, [&](int one) { return wishes[static_cast<std::size_t>(one)].key; });
  return make_child(parent, "/split " + std::to_string(number) + " " + std::to_string(color), ranks, child);
}

Result ncclCommShrink(Comm* comm, int* excluded, int count, Comm** child, Config*, int flags) {
  if (const Result fault = wanted_fault("CommShrink"); fault != success) return fault;
  Rank& parent = *of(comm);
  *child = nullptr;
  if (count <= 0 || std::find(excluded, excluded + count, parent.rank()) != excluded + count)
    return invalid_argument;
  if ((flags & shrink_abort) != 0) {
    parent.let_go_on();
  } else if (const Result result = parent.ready(); result != success) {
    return result;
  }
  const int number = parent.next_child();
  std::vector<int> ranks;
  for (int one = 0; one < parent.size(); ++one) {
    if (std::find(excluded, excluded + count, one) == excluded + count) ranks.push_back(one);
  }
  return make_child(parent, "/shrink " + std::to_string(number), ranks, child);
}

Result ncclCommGetAsyncError(Comm* comm, Result* state) {
  *state = of(comm)->poll();
  return success;
}
Result ncclCommFinalize(Comm*) {
  return wanted_fault("CommFinalize");
}
Result ncclCommDestroy(Comm* comm) {
  of(comm)->end(true);
  give_back(comm);
  return success;
}
Result ncclCommAbort(Comm* comm) {
  of(comm)->abort();
  of(comm)->end(false);
  give_back(comm);
  return success;
}
Result ncclCommRevoke(Comm* comm, int) {
  of(comm)->revoke();
  return success;
}

Result ncclMemAlloc(void** memory, std::size_t bytes) {
  if (const Result fault = wanted_fault("MemAlloc"); fault != success) return fault;
  constexpr std::size_t alignment = 4096;
  constexpr int anything = 0xa5;
  if (posix_memalign(memory, alignment, std::max(bytes, std::size_t{1})) != 0) return unhandled_cuda_error;
  std::memset(*memory, anything, bytes);
  const std::lock_guard lock(of_memory);
  memory_blocks.insert(*memory);
  ++wishes().blocks;
  return success;
}
Result ncclMemFree(void* memory) {
  const std::lock_guard lock(of_memory);
  if (memory_blocks.erase(memory) == 0) return invalid_argument;
  --wishes().blocks;
  std::free(memory);
  return success;
}
Result ncclCommRegister(const Comm* comm, void*, std::size_t, void** handle) {
  if (const Result fault = wanted_fault("CommRegister"); fault != success) return fault;
  *handle = of(comm).get();
  ++wishes().registered;
  return success;
}
Result ncclCommDeregister(const Comm* comm, void* handle) {
  if (handle != of(comm).get()) return invalid_argument;
  --wishes().registered;
  return success;
}
// Waits for all ranks where peers can be reached (dev_runtime.cc:629), else gives no window (dev_runtime.cc:593).
Result ncclCommWindowRegister(Comm* comm, void* memory, std::size_t, Window** window, int) {
  if (const Result fault = wanted_fault("CommWindowRegister"); fault != success) return fault;
  Rank& rank = *of(comm);
  *window = nullptr;
  if (const Result result = rank.ready(); result != success) return result;
  if (!rank.reaches_all() || !wishes().reachable) return success;
  if (!wishes().non_blocking) {
    const Result result = rank.meet("window " + std::to_string(rank.next_window()), rank.size(), {});
    if (result != success) return result;
  }
  ++wishes().windows;
  store(rank, [=] { *window = static_cast<Window*>(memory); });
  return success;
}
Result ncclCommWindowDeregister(Comm*, Window*) {
  --wishes().windows;
  return success;
}

Result ncclAllReduce(const void* in, void* out, std::size_t count, Type type, Op op, Comm* comm,
                     Stream stream) {
  return collective({"AllReduce", Kind::all_reduce, in, out, count, type, op}, comm, stream);
}
Result ncclReduceScatter(const void* in, void* out, std::size_t count, Type type, Op op, Comm* comm,
                         Stream stream) {
  return collective({"ReduceScatter", Kind::reduce_scatter, in, out, count, type, op}, comm, stream);
}
Result ncclAllGather(const void* in, void* out, std::size_t count, Type type, Comm* comm, Stream stream) {
  return collective({"AllGather", Kind::all_gather, in, out, count, type}, comm, stream);
}
Result ncclBroadcast(const void* in, void* out, std::size_t count, Type type, int root, Comm* comm,
                     Stream stream) {
  return collective({"Broadcast", Kind::broadcast, in, out, count, type, sum, root}, comm, stream);
}
Result ncclReduce(const void* in, void* out, std::size_t count, Type type, Op op, int root, Comm* comm,
                  Stream stream) {
  return collective({"Reduce", Kind::reduce, in, out, count, type, op, root}, comm, stream);
}
Result ncclSend(const void* out, std::size_t count, Type type, int peer, Comm* comm, Stream stream) {
  if (const Result fault = wanted_fault("Send"); fault != success) return fault;
  return message(true, out, nullptr, count, type, peer, comm, stream);
}
Result ncclRecv(void* in, std::size_t count, Type type, int peer, Comm* comm, Stream stream) {
  if (const Result fault = wanted_fault("Recv"); fault != success) return fault;
  return message(false, nullptr, in, count, type, peer, comm, stream);
}
Result ncclRedOpCreatePreMulSum(Op* op, void* scalar, Type, int, Comm* comm) {
  if (const Result result = of(comm)->ready(); result != success) return result;
  *op = weft::test::fake_nccl_scaled_sum(scalar);
  return success;
}
Result ncclGroupStart() {
  if (const Result fault = wanted_fault("GroupStart"); fault != success) return fault;
  ++depth;
  return success;
}
Result ncclGroupEnd() {
  if (depth == 0) return invalid_usage;
  return --depth > 0 ? success : end_group();
}

// As NCCL where copy engines do not carry it (2.28.9: enqueue.cc:2585).
Result ncclAlltoAll(const void* in, void* out, std::size_t count, Type type, Comm* comm, Stream stream) {
  if (const Result fault = wanted_fault("AlltoAll"); fault != success) return fault;
  const std::size_t bytes = count * weft::test::fake_nccl_size(type);
  Result result = ncclGroupStart();
  for (int peer = 0; peer < of(comm)->size() && result == success; ++peer) {
    const std::size_t at = static_cast<std::size_t>(peer) * bytes;
    result = message(true, static_cast<const std::byte*>(in) + at, nullptr, count, type, peer, comm, stream);
    if (result == success)
      result = message(false, nullptr, static_cast<std::byte*>(out) + at, count, type, peer, comm, stream);
  }
  const Result ended = ncclGroupEnd();
  return result == success ? ended : result;
}

}  // extern "C"

void* weft::fake_nccl::find(const char* symbol) {
  const std::string_view name = symbol;
  if (name == "ncclGetErrorString") return reinterpret_cast<void*>(&ncclGetErrorString);
  if (name == "ncclGetLastError") return reinterpret_cast<void*>(&ncclGetLastError);
#define FIND(function, since, parameters) \
  if (name == "nccl" #function && version() >= since) return reinterpret_cast<void*>(&nccl##function);
  WEFT_NCCL_FUNCTIONS(FIND)
#undef FIND
  return nullptr;
}
