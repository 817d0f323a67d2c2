#include "weft/checkpoint/requests.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <span>
#include <utility>

#include "weft/core/error.hpp"

namespace weft::checkpoint {
namespace {

std::atomic<bool> told_to_end{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void on_signal(int /*number*/) {
  told_to_end = true;
}

void handle_sigusr1() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    if (sigaction(SIGUSR1, &action, nullptr) != 0) throw system_error("cannot handle SIGUSR1");
  });
}

}  // namespace

Requests::Requests(Communicator comm, std::string folder)
    : comm_(std::move(comm)), file_(std::move(folder) + "/checkpoint-now") {
  handle_sigusr1();
}

Request Requests::next() {
  auto asked = static_cast<std::int32_t>(told_to_end ? Request::save_and_end : Request::nothing);
  // Removing the file is how it is seen: a request is served once.
  if (comm_.rank() == 0 && unlink(file_.c_str()) == 0)
    asked = std::max(asked, static_cast<std::int32_t>(Request::save));
  Stream stream;
  comm_.all_reduce(View(std::span(&asked, 1)), ReduceOp::max, stream).wait();
  return static_cast<Request>(asked);
}

}  // namespace weft::checkpoint
