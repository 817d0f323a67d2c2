#pragma once
// An operation as MPI is called.

#include "case.hpp"

#if WEFT_HAS_MPI
#include "weft/interop/mpi.hpp"

namespace weft::bench {

struct MpiCall {
  const Case& which;
  void* mine;      ///< the input
  const void* in;  ///< the input, or MPI_IN_PLACE
  void* out;
  int count;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;
};

}  // namespace weft::bench

#endif
