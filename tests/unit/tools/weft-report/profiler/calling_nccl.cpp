#include "unit/tools/weft-report/profiler/calling_nccl.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace weft::profiler::test {
namespace {

std::mutex log_mutex;
std::vector<std::string> lines;

extern "C" void log_line(int level, unsigned long, const char*, int, const char* format, ...) {
  char words[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(words, sizeof(words), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(log_mutex);
  if (lines.size() > 10000) lines.clear();
  lines.push_back((level == log_warn ? "WARN " : "INFO ") + std::string(words));
}

// plugin_open.cc of 2.30.7, lines 79 to 121: the name as it is, then libnccl-profiler-NAME.so.
void* open_library(const std::string& name) {
  if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return dlopen(("libnccl-profiler-" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

template <class Profiler>
const Profiler& as(const void* symbol) {
  return *static_cast<const Profiler*>(symbol);
}

// profiler_v1.cc, line 16: the numbers that stand for the words.
std::uint8_t function_number(const char* word) {
  constexpr const char* words[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                   "AllReduce", "SendRecv", "Send",      "Recv"};
  for (std::uint8_t i = 0; i < 8; ++i) {
    if (std::strcmp(words[i], word) == 0) return i;
  }
  return 6;
}
std::uint8_t type_number(const char* word) {
  constexpr const char* words[] = {"ncclInt8",   "ncclUint8",   "ncclInt32",   "ncclUint32",  "ncclInt64",
                                   "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  for (std::uint8_t i = 0; i < 10; ++i) {
    if (std::strcmp(words[i], word) == 0) return i;
  }
  return 8;
}

// What fills the rest of an event is not told: it may be anything.
template <class Event>
Event blank(std::uint64_t type, void* parent, int rank) {
  Event event;
  std::memset(&event, 0xee, sizeof(event));
  event.type = static_cast<decltype(event.type)>(type);
  event.parent = parent;
  event.rank = rank;
  return event;
}

template <class Event>
void fill_proxy(Event& event, int channel, int pid) {
  event.proxy = {.pid = pid,
                 .channel = static_cast<std::uint8_t>(channel),
                 .peer = 1,
                 .steps = 4,
                 .chunk = 1 << 19,
                 .sends = 1};
}

template <class Event>
void fill_early(Event& event, const Place& about, const Call& call, std::uint64_t number) {
  if (call.p2p) {
    event.p2p.name = about.name;
    event.p2p.hash = about.hash;
    event.p2p.count = call.count;
    event.p2p.peer = call.root;
  } else {
    event.collective.name = about.name;
    event.collective.hash = about.hash;
    event.collective.number = number;
    event.collective.count = call.count;
    event.collective.root = call.root;
  }
  if constexpr (std::is_same_v<Event, EventV1>) {
    (call.p2p ? event.p2p.function : event.collective.function) = function_number(call.function);
    (call.p2p ? event.p2p.datatype : event.collective.datatype) = type_number(call.datatype);
  } else {
    (call.p2p ? event.p2p.function : event.collective.function) = call.function;
    (call.p2p ? event.p2p.datatype : event.collective.datatype) = call.datatype;
  }
}
template <class Event>
void fill_late(Event& event, const Call& call, std::uint64_t number) {
  if (call.p2p) {
    event.p2p.function = call.function;
    event.p2p.datatype = call.datatype;
    event.p2p.count = call.count;
    event.p2p.peer = call.root;
    event.p2p.channels = static_cast<std::uint8_t>(call.channels);
    return;
  }
  event.collective.number = number;
  event.collective.function = call.function;
  event.collective.datatype = call.datatype;
  event.collective.count = call.count;
  event.collective.root = call.root;
  event.collective.channels = static_cast<std::uint8_t>(call.channels);
}

}  // namespace

CallingNccl::CallingNccl(Release release, const std::string& name)
    : release_(release), library_(open_library(name)) {
  if (library_ == nullptr) return;
  // profiler.cc of 2.30.7, lines 73 to 87: from the newest that it knows downwards.
  for (int version = static_cast<int>(release); version >= 1 && symbol_ == nullptr; --version)
    symbol_ = dlsym(library_, ("ncclProfiler_v" + std::to_string(version)).c_str());
}
CallingNccl::~CallingNccl() {
  if (library_ != nullptr) dlclose(library_);  // profiler.cc, line 119
}
std::string CallingNccl::profiler_name() const {
  return as<ProfilerV1>(symbol_).name;
}
std::vector<std::string> CallingNccl::log() {
  const std::lock_guard lock(log_mutex);
  return lines;
}
void CallingNccl::clear_log() {
  const std::lock_guard lock(log_mutex);
  lines.clear();
}

Communicator::Communicator(const CallingNccl& nccl, const Place& about) : nccl_(nccl), about_(about) {
  const void* const symbol = nccl.symbol();
  // profiler.cc, line 250; profiler_v1.cc, line 150; profiler_v4.cc, line 121.
  switch (nccl.release()) {
    case Release::v2_23:
    case Release::v2_24:
    case Release::v2_26:
      as<ProfilerV1>(symbol).init(&context_, &mask_);
      break;
    case Release::v2_27:
      as<ProfilerV4>(symbol).init(&context_, &mask_, about.name, about.hash, about.nodes, about.ranks,
                                  about.rank, log_line);
      break;
    case Release::v2_28:
    case Release::v2_29:
    case Release::v2_31:
      as<ProfilerV5>(symbol).init(&context_, about.hash, &mask_, about.name, about.nodes, about.ranks,
                                  about.rank, log_line);
      break;
  }
}
Communicator::~Communicator() {
  if (context_ == nullptr) return;  // profiler.cc, line 265
  if (nccl_.release() <= Release::v2_26)
    as<ProfilerV1>(nccl_.symbol()).finalize(context_);
  else
    as<ProfilerV4>(nccl_.symbol()).finalize(context_);
}

void* Communicator::start(std::uint64_t type, void* parent, const Call& call, int channel,
                          std::uint64_t timer, int pid) {
  void* handle = nullptr;  // each interface sets it so before it asks
  const void* const symbol = nccl_.symbol();
  const bool is_operation = type == event_collective || type == event_p2p;
  const auto early = [&](auto event, const auto& profiler) {
    if (is_operation) fill_early(event, about_, call, number_);
    if (type == event_proxy_operation) fill_proxy(event, channel, pid);
    profiler.start(context_, &handle, &event);
  };
  const auto late = [&](auto event, const auto& profiler) {
    if (is_operation) fill_late(event, call, number_);
    if (type == event_proxy_operation) fill_proxy(event, channel, pid);
    if (type == event_kernel_channel)
      event.kernel = {.channel = static_cast<std::uint8_t>(channel), .timer = timer};
    profiler.start(context_, &handle, &event);
  };
  switch (nccl_.release()) {
    case Release::v2_23:
      early(blank<EventV1>(type, parent, about_.rank), as<ProfilerV1>(symbol));
      break;
    case Release::v2_24:
      early(blank<EventV2>(type, parent, about_.rank), as<ProfilerV2>(symbol));
      break;
    case Release::v2_26:
      early(blank<EventV3>(type, parent, about_.rank), as<ProfilerV3>(symbol));
      break;
    case Release::v2_27:
      late(blank<EventV4>(type, parent, about_.rank), as<ProfilerV4>(symbol));
      break;
    case Release::v2_28:
    case Release::v2_29:
    case Release::v2_31:
      late(blank<EventV5>(type, parent, about_.rank), as<ProfilerV5>(symbol));
      break;
  }
  return handle;
}
void Communicator::stop(void* handle) {
  as<ProfilerV1>(nccl_.symbol()).stop(handle);
}
void Communicator::record(void* handle, int state, std::uint64_t timer) {
  StateV4 arguments{};
  arguments.timer = timer;
  if (nccl_.release() <= Release::v2_26)
    as<ProfilerV1>(nccl_.symbol()).record(handle, state, &arguments);
  else
    as<ProfilerV4>(nccl_.symbol()).record(handle, state, &arguments);
}

// profiler.cc, lines 476 (ncclProfilerStartTaskEvents) and 544 (ncclProfilerStopTaskEvents)
Task Communicator::enqueue(const Call& call) {
  const int type = call.p2p ? event_p2p : event_collective;
  if ((mask_ & (type | event_proxy_operation | event_kernel_channel)) == 0) return {};
  Task task{.handle = start(static_cast<std::uint64_t>(type), nullptr, call, 0, 0, 0),
            .channels = call.channels};
  if (!call.p2p) ++number_;
  if (task.handle != nullptr) stop(task.handle);
  return task;
}

void Communicator::run(const Task& task, std::uint64_t from, std::uint64_t until, int pid) {
  std::vector<void*> parts;
  for (int channel = 0; channel < task.channels; ++channel) {
    parts.push_back(begin_part(task, channel, from, pid));
  }
  for (void* const part : parts) end_part(part, until);
}

// profiler.cc, lines 679 and 567
void* Communicator::begin_part(const Task& task, int channel, std::uint64_t from, int pid) {
  if ((mask_ & event_kernel_channel) != 0)
    return start(event_kernel_channel, task.handle, {}, channel, from, 0);
  if ((mask_ & event_proxy_operation) != 0)
    return start(event_proxy_operation, task.handle, {}, channel, 0, pid == 0 ? getpid() : pid);
  return nullptr;
}
// profiler.cc, line 694: the state first, then the end; neither for a null handle.
void Communicator::end_part(void* part, std::uint64_t until) {
  if (part == nullptr) return;
  if ((mask_ & event_kernel_channel) != 0) record(part, kernel_stops, until);
  stop(part);
}

void Communicator::strange_events(const Task& task) {
  for (unsigned bit = 0; bit < (nccl_.release() >= Release::v2_28 ? 40U : 8U); ++bit) {
    const std::uint64_t type = std::uint64_t{1} << bit;
    if (type == event_collective || type == event_p2p || type == event_kernel_channel) continue;
    void* const handle = start(type, task.handle, {}, 0, 0, getpid() + 1);
    record(handle, static_cast<int>(bit), 5);
    stop(handle);
  }
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0},
                                     std::uint64_t{0x5000000000000000}, std::uint64_t{0xa00fff0000000001}}) {
    auto* const handle = reinterpret_cast<void*>(number);
    for (int state = -1; state < 40; ++state) record(handle, state, 7);
    stop(handle);
    void* const part = start(event_kernel_channel, handle, {}, 0, 9, 0);
    stop(part);
  }
}

}  // namespace weft::profiler::test
