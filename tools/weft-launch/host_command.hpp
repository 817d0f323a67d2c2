#pragma once
// `weft-launch host`: runs the ranks of one host for a weft-launch elsewhere, which is at the other end of standard input and
// output. Ranks end with it, and it ends them when that end closes.

namespace weft::launch {

/// @returns 0 when all ranks have ended, whatever their status; 75 when the other end has closed before
int run_host();

}  // namespace weft::launch
