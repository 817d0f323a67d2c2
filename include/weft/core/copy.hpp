#pragma once
// Copies between host and device memory, in the order of a stream.
//
// On a host stream both views are in host memory; a stream of a CUDA device copies to, from and within the
// device. Both memories stay alive, and `from` unchanged, until the stream has passed the copy.
//
//   copy(on_device.view(), staged.view(), compute);
//   compute.synchronize();                        // before `staged` is written again
//
// WRONG: copy(view, ConstView(std::span(local_array)), stream); return;   // freed before it is read

#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"

namespace weft {

/// to[i] = from[i]. @throws Error (usage) when counts or data types differ, or memory and stream do not match
void copy(View to, ConstView from, Stream stream);

}  // namespace weft
