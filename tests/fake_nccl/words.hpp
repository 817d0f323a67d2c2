#pragma once
// WEFT_FAKE_NCCL: what is to go wrong.

#include "collectives/nccl/api.hpp"

namespace weft::fake_nccl {

int version();
bool deaths_are_silent();
/// What this function is to answer; aborts the process where it is told to.
detail::nccl::Result wanted_fault(const char* function);
/// As NCCL's WARN: to standard error under NCCL_DEBUG, and what ncclGetLastError tells.
void say(const char* what);
const char* last_said();

}  // namespace weft::fake_nccl
