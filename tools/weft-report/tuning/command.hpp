#pragma once
// The command of the user: which benchmark it runs, and how settings reach its ranks.
//
// mpirun gets -x NAME=VALUE for each. weft-launch, srun, torchrun and a plain program hand on the environment in which they start. What starts
// processes elsewhere in an environment of their own (ssh, kubectl, docker) is refused: there the whole of tune has to run inside.

#include <map>
#include <string>
#include <vector>

#include "weft-report/tuning/space.hpp"

namespace weft::report::tuning {

using Environment = std::map<std::string, std::string>;

struct Command {
  std::vector<std::string> words{};
  Library library = Library::nccl;
  std::string collective{};  ///< nccl: "allreduce"; weft: "all_reduce"
  bool under_mpi = false;    ///< the launcher is mpirun or mpiexec

  /// @throws Error (usage) where no benchmark is named, or how its ranks would get settings is not known
  static Command parse(const std::vector<std::string>& words);
  /// The words, with what the launcher needs to hand those variables on.
  std::vector<std::string> with(const Environment& environment) const;
};

}  // namespace weft::report::tuning
