#pragma once
// weft inside a program that runs its own MPI. The only public header that includes <mpi.h>.
//
// The ranks of the World are those of `comm`, in its order. weft works on its own duplicate, so that its
// messages never match the program's, and does not finalize an MPI that it did not initialise. Initialise MPI
// with MPI_THREAD_SERIALIZED or more, and make no MPI call while another thread is inside weft; with less,
// weft refuses calls from other threads. Collective over `comm`.
//
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
//   {
//     auto comm = weft::connect(weft::world_from_mpi(MPI_COMM_WORLD));
//   }                      // weft's duplicate is freed here
//   MPI_Finalize();
//
// WRONG: MPI_Finalize() while a World or a Communicator made from it is alive: their duplicates are then
// lost.

// Without MPI's deprecated C++ classes, which would need a library of their own.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "weft/collectives/world.hpp"

namespace weft {

/// @param options the two timeouts only; rank, size and rendezvous are the communicator's
/// @throws Error (usage) before MPI_Init or after MPI_Finalize, (timeout) when not all ranks call it in time
World world_from_mpi(MPI_Comm comm, const WorldOptions& options = {},
                     const Environment& environment = Environment::of_process());

}  // namespace weft
