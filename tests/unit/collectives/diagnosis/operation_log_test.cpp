#include "collectives/diagnosis/operation_log.hpp"

#include <gtest/gtest.h>

#include <charconv>
#include <thread>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

using Sequence = OperationLog::Sequence;
using State = OperationLog::State;

Operation operation(std::uint64_t number, std::int64_t count = 10) {
  return {.kind = Collective::all_reduce, .number = number, .count = count, .dtype = DataType::f32};
}

/// The log's words on the operation with this number, from its "lane" to its last time.
std::string entry(const OperationLog& log, std::uint64_t number) {
  const std::string json = log.json();
  const auto at = json.find(text("\"number\":", number, ','));
  if (at == std::string::npos) return {};
  const auto begin = json.rfind('{', at);
  return json.substr(begin, json.find('}', begin) - begin + 1);
}

std::string state(const OperationLog& log, std::uint64_t number) {
  const std::string words = entry(log, number);
  constexpr std::string_view name = "\"state\":\"";
  const auto begin = words.find(name) + name.size();
  return words.substr(begin, words.find('"', begin) - begin);
}

std::int64_t time_of(const OperationLog& log, std::uint64_t number, const std::string& name) {
  const std::string words = entry(log, number);
  const auto at = words.find('"' + name + "\":");
  EXPECT_NE(at, std::string::npos) << words;
  std::int64_t time = -1;
  std::from_chars(words.data() + at + name.size() + 3, words.data() + words.size(), time);
  return time;
}

std::size_t occurrences(const std::string& words, const std::string& part) {
  std::size_t count = 0;
  for (auto at = words.find(part); at != std::string::npos; at = words.find(part, at + 1)) ++count;
  return count;
}

/// Completes when it is let go, or fails.
class Gated final : public Task {
 public:
  struct Gate {
    std::atomic<bool> open{false};
    std::atomic<bool> fails{false};
  };
  explicit Gated(Gate& gate) : gate_(gate) {}
  bool advance() override {
    if (gate_.fails) throw Error(ErrorKind::system, "the device is gone");
    return gate_.open;
  }

 private:
  Gate& gate_;
};

TEST(OperationLog, SaysInJsonWhatWasIssued) {
  OperationLog log(R"(rows "a"\b)", {4, 7}, 1);
  EXPECT_EQ(log.json(), R"({"name":"rows \"a\"\\b","ranks":[4,7],"rank":1,"operations":[]})");
  log.issued(Sequence::host, {.kind = Collective::broadcast,
                              .number = 3,
                              .count = 1'000'000'000'000,
                              .dtype = DataType::bf16,
                              .op = ReduceOp::max,
                              .root = 1});
  log.issued(Sequence::device, operation(1));
  log.issued(Sequence::group, {.number = 9});
  EXPECT_EQ(log.json(), R"({"name":"rows \"a\"\\b","ranks":[4,7],"rank":1,"operations":[
 {"lane":"host","number":3,"kind":"broadcast","count":1000000000000,"dtype":"bf16","op":"max","root":1,"state":"issued","issued_ns":0,"begun_ns":0,"ended_ns":0},
 {"lane":"device","number":1,"kind":"all_reduce","count":10,"dtype":"f32","op":"sum","root":0,"state":"issued","issued_ns":0,"begun_ns":0,"ended_ns":0},
 {"lane":"group","number":9,"kind":"send/receive group","count":0,"dtype":"u8","op":"sum","root":0,"state":"issued","issued_ns":0,"begun_ns":0,"ended_ns":0}]})");
}

TEST(OperationLog, KnowsEveryKindTypeAndOperation) {
  OperationLog log("world", {0}, 0);
  std::uint64_t number = 0;
  for (int kind = 0; kind <= static_cast<int>(Collective::barrier); ++kind) {
    for (int dtype = 0; dtype <= static_cast<int>(DataType::u8); ++dtype) {
      for (int op = 0; op <= static_cast<int>(ReduceOp::avg); ++op) {
        const Operation one{.kind = static_cast<Collective>(kind),
                            .number = ++number,
                            .count = kind * 7 + dtype,
                            .dtype = static_cast<DataType>(dtype),
                            .op = static_cast<ReduceOp>(op),
                            .root = 1 << 20};
        log.issued(Sequence::host, one);
        const auto found = log.find(number);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->text(), one.text());
        EXPECT_TRUE(found->agrees_with(one));
      }
    }
  }
}

TEST(OperationLog, FollowsAnOperationToItsEnd) {
  OperationLog log("world", {0}, 0);
  const auto place = log.issued(Sequence::host, operation(1));
  log.waits(place);
  EXPECT_EQ(state(log, 1), "issued");
  EXPECT_GT(time_of(log, 1, "issued_ns"), 0);
  EXPECT_EQ(time_of(log, 1, "begun_ns"), 0);
  log.begun(place);
  EXPECT_EQ(state(log, 1), "begun");
  EXPECT_GE(time_of(log, 1, "begun_ns"), time_of(log, 1, "issued_ns"));
  EXPECT_EQ(time_of(log, 1, "ended_ns"), 0);
  log.ended(place, State::failed);
  EXPECT_EQ(state(log, 1), "failed");
  EXPECT_GE(time_of(log, 1, "ended_ns"), time_of(log, 1, "begun_ns"));
  log.done_at_once(log.issued(Sequence::host, operation(2)));
  EXPECT_EQ(state(log, 2), "done");
  EXPECT_EQ(time_of(log, 2, "issued_ns"), 0);
}

