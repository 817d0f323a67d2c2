#include "weft/core/error.hpp"

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

Error::Error(ErrorKind kind, std::string problem, std::string advice, ErrorContext context,
             SourceLocation where)
    : kind_(kind),
      problem_(std::move(problem)),
      advice_(std::move(advice)),
      context_(std::move(context)),
      where_(where) {
  compose();
}

Error Error::in(const ErrorContext& context) const {
  Error enriched = *this;
  if (enriched.context_.rank < 0) enriched.context_.rank = context.rank;
  if (enriched.context_.operation.empty()) {
    enriched.context_.operation = context.operation;
    enriched.context_.number = context.number;
  } else if (enriched.context_.operation == context.operation && enriched.context_.number == 0) {
    enriched.context_.number = context.number;
  }
  enriched.compose();
  return enriched;
}

void Error::compose() {
  line_ = "weft: ";
  if (context_.rank >= 0) line_ += text("rank ", context_.rank, ": ");
  if (!context_.operation.empty()) {
    line_ += context_.operation;
    if (context_.number > 0) line_ += text(" #", context_.number);
    line_ += ": ";
  }
  line_ += problem_;
  if (!advice_.empty()) line_ += "; " + advice_;
  // A reader who misused the library needs the advice; a reader who found a defect needs the place.
  if (kind_ == ErrorKind::internal) line_ += text(" [", where_.file_name(), ":", where_.line(), "]");
}

Error system_error(const std::string& problem, const std::string& advice, SourceLocation where) {
  return Error(ErrorKind::system, text(problem, ": ", std::strerror(errno)), advice, {}, where);
}

}  // namespace weft
