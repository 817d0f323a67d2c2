// The library's functions, as NCCL calls them. A fault of the table or of this code is said in NCCL's log and costs no job: NCCL then chooses by
// itself.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "weft-report/tuner/abi.hpp"
#include "weft-report/tuner/rows.hpp"

namespace weft::tuner {
namespace {

constexpr const char* own_name = "weft";
constexpr std::size_t most_bytes = std::size_t{1} << 20;  // of a table
constexpr std::size_t most_complaints = 10;
// The example plug-in looks into the working folder.
constexpr std::array<const char*, 2> places{"nccl_tuner.conf", "/etc/weft/nccl-tuner.csv"};

struct File {
  std::string path{};
  std::string content{};
  std::string problem{};  ///< why there is no content
};

/// One communicator of this process. NCCL may call for several at once, from any thread.
struct Context {
  Logger log = nullptr;
  std::uint64_t nodes = 0;
  std::string path;
  std::vector<Row> rows;  ///< those that fit the communicator
  /// Whether it was said of a row that it is taken, or that NCCL cannot run it here.
  std::unique_ptr<std::atomic<bool>[]> taken, impossible;
};

void say(Logger log, int level, const std::string& path, int line, const std::string& words) {
  if (log == nullptr) return;
  const std::string place = path.empty() ? ""
                            : line == 0  ? path + ": "
                                         : path + ", line " + std::to_string(line) + ": ";
  log(level, log_tuning, path.empty() ? "weft" : path.c_str(), line, "TUNER/weft: %s%s", place.c_str(),
      words.c_str());
}

File read_file(const std::string& path) {
  File file{.path = path};
  // Without waiting: the path may be a pipe, or a device.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) {
    file.problem = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    file.problem = "it is no file";
  } else if (static_cast<std::size_t>(status.st_size) > most_bytes) {
    file.problem = "it has more than 1 MiB";
  } else {
    file.content.resize(static_cast<std::size_t>(status.st_size));
    std::size_t have = 0;
    ssize_t got = 1;
    while (got != 0 && file.problem.empty()) {
      got = read(descriptor, file.content.data() + have, file.content.size() - have);
      if (got > 0) have += static_cast<std::size_t>(got);
      if (got < 0 && errno != EINTR) file.problem = std::strerror(errno);
    }
    file.content.resize(file.problem.empty() ? have : 0);
  }
  if (descriptor >= 0) close(descriptor);
  return file;
}

File find_file() {
  const char* named = std::getenv("NCCL_TUNER_CONFIG_FILE");
  if (named != nullptr && *named != '\0') return read_file(named);
  for (const char* path : places) {
    if (access(path, F_OK) == 0) return read_file(path);
  }
  return {.problem = std::string("NCCL_TUNER_CONFIG_FILE is not set, and neither ") + places[0] + " nor " +
                     places[1] + " is there"};
}

/// Says what is wrong with the table, once for each content: a job may have hundreds of communicators.
void complain(Logger log, const File& file, const Table& table) {
  static std::atomic<std::size_t> last{0};
  const std::size_t now = std::hash<std::string>{}(file.path + '\n' + file.content + file.problem) | 1;
  if (last.exchange(now) == now) return;
  if (!file.problem.empty()) {
    say(log, log_warn, file.path, 0, file.problem + "; NCCL chooses by itself");
    return;
  }
  for (std::size_t i = 0; i < std::min(table.bad.size(), most_complaints); ++i)
    say(log, log_warn, file.path, table.bad[i].line, table.bad[i].problem + "; the row is left out");
  if (table.bad.size() > most_complaints)
    say(log, log_warn, file.path, 0,
        std::to_string(table.bad.size() - most_complaints) + " more rows are left out");
}

std::unique_ptr<Context> make_context(std::size_t ranks, std::size_t nodes, Logger log) {
  File file = find_file();
  Table table = Table::parse(file.content);
  complain(log, file, table);
  auto context = std::make_unique<Context>();
  context->log = log;
  context->nodes = nodes;
  context->path = file.path;
  for (const Row& row : table.rows) {
    if (row.fits(ranks, nodes)) context->rows.push_back(row);
  }
  context->taken = std::make_unique<std::atomic<bool>[]>(context->rows.size());
  context->impossible = std::make_unique<std::atomic<bool>[]>(context->rows.size());
  if (file.problem.empty())
    say(log, log_info, file.path, 0,
        std::to_string(context->rows.size()) + " of " + std::to_string(table.rows.size()) + " rows are for " +
            std::to_string(ranks) + " ranks on " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes"));
  return context;
}

int start(std::size_t ranks, std::size_t nodes, Logger log, void** context) noexcept {
  if (context == nullptr) return success;
  *context = nullptr;
  try {
    *context = make_context(ranks, nodes, log).release();
  } catch (...) {  // no memory
    if (log != nullptr) log(log_warn, log_tuning, "weft", 0, "TUNER/weft: no memory; NCCL chooses by itself");
  }
  return success;
}

/// The first row that matches and that NCCL can run. @param can_run of a row
template <class CanRun>
const Row* find_row(Context& context, int collective, std::size_t bytes, int pipe_ops, int registered,
                    CanRun&& can_run) {
  for (std::size_t i = 0; i < context.rows.size(); ++i) {
    const Row& row = context.rows[i];
    if (!row.matches(collective, bytes, pipe_ops, registered)) continue;
    const bool possible = can_run(row);
    auto& told = possible ? context.taken[i] : context.impossible[i];
    if (!told.load(std::memory_order_relaxed) && !told.exchange(true)) {
      say(context.log, log_info, context.path, row.line,
          std::string(collective_names[static_cast<std::size_t>(collective)]) + " of " +
              std::to_string(bytes) + " bytes: " + row.choice() +
              (possible ? "" : " cannot be run here; the row is passed over"));
    }
    if (possible) return &row;
  }
  return nullptr;
}

/// v3 to v6.
int lower_cost(void* of, int collective, std::size_t bytes, int pipe_ops, float** cost, int algorithms,
               int protocols, int registered, int* channels) noexcept try {
  auto* const context = static_cast<Context*>(of);
  if (context == nullptr || cost == nullptr) return success;
  auto* const table = reinterpret_cast<float*>(cost);
  const auto entry = [&](const Row& row) {
    return table + static_cast<std::ptrdiff_t>(row.algorithm) * protocols + row.protocol;
  };
  const Row* const row = find_row(*context, collective, bytes, pipe_ops, registered, [&](const Row& one) {
    return one.algorithm < algorithms && one.protocol < protocols && *entry(one) != cannot_run;
  });
  if (row == nullptr) return success;
  *entry(*row) = 0.0F;
  if (row->channels != any && channels != nullptr) *channels = row->channels;
  return success;
} catch (...) {
  return success;
}

/// NCCL 2.21 takes a choice unchecked. What it would not take itself, or might not (LL128 depends on links that a tuner is not told of, and
/// gives wrong data elsewhere), is left out (tuning.cc of 2.21.5, lines 166 to 169 and 284 to 306).
bool runs_in_2_21(const Row& row, std::uint64_t nodes, bool collnet, bool nvls) {
  const std::string_view collective = collective_names[static_cast<std::size_t>(row.collective)];
  const std::string_view algorithm = algorithm_names[static_cast<std::size_t>(row.algorithm)];
  const std::string_view protocol = protocol_names[static_cast<std::size_t>(row.protocol)];
  if (protocol == "ll128") return false;
  if (algorithm == "ring") return true;
  if (algorithm == "tree") return collective == "allreduce";
  if (protocol != "simple" || collective == "broadcast" || collective == "reduce") return false;
  const bool whole = collective == "allreduce";
  if (algorithm == "collnet_direct") return collnet && nodes > 1;
  if (algorithm == "collnet_chain") return collnet && nodes > 1 && whole;
  if (algorithm == "nvls") return nvls && (nodes == 1 || (collnet && whole));
  return algorithm == "nvls_tree" && nvls && nodes > 1 && whole;
}

int choose_v2(void* of, int collective, std::size_t bytes, int collnet, int nvls, int pipe_ops,
              int* algorithm, int* protocol, int* channels) noexcept try {
  auto* const context = static_cast<Context*>(of);
  if (context == nullptr || algorithm == nullptr || protocol == nullptr) return success;
  const Row* const row = find_row(*context, collective, bytes, pipe_ops, not_told, [&](const Row& one) {
    return runs_in_2_21(one, context->nodes, collnet == 1, nvls == 1);
  });
  if (row == nullptr) return success;
  *algorithm = row->algorithm;
  *protocol = row->protocol;
  if (row->channels != any && channels != nullptr) *channels = row->channels;
  return success;
} catch (...) {
  return success;
}

int choose_v3(void* of, int collective, std::size_t bytes, int pipe_ops, float** cost, int algorithms,
              int protocols, int* channels) noexcept {
  return lower_cost(of, collective, bytes, pipe_ops, cost, algorithms, protocols, not_told, channels);
}

int start_v5(void** context, std::uint64_t, std::size_t ranks, std::size_t nodes, Logger log, void*,
             void*) noexcept {
  return start(ranks, nodes, log, context);
}

int finish(void* context) noexcept {
  delete static_cast<Context*>(context);
  return success;
}

}  // namespace
}  // namespace weft::tuner

extern "C" {

using namespace weft::tuner;
extern const TunerV2 ncclTunerPlugin_v2;
extern const TunerV3 ncclTunerPlugin_v3;
extern const TunerV4 ncclTunerPlugin_v4;
extern const TunerV5 ncclTunerPlugin_v5;
extern const TunerV6 ncclTunerPlugin_v6;
const TunerV2 ncclTunerPlugin_v2{own_name, start, choose_v2, finish};
const TunerV3 ncclTunerPlugin_v3{own_name, start, choose_v3, finish};
const TunerV4 ncclTunerPlugin_v4{own_name, start, lower_cost, finish};
const TunerV5 ncclTunerPlugin_v5{own_name, start_v5, lower_cost, finish};
const TunerV6 ncclTunerPlugin_v6{own_name, start_v5, lower_cost, finish, nullptr};
}
