// A process that ends by exit(), or returns from main(), while a communicator of it lives: static, or kept by something that is.
// Its peers would only see that it is gone.

#include "collectives/communicator/communicator_state.hpp"
#include "collectives/diagnosis/operation_words.hpp"
#include "core/memory/at_exit.hpp"
#include "core/memory/per_process.hpp"

namespace weft::detail {

void CommunicatorState::exits(int status) noexcept {
  if (!is_here() || is_broken_ || size_ == 1) return;
  try {
    const ErrorKind kind = status == exit_code(ErrorKind::usage) ? ErrorKind::usage : ErrorKind::peer_lost;
    const Error how(kind, exit_problem(status), {}, {rank_, {}, 0});
    backend_->give_up(how);
    if (watchdog_) watchdog_->give_up(how);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; the others notice that the process ended
  }
}

namespace {

/// The communicators of this process, for its end.
constinit PerProcess<std::vector<std::weak_ptr<CommunicatorState>>> all_communicators;

void tell(int status) {
  std::vector<std::weak_ptr<CommunicatorState>> all;
  all_communicators.use([&](auto& known) { all.swap(known); });
  for (const auto& one : all) {
    if (const auto state = one.lock()) state->exits(status);
  }
}

}  // namespace

void tell_of_exit(const std::shared_ptr<CommunicatorState>& state) {
  all_communicators.use([&](auto& known) {
    if (known.capacity() == 0) at_exit(&tell);
    std::erase_if(known, [](const auto& one) { return one.expired(); });
    known.push_back(state);
  });
}

}  // namespace weft::detail
