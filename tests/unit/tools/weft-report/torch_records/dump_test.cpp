// Dumps of PyTorch are read as they are meant, or refused with the place that is wrong.

#include "weft-report/torch_records/dump.hpp"

#include <gtest/gtest.h>

#include "unit/tools/weft-report/torch_records/torch_dumps.hpp"

namespace weft::report::torch_records {
namespace {

using test::torch_dump;
using test::torch_entry;
using test::torch_json;

std::string refusal(const std::string& content, const std::string& file = "nccl_trace_rank_0") {
  try {
    (void)parse_dump(content, file);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.problem();
  }
  return "taken";
}
std::string replaced(std::string content, const std::string& from, const std::string& to) {
  const auto at = content.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? content : content.replace(at, from.size(), to);
}

TEST(TorchDump, GivesWhatWasWritten) {
  TorchEntry sent = torch_entry(3, "7 Half", TorchState::started);
  sent.name = "send 1->0";
  sent.is_message = true;
  sent.message = 4;
  sent.retired = true;
  const std::string content =
      torch_json(1, 2, {torch_entry(1), torch_entry(2, "5 Int", TorchState::scheduled), sent});
  EXPECT_TRUE(is_dump(content));
  const TorchDump dump = parse_dump(content, "a/nccl_trace_rank_1.json");
  EXPECT_EQ(dump.rank, 1);
  EXPECT_EQ(dump.version, "2.5");
  ASSERT_EQ(dump.groups.size(), 1U);
  EXPECT_EQ(dump.groups[0].description, "default_pg");
  EXPECT_EQ(dump.groups[0].ranks, (std::vector<int>{0, 1}));
  ASSERT_EQ(dump.entries.size(), 3U);
  EXPECT_EQ(dump.entries[0].name, "all_reduce");
  EXPECT_EQ(dump.entries[0].inputs, Tensors{"12 Float"});
  EXPECT_EQ(dump.entries[0].state, TorchState::completed);
  EXPECT_EQ(dump.entries[0].completed_ns, torch_entry(1).completed_ns);
  EXPECT_EQ(dump.entries[1].started_ns, 0);
  EXPECT_EQ(dump.entries[1].timeout_ms, 600'000);
  EXPECT_EQ(dump.entries[2].name, "send 1->0");
  EXPECT_EQ(dump.entries[2].message, 4);
  EXPECT_TRUE(dump.entries[2].is_message && dump.entries[2].retired);
}

TEST(TorchDump, NamesTheLineOfTheProgramAndNotOfPyTorch) {
  const std::string frames =
      R"("frames":[{"name":"all_reduce","filename":"/x/torch/distributed/distributed_c10d.py","line":2696},)"
      R"({"name":"step","filename":"train.py","line":44},{"name":"main","filename":"train.py","line":9}],)";
  const std::string content =
      replaced(torch_json(0, 2, {torch_entry(1)}), R"("record_id")", frames + R"("record_id")");
  EXPECT_EQ(parse_dump(content, "rank_0").entries[0].where, "step at train.py:44");
}

TEST(TorchDump, TakesItsRankFromNameOrContent) {
  const auto without_rank = [](const std::string& content) { return replaced(content, R"("rank":1,)", ""); };
  const std::string content = without_rank(torch_json(1, 2, {torch_entry(1)}));
  EXPECT_EQ(parse_dump(content, "x/trace_1").rank, 1);
  EXPECT_EQ(parse_dump(content, "nccl_trace_rank_17.pickle").rank, 17);
  EXPECT_NE(refusal(content, "dump").find("its name has no rank"), std::string::npos);
  TorchEntry received = torch_entry(1);
  received.name = "recv 1<-0";
  EXPECT_EQ(parse_dump(without_rank(torch_json(1, 2, {received})), "dump").rank, 1);
  EXPECT_EQ(parse_dump(torch_json(1, 2, {}), "dump").rank, 1);
  EXPECT_NE(refusal(torch_json(1, 2, {}), "rank_0").find("is of rank 1"), std::string::npos);
  const TorchDump stranger = torch_dump(2, 2, {torch_entry(1)});
  EXPECT_THROW(flight_of(stranger), Error);
}

TEST(TorchDump, ThatIsBrokenSaysWhere) {
  const std::string good = torch_json(0, 2, {torch_entry(1), torch_entry(2)});
  EXPECT_EQ(refusal(good), "taken");
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& words) {
    const std::string problem = refusal(replaced(good, from, to));
    EXPECT_NE(problem.find(words), std::string::npos) << problem;
  };
  expect(R"("version":"2.5")", R"("version":"1.5")", "version is 1.5");
  expect(R"("version":"2.5",)", "", "has no \"version\"");
  expect(R"("state":"completed")", R"("state":"gone")", "entries[0].state is \"gone\"");
  expect(R"("profiling_name":"nccl:all_reduce",)", "", "entries[0].value has no \"profiling_name\"");
  expect(R"("collective_seq_id":1)", R"("collective_seq_id":-1)", "entries[0].collective_seq_id is -1");
  expect(R"([[12]])", R"([12])", "entries[0].input_sizes is a whole number");
  expect(R"("is_p2p":false)", R"("is_p2p":"no")", "entries[0].is_p2p is a string");
  expect(R"("[0, 1]")", R"("[0, 99999999]")", "pg_config.0.ranks names rank 99999999");
  expect(R"("entries":[)", R"("entries":{)", "is no whole JSON");
  EXPECT_NE(refusal("\x80\x02K\x01."), "taken");
  EXPECT_NE(refusal(""), "taken");
}

TEST(TorchDump, BecomesAFlightRecord) {
  TorchEntry part = torch_entry(2, "3 Half", TorchState::scheduled);
  TorchEntry other = torch_entry(2, "4 Half", TorchState::scheduled);
  TorchEntry whole = torch_entry(2, "", TorchState::started);
  whole.name = "coalesced";
  whole.inputs = whole.outputs = {};
  TorchEntry given_up = torch_entry(3, "5 Half", TorchState::started);
  given_up.retired = true;
  const FlightRecord record = flight_of(torch_dump(1, 4, {torch_entry(1), part, other, whole, given_up}));
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.size, 4);
  EXPECT_TRUE(record.failed());
  ASSERT_EQ(record.communicators.size(), 1U);
  EXPECT_EQ(record.communicators[0].name, "0:default_pg");
  const auto& all = record.communicators[0].on(Lane::device);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].state, State::done);
  EXPECT_EQ(all[1].details->called, "coalesced");
  EXPECT_EQ(all[1].details->operands, "all_reduce 3 Half; all_reduce 4 Half");
  EXPECT_EQ(all[1].state, State::begun);
  EXPECT_EQ(all[1].issued_ns, part.created_ns);
  EXPECT_EQ(all[2].state, State::failed);
}

