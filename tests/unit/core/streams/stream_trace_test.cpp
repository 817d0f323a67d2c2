#include "weft/core/stream_trace.hpp"

#include <gtest/gtest.h>

#include "core/cuda/timing.hpp"
#include "support/fake_cuda.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

std::size_t place(const std::string& json, const std::string& name) {
  return json.find("\"name\":\"" + name + "\"");
}

TEST(StreamTrace, ASpanEndsWhereTheNextBegins) {
  for (const bool queued : {false, true}) {
    const auto trace = std::make_shared<Trace>();
    Stream stream = queued ? Stream::queued() : Stream();
    StreamTrace spans(trace, stream.device(), "compute");
    spans.begin(stream, "forward");
    stream.run([] { std::this_thread::sleep_for(1ms); });
    spans.begin(stream, "backward");
    spans.end(stream);
    spans.end(stream);  // nothing is open
    stream.synchronize();
    EXPECT_EQ(trace->size(), 2U);
    EXPECT_LT(place(trace->json(), "forward"), place(trace->json(), "backward"));
  }
}

TEST(StreamTrace, WithoutATraceNothingIsSubmitted) {
  Stream stream;
  StreamTrace nothing;
  StreamTrace no_trace(nullptr, stream.device(), "compute");
  for (StreamTrace* one : {&nothing, &no_trace}) {
    one->begin(stream, "forward");
    one->end(stream);
  }
  EXPECT_TRUE(stream.record().done());
}

TEST(StreamTrace, OfADeviceIsReadWhenTheDeviceHasPassed) {
  const WithFakeCuda cuda;
  const auto trace = std::make_shared<Trace>();
  std::atomic<bool> open = false;
  {
    Stream stream(Device::cuda(0));
    StreamTrace spans(trace, stream.device(), "compute");
    spans.begin(stream, "held");
    stream.run([&] {
      FakeCuda::enqueue(native_handle(stream), [&] {
        while (!open) std::this_thread::yield();
      });
    });
    spans.begin(stream, "after");
    spans.end(stream);
    EXPECT_EQ(trace->size(), 0U);  // the host has not waited
    open = true;
    stream.synchronize();
    for (int step = 0; step < 200; ++step) {
      spans.begin(stream, "step");
      if (step % 20 == 0) stream.synchronize();
    }
    spans.end(stream);
    stream.synchronize();
  }
  EXPECT_EQ(trace->size(), 202U);
  EXPECT_LT(place(trace->json(), "held"), place(trace->json(), "after"));
  EXPECT_LT(cuda->events_made, 200);
}

TEST(StreamTrace, AMarkThatWaitsInTheHostsQueueIsNotPassed) {
  const WithFakeCuda cuda;
  class Gate final : public Task {
   public:
    explicit Gate(std::atomic<bool>& open) : open_(open) {}
    bool advance() override { return open_; }

   private:
    std::atomic<bool>& open_;
  };
  std::atomic<bool> open = false;
  Stream host;
  Stream device(Device::cuda(0));
  detail::cuda::Stopwatch stopwatch;
  device.wait(host.submit(std::make_unique<Gate>(open)));
  stopwatch.start(device);
  stopwatch.stop(device);
  EXPECT_EQ(stopwatch.seconds(), 0);  // CUDA takes an event that was never recorded for passed
  open = true;
  device.synchronize(Deadline::in(10s));
  EXPECT_GT(stopwatch.seconds(), 0);
}

}  // namespace
}  // namespace weft::test
