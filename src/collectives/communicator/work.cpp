#include "weft/collectives/work.hpp"

#include <string>

#include "collectives/backend/transfers.hpp"
#include "weft/core/error.hpp"

namespace weft {

// The operation may be done meanwhile; the wait has expired all the same.
void Work::wait(Deadline deadline) const {
  try {
    event_.wait(deadline);
  } catch (const Error& error) {
    const bool has_expired = error.kind() == ErrorKind::timeout && !event_.done();
    const std::string late = has_expired && under_way_ ? under_way_->late() : "";
    const ErrorContext here{-1, std::string(operation_), number_};
    if (late.empty()) throw error.in(here);
    throw Error(ErrorKind::timeout,
                text("was not done after ", deadline.waited_seconds(), " s: waits for ", late),
                "the operation goes on; wait longer, or look at what those ranks do")
        .in(here);
  }
}

int Work::source(std::size_t receive) const {
  const bool is_known = event_.done() && !event_.error() && under_way_;
  if (const auto source = is_known ? under_way_->source(receive) : std::nullopt) return *source;
  throw Error(ErrorKind::usage,
              text("the source of receive_any ", receive, " of a group ",
                   event_.done() ? "that has no such receive, or failed" : "that is not done"),
              "ask when the work is done, for one of its receives from any rank",
              {-1, std::string(operation_), number_});
}

}  // namespace weft
