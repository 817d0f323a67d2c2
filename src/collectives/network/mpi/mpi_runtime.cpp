#if WEFT_HAS_MPI

#include "collectives/network/mpi/mpi_runtime.hpp"

#include <array>
#include <csignal>
#include <exception>
#include <utility>
#include <vector>

#include "collectives/network/mpi/process_deadline.hpp"
#include "core/memory/at_exit.hpp"
#include "core/memory/per_process.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

bool flag_of(int (*query)(int*)) {
  int flag = 0;
  query(&flag);
  return flag != 0;
}

/// MPI belongs to the process, and so does this. A child that is forked afterwards has none: MPI cannot begin twice.
struct Process {
  Origin origin;
  std::mutex mutex;
  std::shared_ptr<MpiRuntime> runtime;  // to the end of the process
  std::vector<std::shared_ptr<void>> kept;
};

Process& process() {
  static auto* const never_destroyed = new Process;
  return *never_destroyed;
}

void expect_here() {
  const Origin& origin = process().origin;
  if (origin.is_here()) return;
  throw origin.misuse(
      "MPI", "communicate in the parent, or give the child a rendezvous without MPI (WEFT_RENDEZVOUS)");
}

/// Open MPI's TCP transport writes to its peers with writev (opal/mca/btl/tcp/btl_tcp_frag.c): once a peer has died that raises
/// SIGPIPE, which would end this process too, and mpirun would name it instead. A program's own handler stays.
void survive_broken_connections() {
  struct sigaction now {};
  const bool ends_the_process = sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
  if (ends_the_process) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

bool MpiRuntime::initialised() {
  return flag_of(MPI_Initialized) && !flag_of(MPI_Finalized);
}

std::shared_ptr<MpiRuntime> MpiRuntime::acquire(const Limits& limits) {
  expect_here();
  const std::lock_guard lock(process().mutex);
  if (process().runtime && !flag_of(MPI_Finalized)) return process().runtime;
  const std::shared_ptr<MpiRuntime> runtime(new MpiRuntime(limits));
  process().runtime = runtime;
  if (runtime->ours_) at_exit([](int status) { process().runtime->finalize(status); });
  return runtime;
}

MpiRuntime::MpiRuntime(Limits limits) : limits_(std::move(limits)) {
  if (flag_of(MPI_Finalized)) {
    throw Error(ErrorKind::usage, "MPI was finalized before and cannot start again in this process",
                "keep one World for as long as the process communicates");
  }
  int provided = MPI_THREAD_SINGLE;
  if (!flag_of(MPI_Initialized)) {
    const ProcessDeadline deadline(limits_.who, "MPI_Init_thread", limits_.beginning, env::connect_timeout);
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    survive_broken_connections();
    ours_ = true;
  } else {
    check(MPI_Query_thread(&provided), "MPI_Query_thread");
  }
  any_thread_ = provided >= MPI_THREAD_SERIALIZED;
  if (!any_thread_) {
    log::info(
        "MPI was initialised with less than MPI_THREAD_SERIALIZED: weft calls it from the main thread only");
  }
}

void MpiRuntime::finalize(int status) noexcept {
  if (status == 0 && usable()) MPI_Finalize();
}

std::unique_lock<std::mutex> MpiRuntime::enter() {
  expect_caller();
  return std::unique_lock(mutex_);
}

void MpiRuntime::expect_caller() const {
  expect_here();
  if (!any_thread_ && !flag_of(MPI_Is_thread_main)) {
    throw Error(ErrorKind::usage, "MPI was called from another thread than the main one",
                "initialise MPI with MPI_THREAD_SERIALIZED or more");
  }
}

bool MpiRuntime::usable() const {
  return process().origin.is_here() && !broken_ && !flag_of(MPI_Finalized);
}

void MpiRuntime::check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> words{};
  int length = 0;
  MPI_Error_string(code, words.data(), &length);
  throw Error(ErrorKind::system, text(call, " failed: ", words.data()));
}

void MpiRuntime::keep_for_ever(std::shared_ptr<void> memory) {
  if (!process().origin.is_here()) return detail::keep_for_ever(std::move(memory));
  const std::lock_guard lock(process().mutex);
  process().kept.push_back(std::move(memory));
}

std::string MpiRuntime::library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> words{};
  int length = 0;
  MPI_Get_library_version(words.data(), &length);
  const std::string all = words.data();
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace weft::detail

#endif
