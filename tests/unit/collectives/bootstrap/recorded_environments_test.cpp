// What real launchers put into the environment of rank 2 of 3, as `env` printed it there (recorded/*.env; names of files and processes are left
// out), is read as that launcher's. With variables of another one that say otherwise it is refused, and both are named.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "weft/collectives/world.hpp"

namespace weft {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

struct Recording {
  std::string says;  ///< "mpirun of Open MPI 4.1.4: PMIx, rank 2 of 3"
  Values values;
};

Recording recording(const std::filesystem::path& path) {
  std::ifstream file(path);
  Recording result;
  std::string line;
  EXPECT_TRUE(std::getline(file, line) && line.starts_with("# ")) << path;
  result.says = line.substr(2);
  while (std::getline(file, line))
    result.values[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  return result;
}

Values recorded(const std::string& name) {
  return recording(std::filesystem::path(RECORDED) / (name + ".env")).values;
}

LaunchClaim decided(const Values& values) {
  return decide(launch_claims({}, Environment(values)));
}

TEST(RecordedEnvironments, AreReadAsTheLauncherThatTheyAreOf) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(RECORDED)) {
    const Recording one = recording(entry.path());
    const LaunchClaim claim = decided(one.values);
    const std::string read = text(name(claim.launcher), ", ", describe(claim));
    EXPECT_TRUE(one.says.ends_with(": " + read))
        << entry.path() << ": " << read << ", and it is " << one.says;
    ++count;
  }
  EXPECT_GE(count, 14);
  RecordProperty("recordings", count);
}

/// A launcher's variables for a rank.
Values of_another(const std::string& source, int rank, int size) {
  const std::string r = std::to_string(rank), s = std::to_string(size);
  if (source == "PMI") return {{"PMI_RANK", r}, {"PMI_SIZE", s}};
  if (source == "Open MPI") return {{"OMPI_COMM_WORLD_RANK", r}, {"OMPI_COMM_WORLD_SIZE", s}};
  return {{"RANK", r}, {"WORLD_SIZE", s}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
}

TEST(RecordedEnvironments, AreRefusedWithAnotherLaunchersWhichBothAreNamed) {
  const std::string torch = "RANK/WORLD_SIZE";
  struct Pair {
    std::string recording, launcher, other;
  };
  const std::vector<Pair> pairs{{"open-mpi", "PMIx", torch},
                                {"open-mpi", "PMIx", "PMI"},
                                {"hydra", "PMI", torch},
                                {"hydra", "PMI", "Open MPI"},
                                {"slurm-srun", "Slurm", torch},
                                {"slurm-srun-pmix", "PMIx", torch},
                                {"slurm-srun-pmix", "PMIx", "PMI"},
                                {"slurm-srun-pmi2", "PMI", torch},
                                {"open-mpi-in-slurm-batch", "PMIx", torch},
                                {"hydra-in-slurm-batch", "PMI", torch}};
  int count = 0;
  for (const Pair& pair : pairs) {
    for (const auto& [rank, size] : {std::pair(1, 3), std::pair(2, 4), std::pair(1, 4)}) {
      Values both = recorded(pair.recording);
      both.merge(of_another(pair.other, rank, size));
      SCOPED_TRACE(text(pair.recording, " and ", pair.other, ": rank ", rank, " of ", size));
      test::expect_error(ErrorKind::usage,
                         {"two launchers claim this process and disagree", pair.launcher + ": rank 2 of 3",
                          text(pair.other, ": rank ", rank, " of ", size)},
                         [&] { decided(both); });
      ++count;
    }
    Values agreeing = recorded(pair.recording);
    agreeing.merge(of_another(pair.other, 2, 3));
    EXPECT_EQ(describe(decided(agreeing)), "rank 2 of 3") << pair.recording << " and " << pair.other;
  }
  EXPECT_EQ(count, 30);
  RecordProperty("contradictions", count);
}

}  // namespace
}  // namespace weft
