#pragma once
// What launchers say of ranks that ended: weft-launch, torchrun, Open MPI's mpirun, MPICH's and Intel's mpiexec, srun. A rank that is killed says
// nothing itself, and nobody else does while no other rank waits for it. Rows of statements() name these functions, which add to Job::ends.

#include "weft-report/nccl/statements.hpp"

namespace weft::report::nccl {

bool take_end_by_weft_launch(const Said& said, Process& process, Job& job);
bool take_lost_host(const Said& said, Process& process, Job& job);
bool take_end_by_torchrun(const Said& said, Process& process, Job& job);
bool take_end_by_open_mpi(const Said& said, Process& process, Job& job);
/// A rank that ended by itself takes mpirun several lines.
bool take_name_by_open_mpi(const Said& said, Process& process, Job& job);
bool take_code_by_open_mpi(const Said& said, Process& process, Job& job);
bool take_end_by_srun(const Said& said, Process& process, Job& job);
/// MPICH's mpiexec (Hydra) takes several lines for one rank.
bool take_place_by_hydra(const Said& said, Process& process, Job& job);
bool take_end_by_hydra(const Said& said, Process& process, Job& job);

}  // namespace weft::report::nccl
