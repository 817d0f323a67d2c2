#include "weft/core/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weft {

const char* name(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::mismatch:
      return "mismatch";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::peer_lost:
      return "peer lost";
    case ErrorKind::system:
      return "system";
    case ErrorKind::internal:
      return "internal";
  }
  return "unknown";
}

int exit_code(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::mismatch:
      return 42;
    case ErrorKind::timeout:
    case ErrorKind::peer_lost:
      return 75;
    case ErrorKind::system:
    case ErrorKind::internal:
      break;
  }
  return 70;
}

namespace {

std::string line_of(ErrorKind kind, const std::string& problem, const std::string& advice,
                    const ErrorContext& context, const SourceLocation& where) {
  std::string line = "weft: ";
  if (context.rank >= 0) line += text("rank ", context.rank, ": ");
  if (!context.operation.empty()) {
    line += context.operation;
    if (context.number > 0) line += text(" #", context.number);
    line += ": ";
  }
  line += problem;
  if (!advice.empty()) line += "; " + advice;
  // A reader who misused the library needs the advice; a reader who found a defect needs the place.
  if (kind == ErrorKind::internal) line += text(" [", where.file_name(), ":", where.line(), "]");
  return line;
}

/// The newest errors of this thread, the last one first. What unwinds is alive, and what was caught is not any longer.
class Newest {
 public:
  void add(std::weak_ptr<const void> error) noexcept {
    std::rotate(all_.begin(), all_.end() - 1, all_.end());  // Clang 14 cannot compile that of ranges
    all_.front() = std::move(error);
  }
  std::shared_ptr<const void> alive() const noexcept {
    for (const auto& one : all_) {
      if (auto error = one.lock()) return error;
    }
    return nullptr;
  }

 private:
  std::array<std::weak_ptr<const void>, 4> all_;
};

Newest& newest() {
  thread_local Newest of_this_thread;
  return of_this_thread;
}

}  // namespace

Error::Error(Parts parts) {
  parts.line = line_of(parts.kind, parts.problem, parts.advice, parts.context, parts.where);
  parts_ = std::make_shared<const Parts>(std::move(parts));
  newest().add(parts_);
}

Error::Error(ErrorKind kind, std::string problem, std::string advice, ErrorContext context,
             SourceLocation where)
    : Error(Parts{kind, std::move(problem), std::move(advice), std::move(context), where}) {}

Error Error::in(const ErrorContext& context) const {
  Parts parts = *parts_;
  if (parts.context.rank < 0) parts.context.rank = context.rank;
  if (parts.context.operation.empty()) {
    parts.context.operation = context.operation;
    parts.context.number = context.number;
  } else if (parts.context.operation == context.operation && parts.context.number == 0) {
    parts.context.number = context.number;
  }
  return Error(std::move(parts));
}

std::optional<Error> Error::in_flight() noexcept {
  if (std::uncaught_exceptions() == 0) return std::nullopt;
  const auto alive = std::static_pointer_cast<const Parts>(newest().alive());
  if (!alive) return std::nullopt;
  return Error(alive);
}

Error system_error(const std::string& problem, const std::string& advice, SourceLocation where) {
  return Error(ErrorKind::system, text(problem, ": ", std::strerror(errno)), advice, {}, where);
}

}  // namespace weft