TEST(TorchDump, OfAGroupMadeAnewHoldsTheNewerOneOnly) {
  const FlightRecord record =
      flight_of(torch_dump(0, 2, {torch_entry(7), torch_entry(8), torch_entry(1, "9 Int")}));
  const auto& all = record.communicators.at(0).on(Lane::device);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].details->operands, "9 Int");
}

TEST(TorchDump, HasNoOperationOfNumberZero) {
  const FlightRecord record = flight_of(torch_dump(0, 2, {torch_entry(0)}));
  ASSERT_EQ(record.communicators.size(), 1U);
  EXPECT_TRUE(record.communicators[0].on(Lane::device).empty());
  EXPECT_NO_THROW(progress_summary({record}));
}

TEST(TorchDump, IsOneOfEachRank) {
  std::vector<FlightRecord> job = test::torch_job({{torch_entry(1)}, {torch_entry(1)}});
  EXPECT_THROW(add_record(job, flight_of(torch_dump(1, 2, {}))), Error);
  add_record(job, flight_of(torch_dump(5, 6, {torch_entry(1)})));
  for (const FlightRecord& one : job) EXPECT_EQ(one.size, 6);
}

TEST(TorchDump, IsToldFromOtherFiles) {
  EXPECT_TRUE(is_dump("\x80\x02}q\x01(X\x09...pg_config"));
  EXPECT_FALSE(is_dump("\x80\x02}q\x01."));
  EXPECT_FALSE(is_dump("{\"log\": \"pg_config\"}"));
  EXPECT_FALSE(is_dump("node1:7:7 [0] NCCL INFO \"pg_config\""));
  EXPECT_FALSE(is_dump(""));
}

}  // namespace
}  // namespace weft::report::torch_records
