// What a meter says, against what the ranks did.

#include "weft/collectives/meter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include "collectives/diagnosis/counters.hpp"
#include "support/expect_error.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft {
namespace {

const MetricFamily& family(const std::vector<MetricFamily>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &MetricFamily::name);
  if (found == all.end()) throw std::runtime_error("no family " + std::string(name));
  return *found;
}
double sum_of(const Meter& meter, std::string_view name) {
  double sum = 0;
  const auto all = meter.read();
  for (const auto& sample : family(all, name).samples) sum += sample.value;
  return sum;
}
/// By the value of a label.
std::map<std::string, double> by(const Meter& meter, std::string_view name, std::string_view label) {
  std::map<std::string, double> result;
  const auto all = meter.read();
  for (const auto& sample : family(all, name).samples) {
    for (const auto& one : sample.labels) {
      if (one.name == label) result[one.value] += sample.value;
    }
  }
  return result;
}

TEST(Meter, BytesAreThoseOfTheLedgerByOperationAlsoOfRanksThatShareBytesOddly) {
  run_as_threads(3, [](Communicator comm) {
    const Meter meter = comm.meter();
    std::vector<std::uint8_t> seven(7);
    std::vector<std::uint8_t> three(3);
    const Stream stream;
    for (int i = 0; i < 10; ++i) {
      comm.all_reduce(View(std::span(seven)), ReduceOp::max, stream);  // each sends 2 * 7 * 2/3 bytes
      comm.broadcast(View(std::span(three)), 1, stream);
    }
    Group group(comm);
    group.send(ConstView(std::span<const std::uint8_t>(three)), (comm.rank() + 1) % 3);
    group.receive(View(std::span(seven).first(3)), (comm.rank() + 2) % 3).start(stream).wait();
    Stream(stream).synchronize();
    EXPECT_EQ(sum_of(meter, "weft_wire_bytes_total"), static_cast<double>(comm.wire_bytes()));
    const auto bytes = by(meter, "weft_wire_bytes_total", "op");
    EXPECT_EQ(bytes.at("all_reduce"), 93);  // 93 1/3
    EXPECT_EQ(bytes.at("broadcast"), comm.rank() == 1 ? 60 : 0);
    EXPECT_EQ(bytes.at("send_receive"), 3);
    const auto issued = by(meter, "weft_operations_total", "op");
    EXPECT_EQ(issued.at("all_reduce"), 10);
    EXPECT_EQ(issued.at("send_receive"), 1);
    EXPECT_EQ(issued.at("reduce"), 0);
  });
}

TEST(Meter, KeepsWhatCommunicatorsDidThatAreGone) {
  run_as_threads(2, [](Communicator comm) {
    std::vector<float> data(100);
    const Stream stream;
    std::uint64_t sent = 0;
    {
      auto part = *comm.split(0);
      EXPECT_EQ(part.meter().rank(), comm.rank());
      for (int i = 0; i < 3; ++i) part.all_reduce(View(std::span(data)), ReduceOp::sum, stream).wait();
      sent = part.wire_bytes();
      EXPECT_EQ(by(comm.meter(), "weft_operation_number", "communicator").at("world/1:0"), 3);
    }
    EXPECT_EQ(sent, 1200U);
    EXPECT_EQ(by(comm.meter(), "weft_wire_bytes_total", "op").at("all_reduce"), static_cast<double>(sent));
    EXPECT_FALSE(by(comm.meter(), "weft_operation_number", "communicator").contains("world/1:0"));
  });
}

TEST(Meter, ShowsAnOperationThatWaitsForAnotherRank) {
  run_as_threads(2, [](Communicator comm) {
    const Meter meter = comm.meter();
    const Stream stream = Stream::queued();
    comm.barrier(stream).wait();
    if (comm.rank() == 0) {
      const Work waits = comm.barrier(stream);
      while (sum_of(meter, "weft_oldest_operation_seconds") < 0.02) std::this_thread::yield();
      EXPECT_EQ(sum_of(meter, "weft_operations_under_way"), 1);
      EXPECT_EQ(by(meter, "weft_operation_number", "lane").at("host"), 2);
      comm.meter().step(1);
      waits.wait(Deadline::in(std::chrono::minutes(1)));
    } else {
      // Rank 1 comes when rank 0 has been seen to wait.
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      EXPECT_EQ(by(meter, "weft_operation_number", "lane").at("host"), 1);
      comm.barrier(stream).wait();
    }
    Stream(stream).synchronize();
    EXPECT_EQ(sum_of(meter, "weft_operations_under_way"), 0);
    EXPECT_EQ(sum_of(meter, "weft_oldest_operation_seconds"), 0);
  });
}

