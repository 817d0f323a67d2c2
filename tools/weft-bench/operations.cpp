#include "operations.hpp"

#include <algorithm>
#include <array>

#include "case.hpp"
#include "mpi_call.hpp"
#include "shared_moves.hpp"

#if WEFT_HAS_MPI
#define BY_MPI(...) [](const MpiCall& m) { __VA_ARGS__; }
#else
#define BY_MPI(...) nullptr
#endif

namespace weft::bench {
namespace {

int next(const Case& which) {
  return (which.rank + 1) % which.ranks;
}
int previous(const Case& which) {
  return (which.rank + which.ranks - 1) % which.ranks;
}
double whole(double) {
  return 1;
}
double all_but_own_part(double n) {
  return (n - 1) / n;
}
Source own_element_of_all(const Case&, std::int64_t i) {
  return {Source::all_ranks, i};
}

constexpr std::array all_operations{
    Operation{
        .op = Op::all_reduce,
        .name = "all_reduce",
        .kind = Collective::all_reduce,
        .reduces = true,
        .bus_factor = [](double n) { return 2 * (n - 1) / n; },
        .source = own_element_of_all,
        .osu_title = "MPI Allreduce Latency Test",
        .weft = [](const WeftCall& w) { return w.comm.all_reduce(w.in, w.out, w.which.redop, w.stream); },
        .mpi = BY_MPI(MPI_Allreduce(m.in, m.out, m.count, m.type, m.op, m.comm)),
        .bound = [](SharedMoves& memory, const Case& which) { memory.reduce_slice(which); },
    },
    Operation{
        .op = Op::reduce_scatter,
        .name = "reduce_scatter",
        .kind = Collective::reduce_scatter,
        .reduces = true,
        .in_parts = true,
        .bus_factor = all_but_own_part,
        .source =
            [](const Case& which, std::int64_t i) {
              return Source{Source::all_ranks, which.rank * which.count + i};
            },
        .osu_title = "MPI Reduce_scatter Latency Test",
        .weft = [](const WeftCall& w) { return w.comm.reduce_scatter(w.in, w.out, w.which.redop, w.stream); },
        // In place MPI reads the receive buffer, and puts the result at its beginning.
        .mpi = BY_MPI(
            MPI_Reduce_scatter_block(m.in, m.which.in_place ? m.mine : m.out, m.count, m.type, m.op, m.comm)),
        .bound = [](SharedMoves& memory, const Case& which) { memory.reduce_part(which); },
    },
    Operation{
        .op = Op::all_gather,
        .name = "all_gather",
        .kind = Collective::all_gather,
        .out_parts = true,
        .bus_factor = all_but_own_part,
        .source =
            [](const Case& which, std::int64_t i) {
              return Source{static_cast<int>(i / which.count), i % which.count};
            },
        .osu_title = "MPI Allgather Latency Test",
        .weft = [](const WeftCall& w) { return w.comm.all_gather(w.in, w.out, w.stream); },
        .mpi = BY_MPI(MPI_Allgather(m.in, m.count, m.type, m.out, m.count, m.type, m.comm)),
        .bound =
            [](SharedMoves& memory, const Case& which) {
              for (int rank = 0; rank < which.ranks; ++rank)
                memory.copy_part(which, rank, memory.input(which, rank));
            },
    },
    Operation{
        .op = Op::broadcast,
        .name = "broadcast",
        .kind = Collective::broadcast,
        .root = Root::sends,
        .in_place = InPlace::always,
        .bus_factor = whole,
        .source =
            [](const Case& which, std::int64_t i) {
              return Source{which.root, i};
            },
        .osu_title = "MPI Broadcast Latency Test",
        .weft = [](const WeftCall& w) { return w.comm.broadcast(w.out, w.which.root, w.stream); },
        .mpi = BY_MPI(MPI_Bcast(m.out, m.count, m.type, m.which.root, m.comm)),
        .bound = [](SharedMoves& memory,
                    const Case& which) { memory.copy_part(which, 0, memory.output(which, which.root)); },
    },
    Operation{
        .op = Op::reduce,
        .name = "reduce",
        .kind = Collective::reduce,
        .reduces = true,
        .root = Root::receives,
        .bus_factor = whole,
        .source = own_element_of_all,
        .osu_title = "MPI Reduce Latency Test",
        .weft =
            [](const WeftCall& w) {
              return w.comm.reduce(w.in, w.out, w.which.redop, w.which.root, w.stream);
            },
        .mpi = BY_MPI(MPI_Reduce(m.which.writes(m.which.rank) ? m.in : m.mine, m.out, m.count, m.type, m.op,
                                 m.which.root, m.comm)),
        .bound = [](SharedMoves& memory, const Case& which) { memory.reduce_slice(which); },
    },
    Operation{
        .op = Op::all_to_all,
        .name = "all_to_all",
        .kind = Collective::all_to_all,
        .in_parts = true,
        .out_parts = true,
        .in_place = InPlace::never,
        .bus_factor = all_but_own_part,
        .source =
            [](const Case& which, std::int64_t i) {
              return Source{static_cast<int>(i / which.count), which.rank * which.count + i % which.count};
            },
        .osu_title = "MPI All-to-All Personalized Exchange Latency Test",
        .weft = [](const WeftCall& w) { return w.comm.all_to_all(w.in, w.out, w.stream); },
        .mpi = BY_MPI(MPI_Alltoall(m.mine, m.count, m.type, m.out, m.count, m.type, m.comm)),
        .bound =
            [](SharedMoves& memory, const Case& which) {
              for (int rank = 0; rank < which.ranks; ++rank)
                memory.copy_part(which, rank, memory.input(which, rank) + which.part_bytes(which.rank));
            },
    },
    Operation{
        .op = Op::send_receive,
        .name = "send_receive",
        .in_place = InPlace::never,
        .bus_factor = whole,
        .source =
            [](const Case& which, std::int64_t i) {
              return Source{previous(which), i};
            },
        .osu_title = "MPI Latency Test",
        .weft =
            [](const WeftCall& w) {
              Group group(w.comm);
              group.send(w.in, next(w.which)).receive(w.out, previous(w.which));
              return group.start(w.stream);
            },
        .mpi = BY_MPI(MPI_Sendrecv(m.mine, m.count, m.type, next(m.which), 0, m.out, m.count, m.type,
                                   previous(m.which), 0, m.comm, MPI_STATUS_IGNORE)),
        .bound = [](SharedMoves& memory,
                    const Case& which) { memory.copy_part(which, 0, memory.input(which, previous(which))); },
    },
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < all_operations.size(); ++i) {
    if (all_operations[i].op != static_cast<Op>(i)) return false;
  }
  return true;
}
static_assert(is_in_order(), "a row stands at the place of its enumerator");

}  // namespace

std::span<const Operation> operations() {
  return all_operations;
}

}  // namespace weft::bench
