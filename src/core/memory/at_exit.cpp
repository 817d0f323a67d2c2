#include "core/memory/at_exit.hpp"

#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace weft::detail {
namespace {

struct AtExit {
  void (*act)(int status);
  pid_t process;
  AtExit* earlier = nullptr;  // without glibc: what was registered before

  static void run(int status, void* what) {
    const std::unique_ptr<AtExit> one(static_cast<AtExit*>(what));
    if (one->process == getpid()) one->act(status);
  }
};

}  // namespace

void at_exit(void (*act)(int status)) {
#if defined(__GLIBC__)
  on_exit(&AtExit::run, new AtExit{act, getpid()});
#else
  static AtExit* last = nullptr;  // atexit() has no argument, and calls the last that came first, too
  last = new AtExit{act, getpid(), last};
  std::atexit([] {
    AtExit* const one = last;
    last = one->earlier;
    AtExit::run(0, one);
  });
#endif
}

}  // namespace weft::detail
