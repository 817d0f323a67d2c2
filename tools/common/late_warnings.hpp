#pragma once
// Warnings wait for a second, so that an error stands before the warnings that come with it: a rank that fails logs where its flight
// record is while the error is still on its way to the program's end.

namespace weft::tool {

/// From here on the process's warnings wait. Other lines are printed at once.
void delay_warnings();
/// Prints what waits; called once the error is printed, and where the process ends.
void print_warnings();

}  // namespace weft::tool
