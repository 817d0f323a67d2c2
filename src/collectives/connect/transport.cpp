#include "collectives/connect/transport.hpp"

#include <algorithm>

#include "collectives/network/transports.hpp"
#include "core/base/strings.hpp"
#include "weft/core/error.hpp"
#if WEFT_HAS_MPI
#include "collectives/network/mpi/mpi_rendezvous.hpp"
#endif

namespace weft::detail {
namespace {

struct Transport {
  std::string_view name;
  PeersMaker* make;  ///< null: this build does not have it
};
#define WEFT_TRANSPORT_ROW(name, is_built) Transport{#name, is_built ? make_##name##_peers : nullptr},
constexpr std::array transports{WEFT_TRANSPORTS(WEFT_TRANSPORT_ROW)};
#undef WEFT_TRANSPORT_ROW

bool met_by_mpi(const World& world) {
#if WEFT_HAS_MPI
  return std::dynamic_pointer_cast<MpiRendezvous>(world.rendezvous()) != nullptr;
#else
  return static_cast<void>(world), false;
#endif
}

/// A name of the table.
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
  if (asked != "auto" && std::ranges::find(transport_names, asked) == transport_names.end())
    throw Error(ErrorKind::usage,
                text(env::transport.name, "=", asked, " is none of auto, ", listed(transport_names)));
}

std::shared_ptr<GroupWire> make_wire(const World& world, const std::string& where) {
  const std::string name = transport_of(world, where);
  const auto transport = std::ranges::find(transports, name, &Transport::name);
  if (transport == transports.end() || transport->make == nullptr)
    throw Error(ErrorKind::usage, text(env::transport.name, '=', name, " is not in this build of weft"),
                "see the table that cmake prints for what is on, and why", {world.rank(), "connect", 0});
  const Deadline deadline = Deadline::in(world.connect_timeout());
  const auto peers = transport->make(*world.rendezvous(), world.environment(), deadline);
  return GroupWire::of_all(peers, world.rendezvous(), deadline, world.timeout());
}

}  // namespace weft::detail
