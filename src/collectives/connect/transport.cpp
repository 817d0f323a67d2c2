#include "collectives/connect/transport.hpp"

#include "weft/core/error.hpp"
#if WEFT_HAS_MPI
#include "collectives/network/mpi/mpi_wire.hpp"
#endif
#if WEFT_HAS_UCX
#include "collectives/network/ucx/ucx_wire.hpp"
#endif
#if WEFT_HAS_BOOST
#include "collectives/network/tcp/tcp_wire.hpp"
#endif

namespace weft::detail {
namespace {

bool met_by_mpi(const World& world) {
#if WEFT_HAS_MPI
  return std::dynamic_pointer_cast<MpiRendezvous>(world.rendezvous()) != nullptr;
#else
  return static_cast<void>(world), false;
#endif
}

/// "mpi", "ucx" or "tcp"
std::string transport_of(const World& world, const std::string& where) {
  const std::string asked = world.environment().value(env::transport);
  const ErrorContext here{world.rank(), "connect", 0};
  if (asked == "auto" && met_by_mpi(world)) return "mpi";
  if (asked == "mpi" && !met_by_mpi(world)) {
    throw Error(ErrorKind::usage,
                text(where, ", and they did not meet through MPI, which ", env::transport.name, " asks for"),
                text(WEFT_HAS_MPI ? "start them with mpirun" : "build weft with MPI (libopenmpi-dev)",
                     ", or keep them on one node; where it is one, see ", env::host_id.name),
                here);
  }
  if (asked != "auto") return asked;
  if (WEFT_HAS_UCX) return "ucx";
  if (WEFT_HAS_BOOST) return "tcp";
  throw Error(ErrorKind::usage,
              text(where, ", and this build of weft carries no data between nodes without MPI"),
              text("build it with UCX (libucx-dev) or Boost, start them with mpirun (in a build with MPI), "
                   "or keep them "
                   "on one node; where it is one, see ",
                   env::host_id.name),
              here);
}

}  // namespace

void expect_transport(const Environment& environment) {
  const std::string asked = environment.value(env::transport);
  if (asked != "auto" && asked != "mpi" && asked != "ucx" && asked != "tcp")
    throw Error(ErrorKind::usage, text(env::transport.name, "=", asked, " is none of auto, mpi, ucx, tcp"));
}

std::shared_ptr<Wire> make_wire(const World& world, const std::string& where) {
  const std::string transport = transport_of(world, where);
#if WEFT_HAS_MPI
  if (transport == "mpi") return make_mpi_wire(std::dynamic_pointer_cast<MpiRendezvous>(world.rendezvous()));
#endif
#if WEFT_HAS_BOOST
  if (transport == "tcp") {
    return make_tcp_wire(world.rendezvous(), world.environment(), Deadline::in(world.connect_timeout()),
                         world.timeout());
  }
#endif
#if WEFT_HAS_UCX
  if (transport == "ucx") {
    return make_ucx_wire(world.rendezvous(), world.environment(), Deadline::in(world.connect_timeout()),
                         world.timeout());
  }
#endif
  throw Error(ErrorKind::usage, text(env::transport.name, '=', transport, " is not in this build of weft"),
              "see the table that cmake prints for what is on, and why", {world.rank(), "connect", 0});
}

}  // namespace weft::detail
