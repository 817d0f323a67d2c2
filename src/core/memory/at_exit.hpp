#pragma once
// What is done when the process ends by exit() or a return from main(), with its status.

namespace weft::detail {

/// Last come, first served, before what was registered earlier, and before the destructors of earlier static objects. Not
/// after _exit(), abort() or a signal, and not in a child that was forked since. Other C libraries than glibc do not
/// tell the status: there it is 0.
void at_exit(void (*act)(int status));

}  // namespace weft::detail
