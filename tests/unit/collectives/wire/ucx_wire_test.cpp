#include "collectives/ucx/ucx_wire.hpp"

#include <gtest/gtest.h>

#include "collectives/shm/threads_backend.hpp"
#include "collectives/ucx/ucx_library.hpp"
#include "support/expect_error.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/collectives/store.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr const char* addresses = "connect: addresses of UCX";

/// What rank 0 is told where rank 1 introduces itself so, and does nothing more.
void expect_refused(const std::string& introduction, ErrorKind kind, const std::string& part) {
  const auto store = make_memory_store();
  on_threads(2, [&](int rank) {
    const auto rendezvous = make_store_rendezvous(store, "ucx", rank, 2);
    if (rank == 1) {
      rendezvous->all_gather(introduction, addresses, Deadline::in(30s));
      return;
    }
    test::expect_error(kind, {part}, [&] {
      make_ucx_wire(rendezvous, Environment(Environment::Values{}), Deadline::in(30s), 30s);
    });
  });
}

TEST(UcxWire, RanksWithOtherVersionsAreRefused) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucx().ucp_get_version(&major, &minor, &release);
  const std::string own = text(major, '.', minor);
  expect_refused(text(major, '.', minor + 1, "\naddress"), ErrorKind::mismatch,
                 text("rank 1 has UCX ", major, '.', minor + 1, ", rank 0 has UCX ", own));
  expect_refused(text(own, "0\naddress"), ErrorKind::mismatch, text("rank 1 has UCX ", own, "0"));
}

TEST(UcxWire, ARankThatCannotStartUcxSaysWhyToTheOthers) {
  expect_refused("none\nno device is up\nplug one in", ErrorKind::system,
                 "rank 1 cannot use UCX: no device is up; plug one in");
}

}  // namespace
}  // namespace weft::detail
