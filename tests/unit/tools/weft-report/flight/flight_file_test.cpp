// Flight records as files: what is read, and a word on everything else.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/expect_error.hpp"
#include "unit/tools/weft-report/flight/flights.hpp"

namespace weft::report {
namespace {

using test::expect_error;

const std::string whole =
    R"({"weft_flight": 1, "rank": 1, "size": 4, "host": "node0", "pid": 77, "reason": "error",
 "clock": {"steady_ns": 123, "wall_ns": 1790000000000000000},
 "error": {"kind": "system", "message": "no memory", "operation": "all_reduce", "number": 12, "at_ns": 122},
 "progress": [{"track": "gradients", "step": 17, "waits_for": ["a", "b"], "waits_for_count": 12}],
 "communicators": [{"name": "rows", "ranks": [3, 1], "rank": 1, "operations": [
   {"lane": "host", "number": 11, "kind": "all_reduce", "count": 1024, "dtype": "f32", "op": "sum", "root": 0,
    "state": "done", "issued_ns": 1, "begun_ns": 2, "ended_ns": 3},
   {"lane": "group", "number": 4, "kind": "send/receive group", "count": 0, "dtype": "", "op": "", "root": -1,
    "state": "begun", "issued_ns": 0, "begun_ns": 0, "ended_ns": 0},
   {"lane": "host", "number": 12, "kind": "broadcast", "count": 1, "dtype": "bf16", "op": "avg", "root": 1,
    "state": "failed", "issued_ns": 4, "begun_ns": 0, "ended_ns": 0}]}]})";

std::string with(const std::string& part, const std::string& other) {
  const auto at = whole.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return std::string(whole).replace(at, part.size(), other);
}

TEST(FlightFile, IsReadWhole) {
  const FlightRecord record = parse_flight(whole, "rank-1.json");
  EXPECT_EQ(record.file, "rank-1.json");
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.size, 4);
  EXPECT_EQ(record.host, "node0");
  EXPECT_EQ(record.pid, 77);
  EXPECT_EQ(record.reason, "error");
  EXPECT_EQ(record.wall(122), 1'790'000'000'000'000'000 - 1);
  ASSERT_TRUE(record.error);
  EXPECT_EQ(record.error->kind, ErrorKind::system);
  EXPECT_EQ(record.error->message, "no memory");
  EXPECT_EQ(record.error->number, 12U);
  ASSERT_EQ(record.progress.size(), 1U);
  EXPECT_EQ(record.progress[0].step, 17);
  EXPECT_EQ(record.progress[0].waits_for, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(record.progress[0].waits_for_count, 12);
  ASSERT_EQ(record.communicators.size(), 1U);
  EXPECT_EQ(record.communicators[0].ranks, (std::vector<int>{3, 1}));
  ASSERT_EQ(record.communicators[0].on(Lane::host).size(), 2U);
  ASSERT_EQ(record.communicators[0].on(Lane::group).size(), 1U);
  EXPECT_TRUE(record.communicators[0].on(Lane::device).empty());
  const FlightOperation& last = record.communicators[0].on(Lane::host)[1];
  EXPECT_EQ(last.number, 12U);
  EXPECT_EQ(last.kind, Collective::broadcast);
  EXPECT_EQ(last.dtype, DataType::bf16);
  EXPECT_EQ(last.op, ReduceOp::avg);
  EXPECT_EQ(last.root, 1);
  EXPECT_EQ(last.state, State::failed);
  EXPECT_EQ(last.issued_ns, 4);
}

TEST(FlightFile, TakesAnyWordOfTheProgramForAReason) {
  const FlightRecord record =
      parse_flight(with("\"reason\": \"error\"", "\"reason\": \"before\\nthe risk\""), "f");
  EXPECT_EQ(record.reason, "before\nthe risk");
  EXPECT_TRUE(record.failed()) << "it has an error all the same";
}

TEST(FlightFile, KnowsEveryNameTheLibraryHas) {
  for (const std::string kind :
       {"usage", "mismatch", "timeout", "peer lost", "peer_lost", "system", "internal"})
    EXPECT_TRUE(parse_flight(with("\"system\"", '"' + kind + '"'), "f").error) << kind;
  for (int i = 0; i <= static_cast<int>(Collective::barrier); ++i) {
    const auto kind = static_cast<Collective>(i);
    const auto record = parse_flight(with("\"broadcast\"", text('"', name(kind), '"')), "f");
    EXPECT_EQ(record.communicators[0].on(Lane::host)[1].kind, kind);
  }
}

