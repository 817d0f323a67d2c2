#include "c/handles.hpp"

#include <pthread.h>

#include <algorithm>

#include "c/training.hpp"
#include "weft/core/error.hpp"

namespace weft::c {

constinit thread_local OfThread of_thread;

namespace {

constexpr std::array names{"nothing", "world",  "communicator", "stream",  "event", "work",
                           "group",   "buffer", "layout",       "reducer", "zero",  "checkpointer"};

/// The locks of all tables, for fork(): a table is made once, and never ends.
struct Locks {
  std::array<detail::SpinLock*, names.size()> all{};
  std::size_t count = 0;
  detail::SpinLock lock;
};
constinit Locks locks;

void before_fork() {
  locks.lock.lock();
  for (std::size_t i = 0; i < locks.count; ++i) locks.all[i]->lock();
}
void after_fork() {
  for (std::size_t i = locks.count; i-- > 0;) locks.all[i]->unlock();
  locks.lock.unlock();
}

}  // namespace

const char* words_of(Kind kind) noexcept {
  return static_cast<std::size_t>(kind) < names.size() ? names[static_cast<std::size_t>(kind)] : "unknown";
}

void hold_at_fork(detail::SpinLock& lock) {
  const std::lock_guard held(locks.lock);
  if (locks.count == 0) {
    if (const int failed = pthread_atfork(&before_fork, &after_fork, &after_fork); failed != 0)
      throw std::bad_alloc();
  }
  locks.all[locks.count++] = &lock;
}

void Inside::end_what_was_freed(OfThread& mine) noexcept {
  // What ends may itself call a function that frees: a call like any other.
  while (Place* const place = mine.later) {
    mine.later = place->next;
    unpin(*place, 0);  // not the times of anything
  }
}

std::uint64_t times_given_away(Kind kind, std::uint64_t index) noexcept {
  switch (kind) {
    case Kind::world:
      return worlds().times_given_away(index);
    case Kind::communicator:
      return communicators().times_given_away(index);
    case Kind::stream:
      return streams().times_given_away(index);
    case Kind::event:
      return events().times_given_away(index);
    case Kind::work:
      return works().times_given_away(index);
    case Kind::group:
      return groups().times_given_away(index);
    case Kind::buffer:
      return buffers().times_given_away(index);
    case Kind::layout:
      return layouts().times_given_away(index);
    case Kind::reducer:
      return reducers().times_given_away(index);
    case Kind::zero:
      return zeros().times_given_away(index);
    case Kind::checkpointer:
#if WEFT_HAS_CHECKPOINT
      return checkpointers().times_given_away(index);
#endif
    case Kind::none:
      break;
  }
  return 0;
}

void refuse(std::uint64_t handle, Kind wanted, const char* argument, std::uint64_t given_away) {
  const std::string what = text("`", argument, "` is ");
  const char* const name = words_of(wanted);
  if (handle == 0) {
    throw Error(ErrorKind::usage, what + "NULL", text("give the handle of a ", name));
  }
  const auto kind = static_cast<Kind>(handle & 31);
  const std::uint64_t times = handle >> 27;
  if (kind == wanted && times > 0 && times < given_away) {
    throw Error(ErrorKind::usage, text(what, "a ", name, " that was freed"),
                "free a handle after its last use, and once");
  }
  // An address is no handle, even where these bits of it are a kind's.
  const bool is_handle = times > 0 && times <= times_given_away(kind, handle >> 5 & (places - 1));
  if (is_handle && kind != wanted) {
    throw Error(ErrorKind::usage, text(what, "the handle of a ", words_of(kind), ", not of a ", name));
  }
  throw Error(ErrorKind::usage, text(what, "no handle that weft gave (", handle, ")"),
              text("give the handle of a ", name));
}

void refuse_more(Kind kind) {
  throw Error(ErrorKind::system, text("4194304 handles of a ", words_of(kind), " are in use"),
              "free those that are not used any more");
}

}  // namespace weft::c
