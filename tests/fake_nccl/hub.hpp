#pragma once
// Where the ranks of communicators meet: each process has one, with a thread for each rank that is connected to it. A communicator's is that
// of its lowest rank. What ranks bring is answered when all have come and agree; where they do not agree it is never answered, as NCCL's
// kernels wait then for each other.
//
// The hub is gone with its process, and with it all of its communicators' operations.

#include "fake_nccl/frames.hpp"

namespace weft::fake_nccl {

/// The address of this process's hub, which begins with the first call.
Address own_hub();

}  // namespace weft::fake_nccl