struct Malformed {
  const char* part;
  const char* instead;
  const char* complaint;
};

// Whatever stands in place of a part of a good record, the file, the place and what is wrong are named.
TEST(FlightFile, RefusesWhatTheRecorderDoesNotWrite) {
  for (const Malformed& one : std::initializer_list<Malformed>{
           {"}]}]}", "}]}]", "is no whole JSON"},
           {"}]}]}", "}]}]} 7", "is no whole JSON"},
           {"\"weft_flight\": 1", "\"weft_fright\": 1", "is no flight record: it has no \"weft_flight\""},
           {"\"weft_flight\": 1", "\"weft_flight\": 2", "weft_flight is 2; this program reads version 1"},
           {"\"weft_flight\": 1", "\"weft_flight\": \"1\"",
            "weft_flight is \"1\"; this program reads version 1"},
           {"\"pid\": 77", "\"tid\": 77", "has no \"pid\""},
           {"\"pid\": 77", "\"pid\": 77, \"tid\": 7", "has an unknown member \"tid\""},
           {"\"pid\": 77", "\"pid\": 7.5", "pid is 7.5E0; it is a whole number from 1"},
           {"\"rank\": 1,", "\"rank\": 4,", "rank is 4; it is a whole number from 0 to 3"},
           {"\"rank\": 1,", "\"rank\": \"1\",", "rank is \"1\"; it is a whole number from 0 to 3"},
           {"\"size\": 4", "\"size\": 0", "size is 0; it is a whole number from 1"},
           {"\"host\": \"node0\"", "\"host\": 0", "host is 0 and no string"},
           {"\"reason\": \"error\"", "\"reason\": 7", "reason is 7 and no string"},
           {"\"failed\"", "\"bad\\nluck\"",
            "communicators[0].operations[2].state is \"bad\\nluck\"; it is one of issued"},
           {"{\"steady_ns\": 123, \"wall_ns\": 1790000000000000000}", "5", "clock is no object"},
           {"1790000000000000000", "9000000000000000000", "clock.wall_ns is 9000000000000000000"},
           {"1790000000000000000", "18000000000000000000", "clock.wall_ns is 18000000000000000000"},
           {"\"system\"", "\"bad luck\"",
            "error.kind is \"bad luck\"; it is one of usage, mismatch, timeout, peer lost, system, internal"},
           {"\"message\"", "\"massage\"", "error has no \"message\""},
           {"\"at_ns\": 122", "\"at_ns\": 0", "error.at_ns is 0"},
           {"[\"a\", \"b\"]", "[\"a\", 2]", "progress[0].waits_for[1] is 2 and no string"},
           {"\"waits_for_count\": 12", "\"waits_for_count\": 1",
            "progress[0].waits_for_count is 1; it is a whole number from 2"},
           {"[\"a\", \"b\"]", "\"a\"", "progress[0].waits_for is no array"},
           {"[3, 1]", "[]", "communicators[0].ranks is empty"},
           {"[3, 1]", "[1, 1]", "communicators[0].ranks[1] is rank 1 a second time"},
           {"[3, 1]", "[3, 4]", "communicators[0].ranks[1] is 4; it is a whole number from 0 to 3"},
           {"[3, 1]", "[1, 3]", "communicators[0].rank is 1, which is world rank 3 and not 1"},
           {"[3, 1], \"rank\": 1", "[3, 1], \"rank\": 2",
            "communicators[0].rank is 2; it is a whole number from 0 to 1"},
           {"\"lane\": \"group\"", "\"lane\": \"fast\"",
            "communicators[0].operations[1].lane is \"fast\"; it is one of host, device, group"},
           {"\"number\": 12, \"kind\"", "\"number\": 11, \"kind\"",
            "communicators[0].operations[2].number is 11 after 11; numbers rise"},
           {"\"number\": 11", "\"number\": 0",
            "communicators[0].operations[0].number is 0; it is a whole number from 1"},
           {"\"broadcast\"", "\"shout\"",
            "communicators[0].operations[2].kind is \"shout\"; it is one of all_reduce, "},
           {"\"count\": 1024", "\"count\": -1", "communicators[0].operations[0].count is -1"},
           {"\"bf16\"", "\"f8\"", "communicators[0].operations[2].dtype is \"f8\"; it is one of f32, "},
           {"\"avg\"", "\"mean\"",
            "communicators[0].operations[2].op is \"mean\"; it is one of sum, prod, min, max, avg"},
           {"\"root\": 1", "\"root\": 2",
            "communicators[0].operations[2].root is 2; it is a whole number from 0 to 1"},
           {"\"failed\"", "\"doomed\"",
            "communicators[0].operations[2].state is \"doomed\"; it is one of issued, begun, done, failed"},
           {"\"issued_ns\": 4", "\"issued_ns\": -4", "communicators[0].operations[2].issued_ns is -4"},
           {"\"operations\": [", "\"operations\": 5, \"x\": [",
            "communicators[0] has an unknown member \"x\""},
       }) {
    SCOPED_TRACE(one.instead);
    expect_error(ErrorKind::usage, {"dumps/rank-1.json: ", one.complaint},
                 [&] { parse_flight(with(one.part, one.instead), "dumps/rank-1.json"); });
  }
  for (const std::string content : {"", "[]", "7", "null", "{}", "not JSON"})
    expect_error(ErrorKind::usage, {"f: is no "}, [&] { parse_flight(content, "f"); });
}

