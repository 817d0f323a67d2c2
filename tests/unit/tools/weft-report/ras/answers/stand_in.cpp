// Prints what NCCL's own code answers on its RAS socket, for jobs that are made up here. make.py compiles it once for each version of NCCL, with
// src/ras/client_support.cc and ras_internal.h of that version and headers that all lead back here; nothing of weft is in it.
//
//   stand_in STATE text|verbose|json       prints the answer
//   stand_in list                          prints the names of the states
//
// PART 1 stands for the headers of NCCL, PART 2 for the functions that client_support.cc calls, PART 3 makes jobs.

#ifndef STAND_IN_HEADERS
#define STAND_IN_HEADERS
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <mutex>

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
#if VERSION >= 23000
  ncclTimeout = 8,
  ncclNumResults = 9
#else
  ncclNumResults = 8
#endif
} ncclResult_t;
typedef enum {
  ncclFuncBroadcast,
  ncclFuncReduce,
  ncclFuncAllGather,
  ncclFuncReduceScatter,
  ncclFuncAllReduce
} ncclFunc_t;
typedef pid_t ncclPid_t;
#define NCCL_NUM_FUNCTIONS 5
#define NCCL_MAX_LOCAL_RANKS 64
#define NCCL_SUFFIX ""
#define CUDA_MAJOR 12
#define CUDA_MINOR 8
#define SOCKET_NAME_MAXLEN (NI_MAXHOST + NI_MAXSERV)
#define NCCL_INVALID_SOCKET -1
#define ROUNDUP(x, y) ((((x) + (y)-1) / (y)) * (y))
#define COMPILER_POPCOUNT32(x) __builtin_popcount(x)
#define COMPILER_POPCOUNT64(x) __builtin_popcountll(x)
#define COMPILER_CLZ(x) __builtin_clz(x)
#define INFO(flags, ...) ((void)0)
#define TRACE(flags, ...) ((void)0)
#define WARN(...) ((void)0)
#define NCCLCHECK(call)                                  \
  do {                                                   \
    if ((call) != ncclSuccess) return ncclInternalError; \
  } while (0)
#define NCCLCHECKGOTO(call, result, label)                             \
  do {                                                                 \
    result = (call);                                                   \
    if (result != ncclSuccess && result != ncclInProgress) goto label; \
  } while (0)
#define SYSCHECKGOTO(call, name, result, label) \
  do {                                          \
    if ((call) == -1) {                         \
      result = ncclSystemError;                 \
      goto label;                               \
    }                                           \
  } while (0)
union ncclSocketAddress {
  struct sockaddr sa;
  struct sockaddr_in sin;
  struct sockaddr_in6 sin6;
};
struct ncclSocket {
  int fd;
};
struct rasRankInit {
  union ncclSocketAddress addr;
};
struct ncclComm;
template <typename T, T* T::*next>
struct ncclIntruQueue {
  T *head, *tail;
};
template <typename T, T* T::*next>
void ncclIntruQueueConstruct(ncclIntruQueue<T, next>* me) {
  me->head = me->tail = nullptr;
}
template <typename T, T* T::*next>
T* ncclIntruQueueHead(ncclIntruQueue<T, next>* me) {
  return me->head;
}
template <typename T, T* T::*next>
void ncclIntruQueueEnqueue(ncclIntruQueue<T, next>* me, T* x) {
  x->*next = nullptr;
  (me->head ? me->tail->*next : me->head) = x;
  me->tail = x;
}
template <typename T, T* T::*next>
T* ncclIntruQueueDequeue(ncclIntruQueue<T, next>* me) {
  T* first = me->head;
  if (first != nullptr) me->head = first->*next;
  return first;
}
template <typename T, T* T::*next>
T* ncclIntruQueueTryDequeue(ncclIntruQueue<T, next>* me) {
  return ncclIntruQueueDequeue(me);
}
template <typename T>
ncclResult_t ncclCalloc(T** place, size_t count) {
  *place = static_cast<T*>(
      calloc(count + 64, sizeof(T)));  // 2.24 lists dead processes where it has room for silent ones
  return ncclSuccess;
}
template <typename T>
ncclResult_t ncclRealloc(T** place, size_t, size_t count) {
  *place = static_cast<T*>(realloc(*place, count * sizeof(T)));
  return ncclSuccess;
}
inline int64_t clockNano() {
  return 10'000'000;  // an answer takes 10 ms
}
inline time_t fixed_time(time_t*) {
  return 1'760'000'000;
}
extern const char* ncclFuncStr[NCCL_NUM_FUNCTIONS];
const char* ncclFuncToString(ncclFunc_t function);
const char* ncclGetEnv(const char* name);
ncclResult_t ncclSocketGetAddrFromString(union ncclSocketAddress*, const char*);
const char* ncclSocketToString(const union ncclSocketAddress*, char* buffer, int numeric = 1);
inline int cudaRuntimeGetVersion(int* version) {
  return *version = 12080, 0;
}
inline int cudaDriverGetVersion(int* version) {
  return *version = 12080, 0;
}
#endif

