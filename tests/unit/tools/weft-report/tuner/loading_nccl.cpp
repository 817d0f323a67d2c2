#include "unit/tools/weft-report/tuner/loading_nccl.hpp"

#include <dlfcn.h>

#include <cfloat>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "weft-report/tuner/abi.hpp"

namespace weft::tuner {
namespace {

std::mutex log_mutex;
std::vector<std::string> lines;

// ncclDebugLog (debug.cc): WARN names file and line.
extern "C" void log_line(int level, unsigned long, const char* file, int line, const char* format, ...) {
  char words[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(words, sizeof(words), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(log_mutex);
  if (lines.size() > 10000) lines.clear();
  lines.push_back(level == log_warn ? "WARN " + std::string(file) + ":" + std::to_string(line) + " " + words
                                    : std::string("INFO ") + words);
}

// plugin_open.cc of 2.30.7, lines 79 to 121: the name as it is, then libnccl-tuner-NAME.so, unless it is a path or a library's name.
void* open_library(const std::string& name) {
  if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const bool is_library = name.starts_with("lib") && name.ends_with(".so");
  if (name.empty() || name.find('/') != std::string::npos || is_library) return nullptr;
  return dlopen(("libnccl-tuner-" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Which interface a release knows best: NCCL_TUNER_PLUGIN_SYMBOL of src/include/nccl_tuner.h, from 2.27 on of src/include/plugin/nccl_tuner.h.
int newest(Release release) {
  return 2 + static_cast<int>(release);
}

// NCCL_NUM_ALGORITHMS: 6 up to 2.23 (nccl_common.h of 2.22.3, line 53), 7 from 2.24.3 on.
int algorithms_of(Release release) {
  return release <= Release::v2_22 ? 6 : 7;
}

template <class Tuner>
const Tuner& as(const void* symbol) {
  return *static_cast<const Tuner*>(symbol);
}

constexpr float canary = 77.0F;

}  // namespace

LoadingNccl::LoadingNccl(Release release, const std::string& name)
    : release_(release), library_(open_library(name)) {
  if (library_ == nullptr) return;
  // tuner.cc of 2.30.7, lines 73 to 85: from its own interface down to v2.
  for (interface_ = newest(release); interface_ >= 2; --interface_) {
    symbol_ = dlsym(library_, ("ncclTunerPlugin_v" + std::to_string(interface_)).c_str());
    if (symbol_ != nullptr) return;
  }
}

LoadingNccl::~LoadingNccl() {
  if (library_ != nullptr) dlclose(library_);
}

std::string LoadingNccl::tuner_name() const {
  return as<TunerV2>(symbol_).name;
}

std::vector<std::string> LoadingNccl::log() {
  const std::lock_guard lock(log_mutex);
  return lines;
}

void LoadingNccl::clear_log() {
  const std::lock_guard lock(log_mutex);
  lines.clear();
}

// init.cc of 2.21.5, line 1552, and of 2.22.3, line 1412; of 2.28.9, line 1354, and of 2.30.7, line 1641.
Communicator::Communicator(const LoadingNccl& nccl, std::size_t ranks, std::size_t nodes) : nccl_(nccl) {
  int domains[3] = {1, 8, 8};
  double constants[256] = {};
  int status = success;
  if (nccl.interface() >= 5)
    status = as<TunerV5>(nccl.symbol()).init(&context_, 4711, ranks, nodes, log_line, domains, constants);
  else
    status = as<TunerV2>(nccl.symbol()).init(ranks, nodes, log_line, &context_);
  if (status != success) throw std::runtime_error("the tuner's init failed");
  for (const double one : constants) {
    if (one != 0) throw std::runtime_error("the tuner changed NCCL's constants");
  }
}

// init.cc of 2.30.7, line 2775: the last member but chunk_size, in every interface the fourth.
Communicator::~Communicator() {
  const void* const symbol = nccl_.symbol();
  if (nccl_.interface() >= 5)
    as<TunerV5>(symbol).finalize(context_);
  else
    as<TunerV2>(symbol).finalize(context_);
}

Choice Communicator::ask(int collective, std::size_t bytes, int pipe_ops, const CostTable& costs,
                         int registered) {
  const int algorithms = algorithms_of(nccl_.release());
  const auto own = static_cast<std::size_t>(algorithms * 3);
  std::array<float, 21 + 8> around;
  around.fill(canary);
  std::memcpy(around.data() + 4, costs.data(), own * sizeof(float));
  Choice choice;
  auto* const table = reinterpret_cast<float**>(around.data() + 4);
  const void* const symbol = nccl_.symbol();
  int status = success;
  switch (nccl_.interface()) {
    case 2: {  // enqueue.cc of 2.21.5, lines 1546 to 1553. Whether NVLS and CollNet run is what the table says here.
      const bool has_nvls =
          costs[nvls * 3 + simple] != cannot_run || costs[nvls_tree * 3 + simple] != cannot_run;
      const bool has_collnet = costs[collnet_direct * 3 + simple] != cannot_run;
      status = as<TunerV2>(symbol).choose(context_, collective, bytes, has_collnet ? 1 : 0, has_nvls ? 1 : 0,
                                          pipe_ops, &choice.algorithm, &choice.protocol, &choice.channels);
      break;
    }
    case 3:  // enqueue.cc of 2.22.3, line 1680
      status = as<TunerV3>(symbol).choose(context_, collective, bytes, pipe_ops, table, algorithms, 3,
                                          &choice.channels);
      break;
    case 4:  // enqueue.cc of 2.24.3, line 1731
      status = as<TunerV4>(symbol).choose(context_, collective, bytes, pipe_ops, table, algorithms, 3,
                                          registered, &choice.channels);
      break;
    case 5:  // enqueue.cc of 2.28.9, line 1942
      status = as<TunerV5>(symbol).choose(context_, collective, bytes, pipe_ops, table, algorithms, 3,
                                          registered, &choice.channels);
      break;
    default:  // enqueue.cc of 2.30.7, line 2147
      status = as<TunerV6>(symbol).choose(context_, collective, bytes, pipe_ops, table, algorithms, 3,
                                          registered, &choice.channels);
  }
  if (status != success) throw std::runtime_error("the tuner failed");
  for (std::size_t i = 0; i < around.size(); ++i) {
    if ((i < 4 || i >= 4 + own) && around[i] != canary)
      throw std::runtime_error("the tuner wrote beside the table");
  }
  choice.after = costs;
  std::memcpy(choice.after.data(), around.data() + 4, own * sizeof(float));
  return choice;
}

Choice Communicator::choose(int collective, std::size_t bytes, int pipe_ops, const CostTable& costs,
                            int registered) {
  Choice choice = ask(collective, bytes, pipe_ops, costs, registered);
  // 2.21.5 takes what the tuner set, unchecked, and chooses by itself where it set nothing (enqueue.cc, line 1489).
  if (choice.algorithm >= 0) return choice;
  // topoGetAlgoInfo (enqueue.cc of 2.30.7, lines 2032 to 2044): the first of the least entries.
  float least = FLT_MAX;
  for (int algorithm = 0; algorithm < algorithms_of(nccl_.release()); ++algorithm) {
    for (int protocol = 0; protocol < 3; ++protocol) {
      const float cost = choice.after[static_cast<std::size_t>(algorithm * 3 + protocol)];
      if (cost == cannot_run || cost < 0 || cost >= least) continue;
      least = cost;
      choice.algorithm = algorithm;
      choice.protocol = protocol;
    }
  }
  return choice;
}

}  // namespace weft::tuner
