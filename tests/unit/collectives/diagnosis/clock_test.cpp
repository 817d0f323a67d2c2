#include "weft/collectives/clock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "collectives/communicator/communicator_state.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#if WEFT_HAS_BOOST
#include <boost/json.hpp>
#endif

namespace weft {
namespace {

using namespace std::chrono_literals;

/// Ranks that are threads, of which each `of_a_node` take themselves for those of a node.
void run_as_nodes(int ranks, int of_a_node, const std::function<void(Communicator)>& body) {
  const auto store = make_memory_store();
  detail::on_threads(ranks, [&](int rank) {
    auto rendezvous = make_store_rendezvous(store, "nodes", rank, ranks);
    std::vector<std::string> hosts;
    for (int one = 0; one < ranks; ++one) hosts.push_back(text("node", one / of_a_node));
    body(detail::make_communicator(detail::make_threads_backend(rendezvous, {.timeout = 1min}), rendezvous,
                                   Topology(hosts), 1min, nullptr));
  });
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream words;
  words << file.rdbuf();
  return std::move(words).str();
}

TEST(Clock, IsOneOnANode) {
  EXPECT_EQ(clock_offset(self()), 0ns);
  run_as_threads(3, [](Communicator comm) { EXPECT_EQ(clock_offset(comm), 0ns); });
}

// Here the offset is known: it is one clock. What is found is off by half of the shortest round trip at most.
TEST(Clock, OfAnotherNodeIsAskedFor) {
  run_as_nodes(3, 1, [](Communicator comm) {
    const auto begin = std::chrono::steady_clock::now();
    const auto offset = clock_offset(comm);
    EXPECT_LE(std::chrono::abs(offset), std::chrono::steady_clock::now() - begin);
    EXPECT_TRUE(comm.rank() != 0 || offset == 0ns);
  });
}

// Ranks of a node read one clock: one asks for all of them.
TEST(Clock, HasOneOffsetOnANode) {
  std::array<std::chrono::nanoseconds, 6> offsets{};
  run_as_nodes(6, 2, [&offsets](const Communicator& comm) {
    offsets[static_cast<std::size_t>(comm.rank())] = clock_offset(comm);
  });
  EXPECT_EQ(offsets[0], 0ns);
  for (std::size_t rank = 0; rank < offsets.size(); rank += 2) EXPECT_EQ(offsets[rank], offsets[rank + 1]);
  EXPECT_TRUE(offsets[2] != 0ns || offsets[4] != 0ns);
}

class Traces : public testing::Test {
 protected:
  /// Every rank records as many spans as its number, so rank 0 none, and rank 0 attaches what all share.
  static void record(Trace& trace, int rank) {
    const Trace::Clock::time_point origin{};
    if (rank == 0) trace.attach("job", R"({"ranks":3})");
    for (int i = 0; i < rank; ++i)
      trace.span(text("track \"", rank, '"'), text("span ", i), origin + 1s * i, origin + 1s * (i + 1),
                 {{"bytes", static_cast<std::uint64_t>(rank)}});
  }
  std::string path() const { return folder_.path() + "/trace.json"; }

  test::TemporaryFolder folder_;
};

TEST_F(Traces, OfAllRanksAreOneFile) {
  run_as_threads(3, [&](Communicator comm) {
    Trace trace(comm.rank());
    record(trace, comm.rank());
    write_trace(trace, comm, path());
  });
  const std::string json = content(path());
  std::size_t before = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto at = json.find(text(R"("pid":)", rank, R"(,"args":{"name":"rank )", rank, "\"}}"));
    ASSERT_NE(at, std::string::npos) << json;
    EXPECT_GT(at, before) << "by rank";
    before = at;
  }
  EXPECT_NE(json.find(R"("otherData":{"lost_spans":0,"job":{"ranks":3}})"), std::string::npos) << json;
}

#if WEFT_HAS_BOOST
TEST_F(Traces, OfAllRanksAreValidJson) {
  run_as_threads(3, [&](Communicator comm) {
    Trace trace(comm.rank());
    record(trace, comm.rank());
    write_trace(trace, comm, path());
  });
  const auto root = boost::json::parse(content(path()));
  std::set<std::int64_t> pids;
  std::map<std::int64_t, std::vector<double>> begins;
  for (const auto& event : root.at("traceEvents").as_array()) {
    const auto pid = event.at("pid").as_int64();
    pids.insert(pid);
    if (event.at("ph").as_string() != "X") continue;
    begins[pid].push_back(event.at("ts").as_double());
    EXPECT_EQ(event.at("dur").as_double(), 1e6);
    EXPECT_EQ(event.at("args").at("bytes").as_int64(), pid);
  }
  EXPECT_EQ(pids, (std::set<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(begins, (std::map<std::int64_t, std::vector<double>>{{1, {0}}, {2, {0, 1e6}}}));
  EXPECT_EQ(root.at("otherData").at("job").at("ranks").as_int64(), 3);
}
#endif

TEST_F(Traces, OfOneRankAreItsOwn) {
  Trace trace(0);
  record(trace, 2);
  write_trace(trace, self(), path());
  EXPECT_EQ(content(path()), trace.json());
}

TEST_F(Traces, ThatCannotBeWrittenAreAnErrorOfRank0Alone) {
  using Case = std::pair<std::string, ErrorKind>;
  for (const auto& [place, kind] :
       {Case{"/no/such/folder/trace.json", ErrorKind::usage}, Case{"/dev/full", ErrorKind::system}}) {
    run_as_threads(3, [&](Communicator comm) {
      Trace trace(comm.rank());
      record(trace, comm.rank());
      const auto write = [&] { write_trace(trace, comm, place); };
      if (comm.rank() == 0) {
        test::expect_error(kind, {"the trace " + place, "cannot write"}, write);
      } else {
        EXPECT_NO_THROW(write());
      }
      Stream stream;
      comm.barrier(stream).wait(Deadline::in(10s));  // and they go on together
    });
  }
}

}  // namespace
}  // namespace weft
