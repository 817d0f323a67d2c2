#pragma once
// UCX's functions, found when the first ranks meet over it: a program that does not use it neither needs nor loads it (2 ms of
// a process's start, and UCX's hooks in the allocator).

#include <ucp/api/ucp.h>

#define WEFT_UCX_FUNCTIONS(F)       \
  F(ucp_am_send_nbx)                \
  F(ucp_cleanup)                    \
  F(ucp_config_modify)              \
  F(ucp_config_read)                \
  F(ucp_config_release)             \
  F(ucp_ep_close_nbx)               \
  F(ucp_ep_create)                  \
  F(ucp_get_version)                \
  F(ucp_init_version)               \
  F(ucp_request_cancel)             \
  F(ucp_request_check_status)       \
  F(ucp_request_free)               \
  F(ucp_tag_recv_nbx)               \
  F(ucp_tag_send_nbx)               \
  F(ucp_worker_arm)                 \
  F(ucp_worker_create)              \
  F(ucp_worker_destroy)             \
  F(ucp_worker_get_address)         \
  F(ucp_worker_get_efd)             \
  F(ucp_worker_progress)            \
  F(ucp_worker_release_address)     \
  F(ucp_worker_set_am_recv_handler) \
  F(ucs_status_string)

namespace weft::detail {

struct UcxLibrary {
#define WEFT_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  WEFT_UCX_FUNCTIONS(WEFT_UCX_MEMBER)
#undef WEFT_UCX_MEMBER
};

/// Loads it at the first call; any thread. @throws Error (system) where it is not on this machine
const UcxLibrary& ucx();

/// Before UCX connects. It keeps threads, which a child does not have that was forked since its parent connected: there it would wait for ever.
/// @throws Error (usage) in such a child
void expect_own_ucx(int rank);

}  // namespace weft::detail