TEST(FlightFile, RefusesOneCommunicatorTwice) {
  const std::string more = R"(, {"name": "rows", "ranks": [3, 1], "rank": 1, "operations": []}]})";
  expect_error(ErrorKind::usage, {"communicators[1] is a second one of name 'rows' and the same ranks"},
               [&] { parse_flight(whole.substr(0, whole.size() - 2) + more, "f"); });
}

TEST(FlightRun, IsOfOneJob) {
  expect_error(ErrorKind::usage, {"there is no flight record"}, [] { of_one_run({}); });
  const auto a = test::record(1, 4, {});
  auto again = a;
  again.file = "rank-01.json";
  expect_error(ErrorKind::usage, {"rank-1.json and rank-01.json are both of rank 1"}, [&] {
    of_one_run({a, again});
  });
  expect_error(ErrorKind::usage, {"rank-1.json is of a job of 4 ranks, rank-2.json of one of 3"}, [&] {
    of_one_run({test::record(2, 3, {}), a});
  });
  const auto sorted = of_one_run({test::record(3, 4, {}), a});
  EXPECT_EQ(sorted[0].rank, 1);
  EXPECT_EQ(sorted[1].rank, 3);
}

class FlightFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "flightXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ + '/' + name) << content;
  }

  std::string folder_;
};

TEST_F(FlightFolder, IsReadByRankWithoutWhatIsNoRecord) {
  const std::string alone = with("[3, 1], \"rank\": 1", "[3, 1], \"rank\": 0");
  write("rank-3.json", std::string(alone).replace(alone.find("\"rank\": 1"), 9, "\"rank\": 3"));
  write("rank-1.json", whole);
  write("rank-2.json.tmp", "half a rec");
  write("notes.txt", "hello");
  const auto records = read_flights(folder_);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].file, "rank-1.json");
  EXPECT_EQ(records[1].file, "rank-3.json");
}

TEST_F(FlightFolder, NamesWhatIsWrong) {
  const auto refused = [&](const std::string& reason) {
    expect_error(ErrorKind::usage, {reason}, [&] { read_flights(folder_); });
  };
  refused(text("the folder '", folder_, "' has no rank-R.json"));
  write("rank-1.json", "");
  refused(text(folder_, "/rank-1.json: is no whole JSON"));
  write("rank-1.json", whole);
  write("rank-x.json", whole);
  refused(text(folder_, "/rank-x.json: its name has no rank"));
  std::filesystem::remove(folder_ + "/rank-x.json");
  write("rank-2.json", whole);
  refused("/rank-1.json and ");
  std::filesystem::remove(folder_ + "/rank-1.json");
  refused(text(folder_, "/rank-2.json: is of rank 1; its name says another"));
  expect_error(ErrorKind::usage, {"cannot read the folder '/nowhere': No such file"},
               [] { read_flights("/nowhere"); });
}

}  // namespace
}  // namespace weft::report