#ifdef STAND_IN
#undef STAND_IN  // its headers are this file again
#define time fixed_time
#include "client_support.cc"
#undef time

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

// PART 2

const char* ncclFuncStr[NCCL_NUM_FUNCTIONS] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                               "AllReduce"};
const char* ncclFuncToString(ncclFunc_t function) {
  return ncclFuncStr[function];
}
const char* ncclGetEnv(const char* name) {
  return getenv(name);
}
ncclResult_t ncclSocketGetAddrFromString(union ncclSocketAddress*, const char*) {
  return ncclSuccess;
}
const char* ncclSocketToString(const union ncclSocketAddress*, char* buffer, int) {
  return buffer;
}
struct pollfd* rasPfds = new pollfd[1];
char rasLine[SOCKET_NAME_MAXLEN + 1];
struct rasPeerInfo* rasPeers;
int nRasPeers;
union ncclSocketAddress* rasDeadPeers;
int nRasDeadPeers;
int64_t ncclParamRasTimeoutFactor() {
  return 1;
}
ncclResult_t rasMsgAlloc(struct rasMsg** message, size_t length) {
  auto* meta = static_cast<struct rasMsgMeta*>(calloc(1, offsetof(struct rasMsgMeta, msg) + length + 1));
  *message = &meta->msg;
  return ncclSuccess;
}
void rasMsgFree(struct rasMsg*) {}
ncclResult_t rasGetNewPollEntry(int* index) {
  return *index = 0, ncclSuccess;
}
int ncclSocketsCompare(const void* a, const void* b) {
  const auto* one = static_cast<const union ncclSocketAddress*>(a);
  const auto* other = static_cast<const union ncclSocketAddress*>(b);
  const int nodes = memcmp(&one->sin.sin_addr, &other->sin.sin_addr, sizeof(one->sin.sin_addr));
  return nodes != 0 ? nodes : memcmp(&one->sin.sin_port, &other->sin.sin_port, sizeof(one->sin.sin_port));
}
bool ncclSocketsSameNode(const union ncclSocketAddress* a, const union ncclSocketAddress* b) {
  return a->sin.sin_addr.s_addr == b->sin.sin_addr.s_addr;
}
int rasPeerFind(const union ncclSocketAddress* address) {
  for (int i = 0; i < nRasPeers; ++i) {
    if (ncclSocketsCompare(&rasPeers[i].addr, address) == 0) return i;
  }
  return -1;
}
bool rasPeerIsDead(const union ncclSocketAddress* address) {
  for (int i = 0; i < nRasDeadPeers; ++i) {
    if (ncclSocketsCompare(&rasDeadPeers[i], address) == 0) return true;
  }
  return false;
}
const char* rasPeerInfoToString(const struct rasPeerInfo*, char* buffer, size_t) {
  return buffer;
}
const char* rasPeerToString(const union ncclSocketAddress*, char* buffer, size_t) {
  return buffer;
}
void rasCollFree(struct rasCollective*) {}
void rasCollReqInit(struct rasCollRequest*) {}

static struct rasCollective answer_of_all;
#if VERSION < 22600
struct rasCollective* rasCollectives = &answer_of_all;
ncclResult_t rasNetSendCollReq(const struct rasCollRequest*, size_t, bool* done, int* index, int) {
  return *done = true, *index = 0, ncclSuccess;
}
#else
ncclResult_t rasNetSendCollReq(const struct rasCollRequest*, bool* done, struct rasCollective** all,
                               struct rasConnection*) {
  return *done = true, *all = &answer_of_all, ncclSuccess;
}
#endif

// PART 3

