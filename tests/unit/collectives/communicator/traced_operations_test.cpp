// A trace must not change the path that it traces: an operation that completes in its call without a trace
// does so with one, and has its span.

#include <gtest/gtest.h>

#include "collectives/communicator/communicator_state.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "core/streams/stream_state.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

struct Rank {
  std::shared_ptr<Trace> trace = std::make_shared<Trace>();
  std::shared_ptr<FlightRecorder> recorder = std::make_shared<FlightRecorder>(0, 1, "");
  std::vector<float> values{1, 2, 3};
  View view{std::span(values)};
  Communicator comm = made(trace, recorder);

  static Communicator made(const std::shared_ptr<Trace>& trace,
                           const std::shared_ptr<FlightRecorder>& recorder) {
    auto rendezvous = make_store_rendezvous(make_memory_store(), "traced", 0, 1);
    auto backend = make_threads_backend(rendezvous, {.timeout = 1min});
    return make_communicator(backend, rendezvous, Topology({"here"}), 1min, trace, {.recorder = recorder});
  }
  std::string spans() const { return trace->events(0, 0ns); }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TracedOperations, CompleteInTheCallOnAnInlineStreamAndHaveTheirSpan) {
  Rank rank;
  const Stream stream;
  const Work work = rank.comm.all_reduce(rank.view, ReduceOp::sum, stream);
  // Only what does not complete in its call is worth a time in the record.
  EXPECT_TRUE(has(rank.recorder->json("test"), R"("state":"done","issued_ns":0,"begun_ns":0,"ended_ns":0)"));
  EXPECT_TRUE(StreamAccess::state(stream)->takes_work_at_once());
  EXPECT_TRUE(has(rank.spans(), "all_reduce #1"));
  EXPECT_TRUE(work.done());
}

TEST(TracedOperations, HaveOneSpanEachOnAQueuedStreamToo) {
  Rank rank;
  const Stream stream = Stream::queued();
  for (int i = 0; i < 2; ++i) rank.comm.all_reduce(rank.view, ReduceOp::sum, stream).wait();
  const std::string spans = rank.spans();
  for (const char* const name : {"all_reduce #1", "all_reduce #2"}) {
    EXPECT_TRUE(has(spans, name));
    EXPECT_EQ(spans.find(name), spans.rfind(name));
  }
}

}  // namespace
}  // namespace weft::detail
