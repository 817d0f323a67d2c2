#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "weft/collectives/world.hpp"

namespace weft {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

Values operator+(Values left, const Values& right) {
  left.insert(right.begin(), right.end());
  return left;
}

LaunchClaim decided(const Values& values, const WorldOptions& options = {}) {
  return decide(launch_claims(options, Environment(values)));
}

bool has_mpi() {
  return decided({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).rendezvous == "mpi";
}

const Values weft_variables{{"WEFT_RANK", "6"}, {"WEFT_SIZE", "7"}, {"WEFT_RENDEZVOUS", "file:///tmp/x"}};
const Values torch{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
const Values torchrun =
    torch + Values{{"TORCHELASTIC_RUN_ID", "job"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}};
const Values pmix{{"PMIX_NAMESPACE", "prterun-node0-77@1"}, {"PMIX_RANK", "2"}};
const Values open_mpi = pmix + Values{{"OMPI_COMM_WORLD_RANK", "2"},
                                      {"OMPI_COMM_WORLD_SIZE", "3"},
                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
const Values pmi{{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Values slurm{{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"},
                   {"SLURM_PROCID", "4"},    {"SLURM_STEP_NUM_TASKS", "6"},
                   {"SLURM_LOCALID", "1"},   {"SLURM_STEP_NODELIST", "node[03-07,9]"}};

const Values pod{{"JOB_COMPLETION_INDEX", "3"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
const Values indexed_job =
    pod + Values{{"WORLD_SIZE", "8"}, {"MASTER_ADDR", "job-0.pods"}, {"MASTER_PORT", "29500"}};

struct Case {
  const char* name;
  Values values;
  Launcher launcher;
  int rank;
  int size;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

class EnvironmentOf : public testing::TestWithParam<Case> {};

TEST_P(EnvironmentOf, IsReadAsThatLauncher) {
  const LaunchClaim claim = decided(GetParam().values);
  EXPECT_EQ(claim.launcher, GetParam().launcher) << name(claim.launcher);
  EXPECT_EQ(claim.rank, GetParam().rank);
  EXPECT_EQ(claim.size, GetParam().size);
}

INSTANTIATE_TEST_SUITE_P(
    Launchers, EnvironmentOf,
    testing::Values(
        Case{"Nobody", {}, Launcher::single, 0, 1},
        Case{"WeftVariables", weft_variables, Launcher::explicit_options, 6, 7},
        Case{"Torchrun", torchrun, Launcher::torchrun, 1, 4}, Case{"PmixAlone", pmix, Launcher::pmix, 2, -1},
        Case{"OpenMpi", open_mpi, Launcher::pmix, 2, 3},
        Case{"OpenMpiWithoutPmix",
             {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}},
             Launcher::open_mpi,
             2,
             3},
        Case{"Pmi", pmi, Launcher::pmi, 3, 5}, Case{"TorchVariables", torch, Launcher::torch_variables, 1, 4},
        Case{"SlurmStep", slurm, Launcher::slurm, 4, 6},
        Case{"SlurmStepWithoutItsOwnCount",
             {{"SLURM_STEP_ID", "1"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}},
             Launcher::slurm,
             1,
             2},
        Case{"SlurmWithPmix", slurm + Values{{"PMIX_NAMESPACE", "slurm.pmix.4711.0"}, {"PMIX_RANK", "4"}},
             Launcher::pmix, 4, 6},
        // One launcher beneath another
        Case{"WeftVariablesOverEverything", weft_variables + torchrun + open_mpi + pmi + slurm,
             Launcher::explicit_options, 6, 7},
        Case{"TorchrunUnderMpirun", torchrun + open_mpi, Launcher::torchrun, 1, 4},
        Case{"MpirunInASlurmAllocation", open_mpi + slurm, Launcher::pmix, 2, 3},
        Case{"PrterunWhoseDaemonsSrunStarted", pmix + slurm, Launcher::pmix, 2, -1},
        Case{"TorchVariablesThatAgreeWithSlurm",
             slurm +
                 Values{
                     {"RANK", "4"}, {"WORLD_SIZE", "6"}, {"MASTER_ADDR", "node03"}, {"MASTER_PORT", "1234"}},
             Launcher::torch_variables, 4, 6},
        Case{"TorchVariablesThatTellPmixItsSize",
             pmix +
                 Values{
                     {"RANK", "2"}, {"WORLD_SIZE", "9"}, {"MASTER_ADDR", "node03"}, {"MASTER_PORT", "1234"}},
             Launcher::pmix, 2, 9},
        // Traps
        Case{"HalfOfTorchBeneathMpirun", open_mpi + Values{{"RANK", "0"}, {"WORLD_SIZE", "1"}},
             Launcher::pmix, 2, 3},
        Case{"NonsenseInHalfOfTorchBeneathMpirun", pmi + Values{{"RANK", "captain"}}, Launcher::pmi, 3, 5},
        Case{"HalfOfTorchBeneathSlurm", slurm + Values{{"RANK", "0"}, {"WORLD_SIZE", "64"}}, Launcher::slurm,
             4, 6},
        Case{"SlurmBatchScript",
             {{"SLURM_JOB_ID", "4711"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}},
             Launcher::single,
             0,
             1},
        Case{"SlurmBatchStep",
             {{"SLURM_STEP_ID", "batch"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}},
             Launcher::single,
             0,
             1},
        Case{"SlurmInteractiveStep",
             {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}},
             Launcher::single,
             0,
             1},
        Case{"IndexedJob", indexed_job, Launcher::indexed_job, 3, 8},
        Case{"PodOfAJobWhoseTasksAreAlone", pod, Launcher::single, 0, 1},
        Case{"RankInAPod", indexed_job + Values{{"RANK", "5"}}, Launcher::torch_variables, 5, 8},
        Case{"TorchrunInAPod", torchrun + pod, Launcher::torchrun, 1, 4},
        Case{"WeftLaunchInAPod", weft_variables + indexed_job, Launcher::explicit_options, 6, 7},
        Case{"MpirunInAPod", open_mpi + pod, Launcher::pmix, 2, 3},
        Case{"EmptyVariables",
             {{"RANK", ""}, {"WORLD_SIZE", ""}, {"PMI_RANK", ""}, {"WEFT_RANK", ""}},
             Launcher::single,
             0,
             1},
        Case{"WorldSizeOfOne", {{"WORLD_SIZE", "1"}}, Launcher::torch_variables, 0, 1},
        Case{"RankZeroOfOne", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Launcher::torch_variables, 0, 1},
        Case{"NonsenseBeneathWeftVariables",
             weft_variables + Values{{"PMI_RANK", "x"}, {"PMI_SIZE", "y"}, {"MASTER_PORT", "z"}},
             Launcher::explicit_options, 6, 7},
        Case{"UniverseSizeIsNoSize", pmix + Values{{"OMPI_UNIVERSE_SIZE", "6"}}, Launcher::pmix, 2, -1}),
    [](const auto& one) { return std::string(one.param.name); });

struct Refusal {
  const char* name;
  Values values;
  const char* message;
};

void PrintTo(const Refusal& one, std::ostream* out) {
  *out << one.name;
}

class BadEnvironment : public testing::TestWithParam<Refusal> {};

TEST_P(BadEnvironment, IsRefusedInOneLineThatNamesTheVariables) {
  test::expect_error(ErrorKind::usage, {GetParam().message}, [] { decided(GetParam().values); });
}

INSTANTIATE_TEST_SUITE_P(
    Refusals, BadEnvironment,
    testing::Values(
        Refusal{"RankWithoutSize", {{"WEFT_RANK", "0"}}, "WEFT_RANK is set but WEFT_SIZE is not"},
        Refusal{"SizeWithoutRank", {{"WEFT_SIZE", "2"}}, "WEFT_SIZE is set but WEFT_RANK is not"},
        Refusal{"RankOutsideSize",
                {{"WEFT_RANK", "2"}, {"WEFT_SIZE", "2"}},
                "WEFT_RANK=2 is not below WEFT_SIZE=2"},
        Refusal{"RankThatIsNoNumber",
                {{"WEFT_RANK", "one"}, {"WEFT_SIZE", "2"}},
                "WEFT_RANK=one is not an integer"},
        Refusal{"NegativeRank", {{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}, "PMI_RANK=-1"},
        Refusal{"SizeOfNothing", {{"PMI_RANK", "0"}, {"PMI_SIZE", "0"}}, "PMI_SIZE=0"},
        Refusal{"LocalRankOutsideLocalSize", pmi + Values{{"WEFT_LOCAL_RANK", "4"}, {"WEFT_LOCAL_SIZE", "4"}},
                "WEFT_LOCAL_RANK=4 is not below WEFT_LOCAL_SIZE=4"},
        Refusal{"TorchRankOutsideWorldSize",
                {{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
                "RANK=4 is not below WORLD_SIZE=4"},
        Refusal{"PortOutOfRange",
                {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}},
                "MASTER_PORT=70000"},
        Refusal{"MissingAddress",
                {{"RANK", "0"}, {"WORLD_SIZE", "4"}},
                "MASTER_ADDR and MASTER_PORT are not set"},
        Refusal{"MissingPort",
                {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}},
                "MASTER_PORT is not set"},
        Refusal{"MissingWorldSize",
                {{"RANK", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
                "RANK=0 says that this is one of several ranks, but WORLD_SIZE is not set"},
        Refusal{"MissingRank",
                {{"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
                "but RANK is not set"},
        Refusal{"SlurmListWithoutBracket",
                {{"SLURM_STEP_ID", "0"},
                 {"SLURM_PROCID", "0"},
                 {"SLURM_NTASKS", "2"},
                 {"SLURM_STEP_NODELIST", "n[1"}},
                "SLURM_STEP_NODELIST=n[1"},
        Refusal{"OpenMpiAgainstTorchVariables", open_mpi + torch,
                "PMIx: rank 2 of 3 | Open MPI: rank 2 of 3 | RANK/WORLD_SIZE: rank 1 of 4"},
        Refusal{"OpenMpiAgainstPmi", open_mpi + pmi,
                "disagree: PMIx: rank 2 of 3 | Open MPI: rank 2 of 3 | PMI: rank 3 of 5"},
        Refusal{"SizesThatDifferWhileRanksAgree",
                pmi + Values{{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
                "PMI: rank 3 of 5 | RANK/WORLD_SIZE: rank 3 of 8"},
        Refusal{"SlurmAgainstTorchVariables", slurm + torch,
                "RANK/WORLD_SIZE: rank 1 of 4 | Slurm: rank 4 of 6"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(LaunchClaims, OptionsInCodeOutrankTheEnvironmentAndNeedBothNumbers) {
  WorldOptions options;
  options.rank = 1;
  test::expect_error(ErrorKind::usage, {"a rank but no size"}, [&] { decided(weft_variables, options); });
  options.size = 1;
  test::expect_error(ErrorKind::usage, {"rank 1 of 1"}, [&] { decided(weft_variables, options); });
  options.size = 3;
  EXPECT_EQ(describe(decided(weft_variables, options)), "rank 1 of 3");
  EXPECT_EQ(decided(weft_variables, options).rendezvous, "file:///tmp/x");
  options.rendezvous = "tcp://a:1";
  EXPECT_EQ(decided(weft_variables, options).rendezvous, "tcp://a:1");
}

TEST(LaunchClaims, EveryClaimIsListedBestFirst) {
  const auto claims = launch_claims({}, Environment(weft_variables + torchrun + open_mpi + slurm));
  std::vector<Launcher> order;
  for (const LaunchClaim& claim : claims) order.push_back(claim.launcher);
  EXPECT_EQ(order, (std::vector{Launcher::explicit_options, Launcher::torchrun, Launcher::pmix,
                                Launcher::open_mpi, Launcher::slurm}));
}

TEST(LaunchClaims, LocalRanksComeFromTheLauncherUnlessWeftVariablesSayOtherwise) {
  EXPECT_EQ(decided(torchrun).local_rank, 1);
  EXPECT_EQ(decided(torchrun).local_size, 2);
  EXPECT_EQ(decided(slurm).local_rank, 1);
  EXPECT_EQ(decided(slurm).local_size, std::nullopt);
  EXPECT_EQ(decided(torch).local_rank, std::nullopt);
  EXPECT_EQ(decided(slurm + Values{{"WEFT_LOCAL_RANK", "0"}, {"WEFT_LOCAL_SIZE", "3"}}).local_rank, 0);
  EXPECT_EQ(decided(slurm + Values{{"WEFT_LOCAL_SIZE", "3"}}).local_size, 3);
}

TEST(LaunchClaims, PodsMeetAtTheNameOfTheFirst) {
  EXPECT_EQ(decided(indexed_job).rendezvous, "tcp://job-0.pods:29500");
  EXPECT_STREQ(name(Launcher::indexed_job), "indexed Job");
  EXPECT_STREQ(name(Launcher::single), "single process");
  test::expect_error(ErrorKind::usage, {"JOB_COMPLETION_INDEX=9 is not below WORLD_SIZE=8"}, [&] {
    decided(Values{{"JOB_COMPLETION_INDEX", "9"}} + indexed_job);
  });
}

TEST(LaunchClaims, HalfOfTorchIsNobodyBeneathAnInitialisedMpi) {
  const Environment environment(Values{{"RANK", "0"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(decide(launch_claims({}, environment, true)).launcher, Launcher::single);
}

TEST(LaunchClaims, ANamedMeetingPointCompletesRankAndWorldSize) {
  const Values named{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"WEFT_RENDEZVOUS", "tcp://a:1"}};
  EXPECT_EQ(describe(decided(named)), "rank 1 of 4");
}

TEST(MeetingPoint, IsMasterAddressWhereTheStoreOfTorchrunsAgentMayBe) {
  EXPECT_EQ(decided(torch).rendezvous, "tcp://node0:29500");
  EXPECT_EQ(decided(torchrun).rendezvous, "tcp://node0:29500");
  const Values agent = torchrun + Values{{"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  EXPECT_EQ(decided(agent).rendezvous, "torchrun://node0:29500");
  EXPECT_EQ(decided(agent + Values{{"TORCHELASTIC_RESTART_COUNT", "2"}}).rendezvous,
            "torchrun://node0:29500");
  EXPECT_EQ(decided(torchrun + Values{{"TORCHELASTIC_USE_AGENT_STORE", "False"}}).rendezvous,
            "tcp://node0:29500");
  Values ipv6 = torch;
  ipv6["MASTER_ADDR"] = "fd00::7";
  EXPECT_EQ(decided(ipv6).rendezvous, "tcp://[fd00::7]:29500");
}

TEST(MeetingPoint, OfASlurmStepIsItsFirstHostAndAPortOfTheStep) {
  const auto of = [](const std::string& nodes, const std::string& step) {
    Values values = slurm;
    values["SLURM_STEP_NODELIST"] = nodes;
    values["SLURM_STEP_ID"] = step;
    return decided(values).rendezvous;
  };
  for (const auto& [nodes, first] : std::map<std::string, std::string>{{"node[03-07,9]", "node03"},
                                                                       {"a1,b2", "a1"},
                                                                       {"solo", "solo"},
                                                                       {"n[7]", "n7"},
                                                                       {"r[1-2]n[01-04],x9", "r1n01"},
                                                                       {"g[5,7-9].cluster", "g5.cluster"}}) {
    const std::string address = of(nodes, "0");
    ASSERT_TRUE(address.starts_with("tcp://" + first + ":")) << address;
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    EXPECT_GE(port, 61440);
    EXPECT_LE(port, 65535);
  }
  EXPECT_NE(of("a", "0"), of("a", "1"));
  EXPECT_EQ(of("a", "1"), of("a", "1"));
}

TEST(MeetingPoint, OfAProcessManagersRanksIsMpiOrElseMasterAddress) {
  const Values addressed = pmi + Values{{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(decided(pmi).rendezvous, has_mpi() ? "mpi" : "");
  EXPECT_EQ(decided(addressed).rendezvous, has_mpi() ? "mpi" : "tcp://node0:29500");
  EXPECT_EQ(decided(pmi + Values{{"WEFT_RENDEZVOUS", "tcp://b:2"}}).rendezvous, "tcp://b:2");
  EXPECT_EQ(decided(pmix).rendezvous, has_mpi() ? "mpi" : WEFT_HAS_PMIX ? "pmix" : "");
}

TEST(World, OfOneRankNeedsNobody) {
  const World world = World::from_environment({}, Environment(Values{{"WEFT_HOST_ID", "here"}}));
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.launcher(), Launcher::single);
  EXPECT_EQ(world.host_id(), "here");
  EXPECT_EQ(world.timeout(), std::chrono::seconds(600));
  const auto notes = world.rendezvous()->all_gather("alone", "test", Deadline::in(std::chrono::seconds(1)));
  EXPECT_EQ(notes, std::vector<std::string>{"alone"});
}

TEST(World, WithoutAMeetingPointSaysWhatWouldWork) {
  test::expect_error(ErrorKind::usage, {"WEFT_RENDEZVOUS"}, [] {
    World::from_environment({}, Environment(Values{{"WEFT_RANK", "0"}, {"WEFT_SIZE", "2"}}));
  });
  test::expect_error(ErrorKind::usage, {"'http://x' is neither tcp://HOST:PORT nor file://PATH"}, [] {
    World::from_environment(
        {}, Environment(Values{{"WEFT_RANK", "0"}, {"WEFT_SIZE", "2"}, {"WEFT_RENDEZVOUS", "http://x"}}));
  });
}

TEST(HostId, HoldsHostNameBootAndPidNamespace) {
  const std::string id = host_id(Environment());
  EXPECT_EQ(std::count(id.begin(), id.end(), '/'), 2) << id;
  EXPECT_EQ(id, host_id(Environment()));
}

}  // namespace
}  // namespace weft
