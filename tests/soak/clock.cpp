// A wall clock that jumps, for tests/clocks.py: preloaded, it shifts CLOCK_REALTIME by the nanoseconds in the file that WEFT_SOAK_CLOCK
// names, which may change at any time; clocks that only run on stay as they are. Who waits until a moment of the wall clock
// wakes when the shifted clock reaches it, as the kernel does where somebody sets the clock: late after a jump back, at once after one forth.
// The file's second number counts the processes that it serves.

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t look_every = 5'000'000;

struct Shift {
  std::atomic<std::int64_t> nanoseconds, processes;
};

Shift* shift() {
  static Shift* const mapped = [] {
    static Shift none{};
    const char* const path = std::getenv("WEFT_SOAK_CLOCK");
    const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return &none;
    void* const memory = mmap(nullptr, sizeof(Shift), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? &none : static_cast<Shift*>(memory);
  }();
  return mapped;
}

[[gnu::constructor]] void count() {
  ++shift()->processes;
}

template <class F>
F next(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}
#define WEFT_NEXT(function)                                 \
  ([] {                                                     \
    static const auto found = next(&::function, #function); \
    return found;                                           \
  }())

std::int64_t from(const timespec& time) {
  return time.tv_sec * second + time.tv_nsec;
}

timespec to(std::int64_t nanoseconds) {
  std::int64_t rest = nanoseconds % second;
  if (rest < 0) rest += second;
  return {(nanoseconds - rest) / second, rest};
}

bool is_wall(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

std::int64_t wall() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return from(time);
}

/// The moment up to which to wait before the next look, by the true clock; none where the shifted one has reached `end`.
bool next_look(const timespec& end, timespec& look) {
  const std::int64_t left = from(end) - wall();
  if (left <= 0) return false;
  look = to(wall() - shift()->nanoseconds + (left < look_every ? left : look_every));
  return true;
}

template <class Wait>
int wait_by_looks(const timespec& end, Wait wait) {
  timespec look{};
  while (next_look(end, look)) {
    const int result = wait(look);
    if (result != ETIMEDOUT) return result;
  }
  return ETIMEDOUT;
}

/// glibc's mark of a condition whose clock is not the wall's.
bool is_steady(const pthread_cond_t* condition) {
  return (condition->__data.__wrefs & 2U) != 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = WEFT_NEXT(clock_gettime)(clock, time);
  if (result == 0 && is_wall(clock)) *time = to(from(*time) + shift()->nanoseconds);
  return result;
}

int gettimeofday(timeval* __restrict time, void* __restrict) noexcept {
  const std::int64_t now = wall();
  const timespec parts = to(now);
  *time = {parts.tv_sec, parts.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) noexcept {
  const time_t now = to(wall()).tv_sec;
  if (out != nullptr) *out = now;
  return now;
}

int pthread_cond_timedwait(pthread_cond_t* __restrict condition, pthread_mutex_t* __restrict mutex,
                           const timespec* __restrict end) {
  const auto real = WEFT_NEXT(pthread_cond_timedwait);
  if (is_steady(condition)) return real(condition, mutex, end);
  return wait_by_looks(*end, [&](const timespec& look) { return real(condition, mutex, &look); });
}

int pthread_cond_clockwait(pthread_cond_t* __restrict condition, pthread_mutex_t* __restrict mutex,
                           clockid_t clock, const timespec* __restrict end) {
  const auto real = WEFT_NEXT(pthread_cond_clockwait);
  if (!is_wall(clock)) return real(condition, mutex, clock, end);
  return wait_by_looks(*end, [&](const timespec& look) { return real(condition, mutex, clock, &look); });
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* end, timespec* rest) {
  const auto real = WEFT_NEXT(clock_nanosleep);
  if (!is_wall(clock) || (flags & TIMER_ABSTIME) == 0) return real(clock, flags, end, rest);
  const int result = wait_by_looks(*end, [&](const timespec& look) {
    const int slept = real(clock, flags, &look, nullptr);
    return slept == 0 ? ETIMEDOUT : slept;
  });
  return result == ETIMEDOUT ? 0 : result;
}

}  // extern "C"
