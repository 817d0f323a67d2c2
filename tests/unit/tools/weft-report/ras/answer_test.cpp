// Answers of RAS as values: what NCCL's own code prints in each version and state is read without loss, and what is none is refused in one line.

#include "weft-report/ras/answer.hpp"

#include <gtest/gtest.h>

#include "unit/tools/weft-report/ras/recorded_answers.hpp"
#include "weft/core/error.hpp"

namespace weft::report::ras {
namespace {

using test::recorded_answer;
using test::recorded_answers;

std::string refusal(const std::string& bytes) {
  try {
    (void)parse_answer(bytes, "answer");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "taken";
}

TEST(RasAnswer, OfEveryVersionAndStateHasNoLineThatIsNotRead) {
  const auto all = recorded_answers();
  EXPECT_EQ(all.size(), 19U * 2 + 8U);
  for (const auto& [version, states] : all) {
    EXPECT_EQ(states.size(), 35U) << version;
    for (const auto& [state, bytes] : states) {
      const Answer answer = parse_answer(bytes, "answer");
      EXPECT_EQ(answer.nccl, version.substr(0, version.find(' '))) << state;
      EXPECT_TRUE(answer.unread.empty()) << version << ' ' << state << ": " << answer.unread.front().text;
    }
  }
}

TEST(RasAnswer, SaysHowManyNodesProcessesAndGpusThereAre) {
  const Answer even = parse_answer(recorded_answer("2.30.7 text", "two-ahead-by-one"), "answer");
  EXPECT_EQ(even.nodes, 4);
  EXPECT_EQ(even.processes, 32);
  EXPECT_EQ(even.gpus, 32);
  const Answer uneven = parse_answer(recorded_answer("2.24.3 text", "uneven-gpus"), "answer");
  EXPECT_EQ(uneven.nodes, 2);
  EXPECT_EQ(uneven.processes, 3);
  EXPECT_EQ(uneven.gpus, 4);
}

TEST(RasAnswer, HasTheRanksOfAListWithTheirProcesses) {
  const Answer answer = parse_answer(recorded_answer("2.26.2 text", "two-ahead-by-one"), "answer");
  ASSERT_EQ(answer.communicators.size(), 1U);
  const Communicator& one = answer.communicators[0];
  EXPECT_EQ(one.name, "#0-0 (fa93daea854b060b)");
  EXPECT_EQ(one.size, 32);
  ASSERT_EQ(one.collectives.size(), 1U);
  EXPECT_EQ(one.collectives[0].type, "AllGather");
  ASSERT_EQ(one.collectives[0].levels.size(), 2U);
  const Launched& most = one.collectives[0].levels[0];
  EXPECT_EQ(most.operations, 20U);
  EXPECT_EQ(most.who.size, 30);
  EXPECT_TRUE(most.who.named.empty());
  const Launched& ahead = one.collectives[0].levels[1];
  EXPECT_EQ(ahead.operations, 21U);
  ASSERT_EQ(ahead.who.named.size(), 2U);
  EXPECT_EQ(ahead.who.named[0].rank, 12);
  EXPECT_EQ(ahead.who.named[0].process.pid, 5012);
  EXPECT_EQ(ahead.who.named[0].process.node, "10.0.0.2");
  EXPECT_EQ(ahead.who.named[0].process.gpus, "4");
}

TEST(RasAnswer, OfTheTwoFormsSaysTheSameOfACommunicator) {
  for (const std::string state : {"left", "errors", "one-starting", "silent", "everything"}) {
    const Answer text = parse_answer(recorded_answer("2.29.2 verbose", state), "answer");
    const Answer json = parse_answer(recorded_answer("2.29.2 json", state), "answer");
    ASSERT_EQ(text.communicators.size(), json.communicators.size()) << state;
    const Communicator& a = text.communicators[0];
    const Communicator& b = json.communicators[0];
    EXPECT_EQ(a.size, b.size) << state;
    EXPECT_EQ(a.unanswered.named.size(), b.unanswered.named.size()) << state;
    EXPECT_EQ(a.failures.size(), b.failures.size()) << state;
    EXPECT_EQ(text.dead.named.size(), json.dead.named.size()) << state;
    EXPECT_EQ(text.silent.named.size(), json.silent.named.size()) << state;
    EXPECT_EQ(text.timeouts, json.timeouts) << state;
  }
}

/// 2.28.7 and 2.28.9 leave a comma out.
TEST(RasAnswer, InJsonThatLacksACommaIsTaken) {
  const std::string broken = recorded_answer("2.28.7 json", "silent");
  EXPECT_NE(broken.find("\"nvml_dev\": 0\n          \"status\""), std::string::npos);
  EXPECT_EQ(parse_answer(broken, "answer").silent.size, 1);
}

TEST(RasAnswer, MayHaveTheProtocolBeforeItAndALogBehindIt) {
  const std::string answer = recorded_answer("2.26.2 text", "one-far-behind");
  const Answer plain = parse_answer(answer, "answer");
  const Answer framed = parse_answer(
      "SERVER PROTOCOL 2\nOK\r\n" + answer + "[rank1]:[E603 17:48:01] Watchdog caught\n", "answer");
  ASSERT_EQ(framed.unread.size(), 1U);
  EXPECT_EQ(framed.unread[0].text, "[rank1]:[E603 17:48:01] Watchdog caught");
  EXPECT_EQ(framed.communicators[0].collectives[0].levels[0].who.line,
            plain.communicators[0].collectives[0].levels[0].who.line + 2);
}

/// A process that ends while it answers leaves the first part.
TEST(RasAnswer, ThatEndsInTheMiddleIsRefusedWithTheLine) {
  const std::string text = recorded_answer("2.26.2 text", "well");
  EXPECT_NE(
      refusal(text.substr(0, text.find("Communicators..."))).find("answer: the answer of RAS ends in line "),
      std::string::npos);
  EXPECT_NE(refusal(text.substr(0, text.find("Warnings"))).find("before its warnings"), std::string::npos);
  const std::string json = recorded_answer("2.29.2 json", "well");
  for (std::size_t cut = 1; cut + 2 < json.size(); cut += 97)
    EXPECT_NE(refusal(json.substr(0, cut)).find("ends in the middle, after "), std::string::npos) << cut;
}

TEST(RasAnswer, OfAnotherProgramIsNamed) {
  EXPECT_NE(refusal("HTTP/1.1 400 Bad Request\r\n\r\n").find("it begins with \"HTTP/1.1 400 Bad Request\""),
            std::string::npos);
  EXPECT_NE(refusal("SSH-2.0-OpenSSH_9.2\r\n").find("no answer of NCCL's RAS"), std::string::npos);
  EXPECT_NE(refusal("\x1b[31mred").find("\\x1b[31mred"), std::string::npos);
  EXPECT_NE(refusal(" \n").find("is empty"), std::string::npos);
  EXPECT_NE(refusal("SERVER PROTOCOL 2\n").find("no answer behind it"), std::string::npos);
  EXPECT_NE(refusal("ERROR: Unknown command x\n").find("is a refusal of RAS"), std::string::npos);
  EXPECT_NE(refusal("[2026-01-01 00:00:00] PEER_DEAD: x\n").find("MONITOR"), std::string::npos);
  EXPECT_NE(refusal("=== RAS Diagnostics ===\n").find("DIAGNOSTICS"), std::string::npos);
  EXPECT_NE(refusal("{\"a\": 1}").find("has no \"nccl_version\""), std::string::npos);
  EXPECT_NE(
      refusal(
          R"({"nccl_version": "2.30.7", "timestamp": "", "ras": {"timeouts_count": -1}, "communicators": []})")
          .find("ras.timeouts_count is -1"),
      std::string::npos);
}

}  // namespace
}  // namespace weft::report::ras
