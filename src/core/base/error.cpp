#include "weft/core/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "core/base/strings.hpp"

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
  return detail::printable(line);
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

namespace {

/// Where the bracket that opens at `begin` closes; its names of functions may have brackets of their own. npos: nowhere.
std::size_t closing(std::string_view line, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < line.size(); ++i) {
    if (line[i] == '[') ++depth;
    if (line[i] == ']' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

/// Whether it is Boost's "category:value at file:line", of which a message must not have the file.
bool is_place(std::string_view inner) {
  const std::size_t at = inner.find(" at ");
  const std::string_view code = inner.substr(0, std::min(at, inner.size()));
  const std::size_t colon = code.rfind(':');
  if (at == std::string_view::npos || colon == std::string_view::npos) return false;
  return code.find_first_of(" []") == std::string_view::npos &&
         code.find_first_not_of("-0123456789", colon + 1) == std::string_view::npos;
}

}  // namespace

std::string message_of(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error) != nullptr) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "there is not enough memory";
  std::string line = error.what();
  line.erase(std::min(line.find("\nException raised from "), line.size()));
  for (std::size_t begin = line.find('['); begin != std::string::npos; begin = line.find('[', begin)) {
    const std::size_t end = closing(line, begin);
    const std::string_view inner = std::string_view(line).substr(begin + 1);
    if (!is_place(end == std::string::npos ? inner : inner.substr(0, end - begin - 1))) {
      ++begin;
      continue;
    }
    if (begin > 0 && line[begin - 1] == ' ') --begin;
    line.erase(begin, end == std::string::npos ? end : end + 1 - begin);
  }
  return detail::printable(std::move(line));
}

int exit_code(const std::exception& error) noexcept {
  const auto* const of_weft = dynamic_cast<const Error*>(&error);
  return exit_code(of_weft != nullptr ? of_weft->kind() : ErrorKind::system);
}

Error system_error(const std::string& problem, const std::string& advice, SourceLocation where) {
  const int error = errno;
  return Error(ErrorKind::system, text(problem, ": ", std::strerror(error)),
               advice.empty() ? detail::usual_advice(error) : advice, {}, where);
}

}  // namespace weft
