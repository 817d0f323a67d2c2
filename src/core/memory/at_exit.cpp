#include "core/memory/at_exit.hpp"

#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace weft::detail {
namespace {

struct AtExit {
  void (*act)(int status);
  pid_t process;

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
  static void (*the_act)(int status);
  the_act = act;
  std::atexit([] { the_act(0); });
#endif
}

}  // namespace weft::detail
