#include "transport.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/expect_error.hpp"

namespace weft::scaling {
namespace {

std::vector<Connection> read(const std::string& log) {
  std::istringstream in(log);
  return read_nccl_log(in);
}

// Formats: NCCL 2.28.9 and 2.30.7, src/transport/{net,p2p,shm}.cc and src/graph/search.cc.
TEST(NcclLog, NamesEveryConnectionOnce) {
  const auto all = read(
      "n1:1:1 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 40.0/40.0, type NVL/PIX, sameChannels 1\n"
      "n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
      "n1:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
      "n1:1:1 [0] NCCL INFO Channel 00/0 : 7[7] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
      "n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/5(2)/GDRDMA/Shared\n"
      "n1:1:1 [0] NCCL INFO Channel 00/0 : 0[1b000] -> 9[1] [send] via NET/Socket/0\n"
      "n1:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 2[2] via SHM/direct/direct\n"
      "n1:1:1 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n");
  const std::vector<Connection> expected{
      {.from = 0, .to = 1, .via = "P2P/CUMEM", .nvlink = true, .channels = 2},
      {.from = 0, .to = 2, .via = "SHM/direct/direct"},
      {.from = 0, .to = 8, .via = "NET/IBext_v8/5(2)", .gdr = true},
      {.from = 0, .to = 9, .via = "NET/Socket/0"},
  };
  EXPECT_EQ(all, expected);
  EXPECT_EQ(to_text(all),
            "  0 -> 8: NET/IBext_v8/5(2) with GPUDirect RDMA\n"
            "  0 -> 9: NET/Socket/0\n"
            "  0 -> 1: P2P/CUMEM (NVLink)\n"
            "  0 -> 2: SHM/direct/direct\n");
  EXPECT_TRUE(read("").empty());
}

TEST(NcclLog, PeerAccessOverPciIsNoNvlink) {
  const auto all = read(
      "Pattern 4, crossNic 0, nChannels 2, bw 12.0/12.0, type PHB/PIX, sameChannels 1\n"
      "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_FALSE(all[0].nvlink);
  EXPECT_NE(shortfall(Requirement::nvlink, all), "");
}

TEST(NcclLog, LogsOfRealMachinesAreRead) {
  const std::filesystem::path cases = std::filesystem::path(WEFT_SOURCE_DIR) / "../shared/nccl_cases";
  if (!std::filesystem::exists(cases)) GTEST_SKIP() << "no logs here";
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    std::ifstream log(entry.path());
    for (const Connection& one : read_nccl_log(log)) {
      ++found;
      EXPECT_TRUE(one.via.starts_with("NET/") || one.via.starts_with("P2P/") || one.via.starts_with("SHM/"))
          << one.via << " in " << entry.path();
    }
  }
  EXPECT_GT(found, 5U);
}

TEST(Requirement, HoldsForEveryConnectionOfItsReach) {
  const Connection gdr{.from = 0, .to = 8, .via = "NET/IB/0", .gdr = true};
  const Connection ib{.from = 1, .to = 9, .via = "NET/IB/1"};
  const Connection socket{.from = 2, .to = 10, .via = "NET/Socket/0"};
  const Connection nvlink{.from = 0, .to = 1, .via = "P2P/CUMEM", .nvlink = true};
  const Connection shm{.from = 0, .to = 1, .via = "shared memory"};
  const Connection mpi{.from = 0, .to = 1, .via = "MPI"};
  EXPECT_EQ(shortfall(Requirement::none, {socket}), "");
  EXPECT_EQ(shortfall(Requirement::gdr, {gdr, nvlink}), "");
  EXPECT_EQ(shortfall(Requirement::gdr, {gdr, ib}), "rank 1 sends to rank 9 over NET/IB/1");
  EXPECT_EQ(shortfall(Requirement::ib, {gdr, ib, nvlink}), "");
  EXPECT_EQ(shortfall(Requirement::ib, {gdr, socket}), "rank 2 sends to rank 10 over NET/Socket/0");
  EXPECT_EQ(shortfall(Requirement::ib, {mpi}), "rank 0 sends to rank 1 over MPI");
  EXPECT_EQ(shortfall(Requirement::ib, {nvlink}), "no connection is of that kind");
  EXPECT_EQ(shortfall(Requirement::nvlink, {nvlink, gdr}), "");
  EXPECT_EQ(shortfall(Requirement::nvlink, {shm}), "rank 0 sends to rank 1 over shared memory");
  EXPECT_EQ(shortfall(Requirement::shm, {shm}), "");
  EXPECT_EQ(shortfall(Requirement::shm, {}), "no connection is of that kind");
  EXPECT_EQ(requirement_named("gdr"), Requirement::gdr);
  test::expect_error(ErrorKind::usage, {"--require rdma", "gdr, ib, nvlink, shm"},
                     [] { requirement_named("rdma"); });
}

}  // namespace
}  // namespace weft::scaling
