#include "c/call.hpp"

#include <pthread.h>

#include <array>
#include <cmath>
#include <memory>
#include <new>
#include <optional>

#include "weft/core/version.hpp"

namespace weft::c {

namespace {

/// A thread's last error. What ends it with its thread leaves that of the main thread alone: functions of atexit() may still ask.
class LastError {
 public:
  void set(const Error& error) noexcept {
    if (kept == nullptr) kept = make();
    if (kept != nullptr) *kept = error;
    status = status_of(error.kind());
    no_memory = kept == nullptr;
  }
  void out_of_memory() noexcept {
    status = WEFT_SYSTEM;
    no_memory = true;
  }
  const char* words() const noexcept {
    if (no_memory) return "weft: there is no memory left; use less of it";
    return status == WEFT_OK || kept == nullptr ? "" : (*kept)->what();
  }

  std::optional<Error>* kept = nullptr;
  weft_status_t status = WEFT_OK;
  bool no_memory = false;

 private:
  static void end(void* mine) noexcept;
  static std::optional<Error>* make() noexcept {
    static const std::optional<pthread_key_t> key = [] {
      pthread_key_t made{};
      return pthread_key_create(&made, &end) == 0 ? std::optional(made) : std::nullopt;
    }();
    auto* const made = new (std::nothrow) std::optional<Error>;
    if (made == nullptr || !key || pthread_setspecific(*key, made) != 0) {
      delete made;
      return nullptr;
    }
    return made;
  }
};

constinit thread_local LastError last_error;

void LastError::end(void* mine) noexcept {
  last_error.kept = nullptr;  // what ends after it in this thread may still fail
  delete static_cast<std::optional<Error>*>(mine);
}

}  // namespace

weft_status_t status_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::usage:
      return WEFT_USAGE;
    case ErrorKind::mismatch:
      return WEFT_MISMATCH;
    case ErrorKind::timeout:
      return WEFT_TIMEOUT;
    case ErrorKind::peer_lost:
      return WEFT_PEER_LOST;
    case ErrorKind::system:
      return WEFT_SYSTEM;
    case ErrorKind::internal:
      break;
  }
  return WEFT_INTERNAL;
}

namespace {

std::optional<ErrorKind> kind_named(weft_status_t status) noexcept {
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::mismatch, ErrorKind::timeout,
                               ErrorKind::peer_lost, ErrorKind::system, ErrorKind::internal}) {
    if (status_of(kind) == status) return kind;
  }
  return std::nullopt;
}

}  // namespace

ErrorKind kind_of(weft_status_t status, const char* argument) {
  if (const auto kind = kind_named(status)) return *kind;
  throw Error(ErrorKind::usage, text("`", argument, "` is ", status, ", the status of no error"),
              text("give one of ", int{WEFT_USAGE}, " to ", int{WEFT_INTERNAL}, ", such as WEFT_SYSTEM"));
}

Error error_of(weft_status_t status, const char* whose) {
  const auto kind = kind_named(status);
  if (kind && status == last_error.status && last_error.kept != nullptr && *last_error.kept)
    return **last_error.kept;
  if (kind) return Error(*kind, text(whose, " returned the status of an error (", name(*kind), ")"));
  return Error(ErrorKind::usage, text(whose, " returned ", status, ", which is no status of weft"),
               text("return WEFT_OK, or a status up to ", int{WEFT_INTERNAL}));
}

weft_status_t failed(const char* function) noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      last_error.set(error.context().operation.empty() ? error.in({-1, function, 0}) : error);
    } catch (const std::bad_alloc&) {
      last_error.out_of_memory();
    } catch (const std::exception& error) {
      last_error.set(Error(ErrorKind::system, message_of(error), {}, {-1, function, 0}));
    } catch (...) {
      last_error.set(Error(ErrorKind::system, "an exception that is none of the standard library's", {},
                           {-1, function, 0}));
    }
  } catch (...) {  // while the message was made
    last_error.out_of_memory();
  }
  return last_error.status;
}

weft_status_t failed(const char* function, const std::exception_ptr& why) noexcept {
  try {
    std::rethrow_exception(why);
  } catch (...) {
    return failed(function);
  }
}

void refuse_null(const char* argument) {
  throw Error(ErrorKind::usage, text("`", argument, "` is NULL"));
}

void refuse_word(const char* argument, int value, int last, const char* header) {
  throw Error(ErrorKind::usage, text("`", argument, "` is ", value, ", none of ", header),
              text("weft.h has 0 to ", last));
}

void refuse_device(int device) {
  throw Error(ErrorKind::usage, text("a device of number ", device),
              "give WEFT_HOST, or the number of a CUDA device, from 0");
}

std::chrono::nanoseconds duration_of(double seconds, const char* argument) {
  if (std::isnan(seconds) || seconds < 0)
    throw Error(ErrorKind::usage, text("`", argument, "` is ", seconds, " s"), "give seconds, 0 or more");
  constexpr auto most = std::chrono::nanoseconds::max();
  if (seconds >= std::chrono::duration<double>(most).count()) return most;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

Deadline deadline_of(double seconds) {
  return seconds < 0 ? Deadline::never() : Deadline::in(duration_of(seconds, "seconds"));
}

void refuse_size(const char* name, std::size_t given, std::size_t known) {
  const bool is_newer = given > known;
  throw Error(ErrorKind::usage,
              text("a ", name, " whose size is ", given, " bytes; this libweft knows ", known),
              is_newer ? text("the program was compiled with the weft.h of a newer version, or the size was "
                              "not set: .size = "
                              "sizeof(",
                              name, ")")
                       : text("set it: .size = sizeof(", name, "); no version had one so small"));
}

}  // namespace weft::c

using namespace weft;

const char* weft_error(void) {
  return c::last_error.words();
}
weft_status_t weft_last_status(void) {
  return c::last_error.status;
}
int weft_exit_code(weft_status_t status) {
  if (status == WEFT_OK) return 0;
  const auto kind = c::kind_named(status);
  return kind ? exit_code(*kind) : exit_code(ErrorKind::internal);
}
const char* weft_status_name(weft_status_t status) {
  if (status == WEFT_OK) return "ok";
  const auto kind = c::kind_named(status);
  return kind ? name(*kind) : "unknown";
}
const char* weft_version(void) {
  return library_version();
}
const char* weft_built_with(void) {
  return built_with();
}
