#include "weft-report/tuning/command.hpp"

#include <algorithm>
#include <array>

#include "weft/collectives/algorithm.hpp"
#include "weft/core/error.hpp"

namespace weft::report::tuning {
namespace {

constexpr std::array<std::string_view, 9> elsewhere{"ssh",  "kubectl", "docker", "podman", "pdsh",
                                                    "sudo", "qsub",    "sbatch", "bsub"};

std::string_view name_of(std::string_view word) {
  return word.substr(word.rfind('/') + 1);
}

bool is_mpirun(std::string_view name) {
  return name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "mpirun.openmpi";
}

bool is_nccl_test(std::string_view name) {
  return name.ends_with("_perf") || name.ends_with("_perf_mpi");
}

/// "all_reduce_perf" is "allreduce".
std::string collective_of(std::string_view name) {
  std::string collective(name.substr(0, name.find("_perf")));
  std::erase(collective, '_');
  return collective;
}

void refuse_unreachable(const std::vector<std::string>& words, std::size_t program) {
  for (std::size_t i = 0; i < program; ++i) {
    const std::string_view name = name_of(words[i]);
    if (std::ranges::find(elsewhere, name) != elsewhere.end())
      throw Error(
          ErrorKind::usage,
          text("'", name,
               "' starts processes whose environment is not this one: settings would not reach the ranks"),
          "run weft-report tune inside, or give mpirun, weft-launch, srun or the program itself");
    if (name.starts_with("--export=") && !name.starts_with("--export=ALL"))
      throw Error(ErrorKind::usage, text("'", words[i], "' keeps settings from the ranks"),
                  "leave it out, or write --export=ALL");
  }
}

}  // namespace

Command Command::parse(const std::vector<std::string>& words) {
  const auto program = std::ranges::find_if(words, [](const std::string& word) {
    return name_of(word) == "weft-bench" || is_nccl_test(name_of(word));
  });
  if (program == words.end())
    throw Error(ErrorKind::usage, "the command runs no benchmark that can be tuned",
                "its program is weft-bench or one of nccl-tests, as all_reduce_perf, behind its launcher: "
                "weft-report tune -- mpirun -n 2 weft-bench "
                "all_reduce");
  const auto place = static_cast<std::size_t>(program - words.begin());
  refuse_unreachable(words, place);
  Command command{.words = words};
  command.under_mpi = is_mpirun(name_of(words.front()));
  if (name_of(*program) != "weft-bench") {
    command.collective = collective_of(name_of(*program));
    return command;
  }
  command.library = Library::weft;
  command.collective = place + 1 < words.size() ? words[place + 1] : "";
  const auto known = std::ranges::find(collective_names, command.collective);
  if (known > collective_names.begin() + static_cast<int>(Collective::all_to_all))
    throw Error(ErrorKind::usage, text("'", command.collective, "' is nothing that can be tuned"),
                "weft-bench takes one collective first, and each has its own settings: all_reduce, "
                "reduce_scatter, all_gather, broadcast, reduce, "
                "all_to_all");
  return command;
}

std::vector<std::string> Command::with(const Environment& environment) const {
  std::vector<std::string> result = words;
  if (!under_mpi) return result;
  std::vector<std::string> flags;
  for (const auto& [name, value] : environment) flags.insert(flags.end(), {"-x", name + "=" + value});
  result.insert(result.begin() + 1, flags.begin(), flags.end());
  return result;
}

}  // namespace weft::report::tuning
