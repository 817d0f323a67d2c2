#include "core/streams/due_calls.hpp"

#include <exception>
#include <memory>

#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {

thread_local constinit DueCalls::OfThread DueCalls::mine_{};

void DueCalls::add(DueCall* first) noexcept {
  if (first == nullptr) return;
  (mine_.first == nullptr ? mine_.first : mine_.last->next) = first;
  for (mine_.last = first; mine_.last->next != nullptr;) mine_.last = mine_.last->next;
  if (mine_.depth == 0) run_all();
}

// A function that waits for something runs those that are left: it may wait for what one of them does.
void DueCalls::run_all() noexcept {
  while (mine_.first != nullptr) {
    const std::unique_ptr<DueCall> call(mine_.first);
    mine_.first = call->next;
    run(call->function);
  }
}

void DueCalls::run(const std::function<void()>& function) noexcept {
  const auto report = [](const std::exception* error) noexcept {
    try {
      log::error(text("a function given to Event::then() threw, and no caller can catch it: ",
                      error != nullptr ? message_of(*error) : "no std::exception"));
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the line
    }
  };
  try {
    function();
  } catch (const std::exception& error) {
    report(&error);
  } catch (...) {
    report(nullptr);
  }
}

}  // namespace weft::detail
