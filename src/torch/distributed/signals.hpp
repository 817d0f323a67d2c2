#pragma once
// What goes on in Python: its signal handlers, in waits that Python does not see, so that Ctrl-C ends them; and the exception that is handled.
//
// Python runs handlers in its main thread alone, between two instructions of the program. A call of the backend that waits there lets them run
// every 200 ms, and ends with what one raises, such as KeyboardInterrupt; what it waited for goes on. Other threads pay a look at their
// number. A wait that is over sooner costs nothing.

#include <string>

namespace weft::distributed {

/// For waits, with Python's lock or without: lets handlers run if it is time. @throws what one raises, as pybind11 takes it
void run_signal_handlers();

/// "ValueError: no such file": what this thread handles in `except` or `finally`, as far as Python says; empty: nothing.
std::string exception_in_flight();

/// While it lives, waits of weft itself in this thread run them, too.
class RunsSignalHandlers {
 public:
  RunsSignalHandlers();
  ~RunsSignalHandlers();
  RunsSignalHandlers(const RunsSignalHandlers&) = delete;
  RunsSignalHandlers& operator=(const RunsSignalHandlers&) = delete;

 private:
  void (*before_)();
};

}  // namespace weft::distributed