TEST(OperationLog, KeepsTheNewest1024) {
  OperationLog log("world", {0}, 0);
  for (std::uint64_t number = 1; number <= 1030; ++number) log.issued(Sequence::host, operation(number));
  const std::string json = log.json();
  EXPECT_EQ(occurrences(json, "\"lane\""), 1024U);
  EXPECT_FALSE(log.find(6));
  ASSERT_TRUE(log.find(7));
  EXPECT_EQ(log.find(1030)->number, 1030U);
  EXPECT_FALSE(log.find(1031));
  std::size_t before = 0;
  for (std::uint64_t number = 7; number <= 1030; ++number) {
    const auto at = json.find(text("\"number\":", number, ','));
    ASSERT_NE(at, std::string::npos) << number;
    EXPECT_GT(at, before) << "oldest first";
    before = at;
  }
}

TEST(OperationLog, WhatBecomesOfAForgottenOperationIsNobodysElse) {
  OperationLog log("world", {0}, 0);
  const auto old = log.issued(Sequence::host, operation(1));
  for (std::uint64_t number = 2; number <= 1025; ++number) log.issued(Sequence::host, operation(number));
  log.begun(old);
  log.ended(old, State::failed);
  EXPECT_EQ(occurrences(log.json(), "\"failed\""), 0U);
  EXPECT_EQ(state(log, 1025), "issued");
  EXPECT_EQ(time_of(log, 1025, "begun_ns"), 0);
}

TEST(OperationLog, FindsCollectivesOfTheHostOnly) {
  OperationLog log("world", {0}, 0);
  EXPECT_FALSE(log.find(1));
  log.issued(Sequence::host, operation(1, 100));
  log.issued(Sequence::device, operation(1, 200));
  log.issued(Sequence::group, {.number = 1});
  log.issued(Sequence::device, operation(2, 200));
  ASSERT_TRUE(log.find(1));
  EXPECT_EQ(log.find(1)->count, 100);
  EXPECT_FALSE(log.find(2));
}

TEST(OperationLog, WhatADeviceHasIsOverWithItsEvent) {
  OperationLog log("world", {0}, 0);
  Gated::Gate good;
  Gated::Gate bad;
  Stream first;
  Stream second;
  const auto hand_over = [&](std::uint64_t number, Stream& stream, Gated::Gate& gate) {
    const auto place = log.issued(Sequence::device, operation(number));
    log.begun(place);
    log.handed_over(place, stream.submit(std::make_unique<Gated>(gate)));
  };
  hand_over(1, first, good);
  hand_over(2, second, bad);
  EXPECT_EQ(state(log, 1), "begun");
  good.open = true;
  EXPECT_EQ(state(log, 1), "done");
  EXPECT_EQ(state(log, 2), "begun");
  bad.fails = true;
  EXPECT_EQ(state(log, 2), "failed");
}

// Each stream of a device goes on alone.
TEST(OperationLog, WhatIsOverIsSaidToBeWhateverHangsBeforeIt) {
  OperationLog log("world", {0}, 0);
  Gated::Gate hangs;
  Gated::Gate goes_on;
  goes_on.open = true;
  Stream first;
  Stream second;
  log.handed_over(log.issued(Sequence::device, operation(1)), first.submit(std::make_unique<Gated>(hangs)));
  log.handed_over(log.issued(Sequence::device, operation(2)),
                  second.submit(std::make_unique<Gated>(goes_on)));
  EXPECT_EQ(state(log, 1), "issued");
  EXPECT_EQ(state(log, 2), "done");
  hangs.open = true;
  EXPECT_EQ(state(log, 1), "done");
}

TEST(OperationLog, AReaderNeverSeesHalfOfAnOperation) {
  OperationLog log("world", {0}, 0);
  constexpr std::uint64_t operations = 20'000;
  std::atomic<std::uint64_t> issued{0};
  std::thread issuer([&] {
    for (std::uint64_t number = 1; number <= operations; ++number) {
      log.issued(Sequence::host, operation(number, static_cast<std::int64_t>(3 * number)));
      issued = number;
    }
  });
  while (issued < operations) {
    const std::uint64_t number = issued;
    const auto found = log.find(number);
    EXPECT_TRUE(!found || found->count == static_cast<std::int64_t>(3 * number)) << number;
  }
  issuer.join();
  EXPECT_EQ(log.find(operations)->count, static_cast<std::int64_t>(3 * operations));
}

}  // namespace
}  // namespace weft::detail