namespace {

struct Rank {
  uint64_t counts[NCCL_NUM_FUNCTIONS] = {1, 0, 20, 20, 640};
  ncclResult_t init = ncclSuccess;
  ncclResult_t async = ncclSuccess;
  bool finalize = false;
  bool destroy = false;
  bool abort = false;
  bool member = true;  // else its process answers and is not in the communicator
};

struct Comm {
  uint64_t hash;
  std::vector<Rank> ranks;
};

struct Job {
  std::vector<int> processes_of_node = {2, 2};
  std::vector<int> gpus_of_process;  // 1 each, or as said
  bool other_gpu_numbers = false;    // CUDA_VISIBLE_DEVICES
  std::vector<int> silent;           // processes that give no answer
  std::vector<int> dead;             // of these those that are dead
  std::vector<int> forgotten;        // processes that answer and that nobody knows
  int timeouts = 0;
  std::vector<Comm> comms;

  explicit Job(int ranks = 4) : comms{{0xfa93daea854b060b, std::vector<Rank>(ranks)}} {}
  std::vector<Rank>& ranks() { return comms[0].ranks; }
};

bool in(const std::vector<int>& list, int one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

union ncclSocketAddress address_of(int node, int process) {
  union ncclSocketAddress address;
  memset(&address, 0, sizeof(address));
  address.sin.sin_family = AF_INET;
  address.sin.sin_addr.s_addr = htonl(0x0a000001 + node);
  address.sin.sin_port = htons(40000 + process);
  return address;
}

template <class T>
void put(std::vector<char>& data, const T& value, size_t size = sizeof(T)) {
  const char* bytes = reinterpret_cast<const char*>(&value);
  data.insert(data.end(), bytes, bytes + size);
}

void answer(const Job& job, const std::string& form) {
  // Process i of the job is i of rasPeers: addresses rise.
  std::vector<rasPeerInfo> peers;
  for (size_t node = 0; node < job.processes_of_node.size(); ++node) {
    for (int i = 0; i < job.processes_of_node[node]; ++i) {
      rasPeerInfo peer{};
      const size_t index = peers.size();
      const int gpus = index < job.gpus_of_process.size() ? job.gpus_of_process[index] : 1;
      peer.addr = address_of(static_cast<int>(node), i);
      peer.pid = 5000 + static_cast<int>(index);
      peer.cudaDevs = ((uint64_t{1} << gpus) - 1) << i;
      peer.nvmlDevs = job.other_gpu_numbers ? peer.cudaDevs << 4 : peer.cudaDevs;
      peers.push_back(peer);
    }
  }
  std::vector<union ncclSocketAddress> answered;
  std::vector<int> index_of(peers.size(), -1);
  std::vector<union ncclSocketAddress> dead;
  for (size_t i = 0; i < peers.size(); ++i) {
    if (in(job.dead, static_cast<int>(i))) dead.push_back(peers[i].addr);
    if (in(job.silent, static_cast<int>(i))) continue;
    index_of[i] = static_cast<int>(answered.size());
    answered.push_back(peers[i].addr);
  }
  const auto gpu = [&](int rank) { return rank % job.processes_of_node[0]; };
  std::vector<char> data;
  struct rasCollComms head {};
  head.nComms = static_cast<int>(job.comms.size());
  put(data, head, offsetof(struct rasCollComms, comms));
  for (const Comm& one : job.comms) {
    struct rasCollComms::comm comm {};
    comm.commNRanks = static_cast<int>(one.ranks.size());
#if VERSION < 22600
    comm.commHash = one.hash;
#else
    comm.commId = {one.hash, one.hash + 1, one.hash + 2};
    std::vector<struct rasCollCommsMissingRank> missing;
#endif
    std::vector<struct rasCollComms::comm::rank> ranks;
    for (int i = 0; i < comm.commNRanks; ++i) {
      const Rank& from = one.ranks[i];
      const char cuda = static_cast<char>(gpu(i));
      const char nvml = static_cast<char>(job.other_gpu_numbers ? cuda + 4 : cuda);
      if (index_of[i] < 0 || !from.member) {
#if VERSION >= 22600
        struct rasCollCommsMissingRank lost;
        memset(&lost, 0, sizeof(lost));
        lost.commRank = i;
        lost.addr = peers[i].addr;
        lost.cudaDev = cuda;
        lost.nvmlDev = nvml;
        missing.push_back(lost);
#endif
        continue;
      }
      struct rasCollComms::comm::rank rank {};
      rank.commRank = i;
      rank.peerIdx = index_of[i];
#if VERSION < 22600
      for (const uint64_t count : from.counts) rank.collOpCount += count;
#else
      memcpy(rank.collOpCounts, from.counts, sizeof(from.counts));
#endif
      rank.status.initState = from.init;
      rank.status.asyncError = from.async;
      rank.status.finalizeCalled = from.finalize;
      rank.status.destroyFlag = from.destroy;
      rank.status.abortFlag = from.abort;
      rank.cudaDev = cuda;
      rank.nvmlDev = nvml;
      ranks.push_back(rank);
    }
    comm.nRanks = static_cast<int>(ranks.size());
#if VERSION >= 22600
    comm.nMissingRanks = static_cast<int>(missing.size());
#endif
    put(data, comm);
    for (const auto& rank : ranks) put(data, rank);
#if VERSION >= 22600
    for (const auto& lost : missing) put(data, lost);
#endif
  }
  std::vector<rasPeerInfo> known;
  for (size_t i = 0; i < peers.size(); ++i) {
    if (!in(job.forgotten, static_cast<int>(i))) known.push_back(peers[i]);
  }
  rasPeers = known.data();
  nRasPeers = static_cast<int>(known.size());
  rasDeadPeers = dead.data();
  nRasDeadPeers = static_cast<int>(dead.size());
  answer_of_all.peers = answered.data();
  answer_of_all.nPeers = static_cast<int>(answered.size());
  answer_of_all.data = data.data();
  answer_of_all.nData = static_cast<int>(data.size());
  answer_of_all.nLegTimeouts = job.timeouts;

  struct rasClient* client = nullptr;
  if (getNewClientEntry(&client) != ncclSuccess) exit(1);
  client->pfd = 0;
  client->verbose = form != "text";
#if VERSION >= 22807
  if (form == "json") client->outputFormat = RAS_OUTPUT_JSON;
#endif
  client->status = RAS_CLIENT_INIT;
  if (rasClientRunInit(client) != ncclSuccess) exit(1);
  client->status = RAS_CLIENT_COMMS;
  if (rasClientRunComms(client) != ncclSuccess) exit(1);
  while (struct rasMsgMeta* meta = ncclIntruQueueTryDequeue(&client->sendQ))
    fwrite(&meta->msg, 1, static_cast<size_t>(meta->length), stdout);
}

constexpr int all_gather = 2;
constexpr int all_reduce = 4;

const std::vector<std::pair<std::string, std::function<Job()>>> states{
    {"well", [] { return Job(); }},
    {"one-behind-by-one",
     [] {
       Job job;
       job.ranks()[3].counts[all_reduce] = 639;
       return job;
     }},
    {"two-ahead-by-one",
     [] {
       Job job(32);
       job.processes_of_node = {8, 8, 8, 8};
       for (const int rank : {12, 13}) job.ranks()[rank].counts[all_gather] = 21;
       return job;
     }},
    {"one-far-behind",
     [] {
       Job job;
       job.ranks()[1].counts[all_reduce] = 12;
       return job;
     }},
    {"two-far-behind",
     [] {
       Job job(12);
       job.processes_of_node = {6, 6};
       for (const int rank : {4, 7})
         job.ranks()[rank].counts[all_reduce] = 12, job.ranks()[rank].counts[all_gather] = 3;
       return job;
     }},
    {"many-counts",
     [] {
       Job job(16);
       job.processes_of_node = {8, 8};
       for (int rank = 0; rank < 16; ++rank)
         job.ranks()[rank].counts[all_reduce] = rank == 9 ? 100 : 640 + rank % 3;
       return job;
     }},
    {"never-launched",
     [] {
       Job job;
       for (Rank& rank : job.ranks()) rank = {.counts = {0, 0, 0, 0, 5}};
       job.ranks()[2].counts[all_reduce] = 0;
       return job;
     }},
    {"two-never-launched",
     [] {
       Job job;
       for (Rank& rank : job.ranks()) rank = {.counts = {0, 0, 0, 0, 5}};
       job.ranks()[0].counts[all_reduce] = job.ranks()[3].counts[all_reduce] = 0;
       return job;
     }},
    {"other-operation",
     [] {
       Job job;
       job.ranks()[1].counts[all_reduce] -= 3;
       job.ranks()[1].counts[all_gather] += 3;
       return job;
     }},
    {"silent",
     [] {
       Job job;
       job.silent = {2};
       job.timeouts = 1;
       return job;
     }},
    {"dead",
     [] {
       Job job;
       job.silent = {2};
       job.dead = {2};
       return job;
     }},
    {"dead-and-silent",
     [] {
       Job job(8);
       job.processes_of_node = {4, 4};
       job.silent = {1, 2, 6};
       job.dead = {1, 6};
       job.timeouts = 2;
       return job;
     }},
    {"many-silent",
     [] {
       Job job(32);
       job.processes_of_node = {16, 16};
       for (int i = 16; i < 32; ++i) job.silent.push_back(i);
       job.timeouts = 16;
       return job;
     }},
    {"silent-and-behind",
     [] {
       Job job;
       job.silent = {0};
       job.ranks()[3].counts[all_reduce] = 600;
       return job;
     }},
    {"silent-and-left",
     [] {
       Job job;
       job.silent = {0};
       job.ranks()[3].member = false;
       return job;
     }},
    {"left",
     [] {
       Job job;
       job.ranks()[2].member = false;
       return job;
     }},
    {"two-left",
     [] {
       Job job(12);
       job.processes_of_node = {6, 6};
       job.ranks()[2].member = job.ranks()[3].member = false;
       return job;
     }},
    {"starting",
     [] {
       Job job;
       for (Rank& rank : job.ranks()) rank = {.counts = {}, .init = ncclInProgress};
       return job;
     }},
    {"one-starting",
     [] {
       Job job;
       job.ranks()[1].init = ncclInProgress;
       return job;
     }},
    {"aborted",
     [] {
       Job job;
       job.ranks()[3].abort = true;
       return job;
     }},
    {"all-aborted",
     [] {
       Job job;
       for (Rank& rank : job.ranks()) rank.abort = rank.destroy = true;
       return job;
     }},
    {"ending",
     [] {
       Job job;
       for (Rank& rank : job.ranks()) rank.finalize = true;
       return job;
     }},
    {"one-ends",
     [] {
       Job job;
       job.ranks()[0].destroy = true;
       return job;
     }},
    {"initialization-error",
     [] {
       Job job;
       job.ranks()[1].init = ncclSystemError;
       return job;
     }},
    {"errors",
     [] {
       Job job;
       job.ranks()[0].async = job.ranks()[2].async = ncclRemoteError;
       job.ranks()[3].async = ncclUnhandledCudaError;
       return job;
     }},
    {"all-errors",
     [] {
       Job job(7);
       job.processes_of_node = {4, 3};
       for (int rank = 0; rank < 7; ++rank) job.ranks()[rank].async = static_cast<ncclResult_t>(rank);
       return job;
     }},
    {"remote-errors",
     [] {
       Job job;
       for (Rank& rank : job.ranks()) rank.async = ncclRemoteError;
       return job;
     }},
    {"time-outs",
     [] {
       Job job;
       job.timeouts = 2;
       return job;
     }},
    {"three-communicators",
     [] {
       Job job(8);
       job.processes_of_node = {4, 4};
       job.comms.push_back({0x1111, std::vector<Rank>(4)});
       job.comms.push_back({0x2222, std::vector<Rank>(2)});
       job.comms[1].ranks[2].counts[all_gather] = 3;
       return job;
     }},
    {"uneven-nodes",
     [] {
       Job job(5);
       job.processes_of_node = {3, 2};
       return job;
     }},
    {"uneven-gpus",
     [] {
       Job job(3);
       job.processes_of_node = {2, 1};
       job.gpus_of_process = {2, 1, 1};
       return job;
     }},
    {"no-communicator",
     [] {
       Job job;
       job.comms.clear();
       return job;
     }},
    {"nobody-knows-it",
     [] {
       Job job;
       job.forgotten = {3};
       job.ranks()[3].counts[all_reduce] = 7;
       return job;
     }},
    {"visible-devices",
     [] {
       Job job;
       job.other_gpu_numbers = true;
       job.ranks()[3].counts[all_reduce] = 7;
       return job;
     }},
    {"everything",
     [] {
       Job job(8);
       job.processes_of_node = {4, 4};
       job.silent = {1, 6};
       job.dead = {6};
       job.timeouts = 1;
       job.ranks()[0].async = ncclSystemError;
       job.ranks()[2].member = false;
       job.ranks()[3].abort = true;
       job.ranks()[4].counts[all_reduce] = 2;
       return job;
     }},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "list") {
    for (const auto& one : states) puts(one.first.c_str());
    return 0;
  }
  if (argc == 3) {
    for (const auto& one : states) {
      if (one.first != argv[1]) continue;
      answer(one.second(), argv[2]);
      return 0;
    }
  }
  fputs("usage: stand_in list | stand_in STATE text|verbose|json\n", stderr);
  return 42;
}
#endif