TEST(Meter, StepsOfATrainerCountInsteadOfThoseThatPartsFinish) {
  const Communicator comm = self();
  const Meter meter = comm.meter();
  detail::Counters& counters = detail::counters(comm);
  const int first = 0;
  const int second = 0;
  const auto now = std::chrono::steady_clock::now();
  counters.step_finished(&first, now - std::chrono::seconds(2));
  counters.step_finished(&second, now);  // the first one counts, as long as it is there
  counters.step_finished(&first, now);
  EXPECT_EQ(sum_of(meter, "weft_steps_total"), 2);
  EXPECT_GE(sum_of(meter, "weft_step_seconds"), 2);
  counters.leave(&second);
  counters.step_finished(&second, now);
  EXPECT_EQ(sum_of(meter, "weft_steps_total"), 2);
  counters.leave(&first);
  counters.step_finished(&second, std::chrono::steady_clock::now());
  EXPECT_EQ(sum_of(meter, "weft_steps_total"), 3);

  for (const double seconds : {0.001, 0.0011, 3.0, 1000.0}) meter.step(seconds);
  const auto all = meter.read();
  const MetricFamily& steps = family(all, "weft_step_seconds");
  EXPECT_EQ(steps.kind, MetricFamily::Kind::histogram);
  EXPECT_DOUBLE_EQ(steps.samples.front().value, 1003.0021);
  EXPECT_EQ(steps.buckets[0].count, 1U);  // up to 1 ms, which is within
  EXPECT_EQ(steps.buckets[1].count, 2U);
  EXPECT_EQ(steps.buckets[steps.buckets.size() - 2].count, 3U);
  EXPECT_EQ(steps.buckets.back().count, 4U);
  EXPECT_TRUE(std::isinf(steps.buckets.back().upper));
  EXPECT_EQ(sum_of(meter, "weft_steps_total"), 4);
}

TEST(Meter, ShowsNoPartThatIsMoreThanItsWholeWhileBothAreAddedTo) {
  const Communicator comm = self();
  const Meter meter = comm.meter();
  detail::Counters& counters = detail::counters(comm);
  const auto log = std::make_shared<detail::OperationLog>("busy", std::vector<int>{0}, 0);
  counters.add(log);
  // In the order in which reducers and pipelines add: what was sent before what of it were gradients.
  std::atomic<bool> enough{false};
  std::thread adds([&] {
    for (std::uint64_t number = 1; !enough; ++number) {
      log->done_at_once(log->issued(detail::OperationLog::Sequence::host, {.number = number}, 1000));
      counters.gradient_wire_bytes.add(1000);
      for (detail::Seconds* seconds :
           {&counters.accounted, &counters.link_busy, &counters.overlap, &counters.late_wait, &counters.skew,
            &counters.late, &counters.pipeline, &counters.pipeline_waits})
        seconds->add(std::chrono::nanoseconds(1000));
    }
  });
  struct Pair {
    const char* part;
    const char* whole;
  };
  constexpr std::array pairs{Pair{"weft_gradient_wire_bytes_total", "weft_wire_bytes_total"},
                             Pair{"weft_overlap_seconds_total", "weft_link_busy_seconds_total"},
                             Pair{"weft_late_wait_seconds_total", "weft_accounted_seconds_total"},
                             Pair{"weft_late_seconds_total", "weft_arrival_skew_seconds_total"},
                             Pair{"weft_pipeline_wait_seconds_total", "weft_pipeline_seconds_total"}};
  for (int i = 0; i < 2000; ++i) {
    const auto all = meter.read();
    const auto sum = [&all](std::string_view name) {
      double result = 0;
      for (const auto& sample : family(all, name).samples) result += sample.value;
      return result;
    };
    for (const auto& [part, whole] : pairs) EXPECT_LE(sum(part), sum(whole)) << part << " of " << whole;
  }
  EXPECT_GT(sum_of(meter, "weft_gradient_wire_bytes_total"), 0);
  enough = true;
  adds.join();
  counters.end(*log);
}

TEST(Meter, RefusesAccountsOfMoreStepsThanAreKept) {
  const Meter meter = self().meter();
  for (const int steps : {-1, 128})
    test::expect_error(ErrorKind::usage, {"0 (none) to 127"}, [&] { meter.account_every(steps); });
  meter.account_every(127);
}

// "| `weft_steps_total` | counter | Steps of training. |" in docs/metrics.md, in the order of read().
TEST(Meter, IsWhatThePageSays) {
  std::ifstream page(WEFT_SOURCE_DIR "/docs/metrics.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `weft_")) rows.push_back(line);
  }
  std::vector<std::string> expected;
  constexpr std::array kinds{"counter", "gauge", "histogram"};
  for (const MetricFamily& one : self().meter().read()) {
    std::ostringstream row;
    row << "| `" << one.name << "` | " << kinds[static_cast<std::size_t>(one.kind)] << " | " << one.help
        << " |";
    expected.push_back(row.str());
  }
  EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace weft
