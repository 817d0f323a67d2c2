// Streams, events and buffers of a CUDA device, over a fake.

#include <gtest/gtest.h>

#include "core/streams/cuda_stream.hpp"
#include "support/expect_error.hpp"
#include "support/fake_cuda.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

const Deadline soon() {
  return Deadline::in(30s);
}

class CudaStreams : public testing::Test {
 protected:
  WithFakeCuda cuda_;
  std::atomic<bool> open_{false};

  /// Keeps the device busy on this stream until the gate is opened.
  void hold(Stream& stream) {
    stream.run([this, native = native_handle(stream)] {
      FakeCuda::enqueue(native, [this] {
        while (!open_) std::this_thread::yield();
      });
    });
  }
  static void on_device(Stream& stream, std::function<void()> work) {
    stream.run([native = native_handle(stream), work = std::move(work)] { FakeCuda::enqueue(native, work); });
  }
};

TEST_F(CudaStreams, AnEventIsDoneOnlyWhenTheDeviceHasPassedIt) {
  Stream stream(Device::cuda(1));
  EXPECT_EQ(stream.device(), Device::cuda(1));
  bool ran = false;
  hold(stream);
  on_device(stream, [&] { ran = true; });
  const Event event = stream.record();
  EXPECT_TRUE(stream.poll());  // the host has handed over all of it
  EXPECT_FALSE(event.done());
  open_ = true;
  event.wait(soon());
  EXPECT_TRUE(ran);
}

TEST_F(CudaStreams, AStreamWaitsForAnotherOnTheDeviceAndTheHostForNeither) {
  Stream compute(Device::cuda(0));
  Stream wire(Device::cuda(0));
  std::vector<int> order;
  hold(compute);
  on_device(compute, [&] { order.push_back(1); });
  wire.wait(compute.record());
  on_device(wire, [&] { order.push_back(2); });
  compute.wait(wire.record());
  on_device(compute, [&] { order.push_back(3); });
  EXPECT_TRUE(compute.poll() && wire.poll());
  EXPECT_EQ(cuda_->waits, 2);
  open_ = true;
  compute.synchronize(soon());
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST_F(CudaStreams, WhatWaitsForTheHostStaysInTheHostsQueue) {
  class Gate final : public Task {
   public:
    explicit Gate(std::atomic<bool>& open) : open_(open) {}
    bool advance() override { return open_; }

   private:
    std::atomic<bool>& open_;
  };
  Stream host;
  Stream device(Device::cuda(0));
  bool ran = false;
  const Event gate = host.submit(std::make_unique<Gate>(open_));
  device.wait(gate);
  on_device(device, [&] { ran = true; });
  const Event after = device.record();
  EXPECT_FALSE(device.poll());
  EXPECT_FALSE(after.done());
  open_ = true;
  after.wait(soon());
  EXPECT_TRUE(ran);
}

TEST_F(CudaStreams, AHostStreamWaitsForTheDevice) {
  Stream host;
  Stream device(Device::cuda(0));
  std::atomic<bool> written = false;
  bool seen = false;
  hold(device);
  on_device(device, [&] { written = true; });
  host.wait(device.record());
  host.run([&] { seen = written; });
  EXPECT_FALSE(host.poll());
  open_ = true;
  host.synchronize(soon());
  EXPECT_TRUE(seen);
}

TEST_F(CudaStreams, WorkAfterAVoidPlaceFailsAlsoOnStreamsThatWaitedForIt) {
  Stream wire(Device::cuda(0));
  Stream compute(Device::cuda(0));
  Stream bystander(Device::cuda(0));
  on_device(wire, [] {});
  const Event good = wire.record();
  const auto place = detail::cuda::timeline_of(wire).mark()->place();
  on_device(wire, [] {});
  const Event bad = wire.record();
  compute.wait(good);
  on_device(compute, [] {});
  const Event still_good = compute.record();
  hold(wire);
  compute.wait(wire.record());
  on_device(compute, [] {});
  const Event spoilt = compute.record();
  bystander.wait(spoilt);
  const Event spoilt_too = bystander.record();

  detail::cuda::timeline_of(wire).fail_after(
      place, std::make_exception_ptr(Error(ErrorKind::timeout, "rank 1 did not come")));
  open_ = true;
  good.wait(soon());
  still_good.wait(soon());
  expect_error(ErrorKind::timeout, {"rank 1 did not come"}, [&] { bad.wait(soon()); });
  expect_error(ErrorKind::timeout, {"rank 1 did not come"}, [&] { spoilt.wait(soon()); });
  expect_error(ErrorKind::timeout, {"rank 1 did not come"}, [&] { spoilt_too.wait(soon()); });
  expect_error(ErrorKind::timeout, {"rank 1 did not come"}, [&] { compute.synchronize(soon()); });
}

TEST_F(CudaStreams, WhatTheDriverRefusesIsTheStreamsError) {
  Stream stream(Device::cuda(0));
  cuda_->refuse_next("copy");
  Buffer a = Buffer::on(Device::cuda(0), DataType::f32, 4);
  Buffer b = Buffer::on(Device::cuda(0), DataType::f32, 4);
  copy(a.view(), b.view(), stream);
  bool ran = false;
  stream.run([&] { ran = true; });
  expect_error(ErrorKind::system, {"refuses copy"}, [&] { stream.synchronize(soon()); });
  EXPECT_FALSE(ran);
}

TEST_F(CudaStreams, WhatFailsOnTheDeviceFailsTheWait) {
  Stream stream(Device::cuda(0));
  on_device(stream, [] {});
  cuda_->break_device();
  expect_error(ErrorKind::system, {"work on a stream failed"}, [&] { stream.synchronize(soon()); });
}

TEST_F(CudaStreams, AStreamsEndWaitsForItsWork) {
  std::atomic<bool> ran = false;
  {
    Stream stream(Device::cuda(0));
    on_device(stream, [&] {
      std::this_thread::sleep_for(20ms);
      ran = true;
    });
  }
  EXPECT_TRUE(ran);
  EXPECT_EQ(cuda_->streams, 0);
}

TEST_F(CudaStreams, AFunctionIsCalledWhenTheHostAsksAfterTheDeviceHasPassedItsEvent) {
  Stream stream(Device::cuda(0));
  hold(stream);
  const Event first = stream.record();
  on_device(stream, [] {});
  const Event second = stream.record();
  std::vector<int> order;
  second.then([&] { order.push_back(2); });
  first.then([&] { order.push_back(1); });
  EXPECT_FALSE(first.done());
  EXPECT_TRUE(order.empty());
  open_ = true;
  while (!first.done()) std::this_thread::yield();
  EXPECT_EQ(order.back(), 1);
  while (order.size() < 2) stream.poll();  // the stream asks for events of which the program has none left
  first.then([&] { order.push_back(3); });
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST_F(CudaStreams, AFunctionIsCalledWhereOnlyALaterEventOrTheEndOfTheStreamIsWaitedFor) {
  int calls = 0;
  {
    Stream stream(Device::cuda(0));
    hold(stream);
    on_device(stream, [] {});
    stream.record().then([&] { ++calls; });
    on_device(stream, [] {});
    open_ = true;
    stream.synchronize(soon());
    EXPECT_EQ(calls, 1);
    open_ = false;
    hold(stream);
    stream.record().then([&] { ++calls; });
    EXPECT_EQ(calls, 1);
    open_ = true;
  }
  EXPECT_EQ(calls, 2);
}

TEST_F(CudaStreams, AFunctionIsCalledForWorkThatIsVoidAndForWorkThatTheHostNeverHandedOver) {
  Stream stream(Device::cuda(0));
  hold(stream);
  const Event before = stream.record();
  detail::cuda::timeline_of(stream).fail_after(
      1, std::make_exception_ptr(Error(ErrorKind::peer_lost, "rank 1 has died")));
  on_device(stream, [] {});
  const Event voided = stream.record();
  int calls = 0;
  voided.then([&] {
    EXPECT_TRUE(voided.error());
    ++calls;
  });
  open_ = true;
  expect_error(ErrorKind::peer_lost, {"rank 1 has died"}, [&] { voided.wait(soon()); });
  EXPECT_EQ(calls, 1);
  stream.run([] { throw Error(ErrorKind::system, "no memory"); });
  const Event failed = stream.record();
  failed.then([&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST_F(CudaStreams, EventsAreUsedAgain) {
  Stream a(Device::cuda(0));
  Stream b(Device::cuda(0));
  for (int step = 0; step < 1000; ++step) {
    on_device(a, [] {});
    b.wait(a.record());
    on_device(b, [] {});
    a.wait(b.record());
    if (step % 50 == 0) a.synchronize(soon());
  }
  a.synchronize(soon());
  EXPECT_LT(cuda_->events_made, 1000);
}

TEST_F(CudaStreams, AnAdoptedStreamIsUsedAndLeftAlone) {
  const auto native = cuda_->make_stream(0);
  bool ran = false;
  {
    Stream stream = adopt_stream(native, Device::cuda(0));
    EXPECT_EQ(native_handle(stream), native);
    FakeCuda::enqueue(native, [&] { ran = true; });  // by its owner
    stream.record().wait(soon());
    EXPECT_TRUE(ran);
  }
  EXPECT_EQ(cuda_->streams, 1);
  cuda_->destroy(native);
  expect_error(ErrorKind::usage, {"adopted as a stream of the host"},
               [&] { adopt_stream(native, Device::host()); });
}

// Null, which PyTorch's current stream is at first: work of others and weft's are in one order, on the device that was named.
TEST_F(CudaStreams, TheDefaultStreamIsAdoptedAndNotAnotherOne) {
  std::atomic<int> ran = 0;
  {
    Stream stream = adopt_stream(nullptr, Device::cuda(3));
    EXPECT_EQ(native_handle(stream), nullptr);
    EXPECT_EQ(cuda_->streams, 0);
    {
      const detail::cuda::Current current(*detail::cuda::runtime(), 3);
      FakeCuda::enqueue(nullptr, [&] {
        std::this_thread::sleep_for(20ms);
        ++ran;
      });
    }
    stream.record().wait(soon());
    EXPECT_EQ(ran, 1);
    Stream other(Device::cuda(3));
    other.wait(stream.record());
    stream.wait(other.record());
    stream.synchronize(soon());
  }
  EXPECT_EQ(cuda_->current(), 0);
  expect_error(ErrorKind::usage, {"per-thread default stream", "another stream on every thread"},
               [&] { adopt_stream(reinterpret_cast<CUstream_st*>(2), Device::cuda(0)); });  // NOLINT
}

TEST_F(CudaStreams, OnesOfAnotherDeviceAreNotAdopted) {
  const auto native = cuda_->make_stream(2);
  expect_error(ErrorKind::usage, {"a CUDA stream of another device adopted as one of cuda:1"},
               [&] { adopt_stream(native, Device::cuda(1)); });
  EXPECT_EQ(adopt_stream(native, Device::cuda(2)).device(), Device::cuda(2));
  cuda_->destroy(native);
}

TEST_F(CudaStreams, WorkIsRefusedWhileTheyAreCaptured) {
  Stream stream(Device::cuda(0));
  Stream other(Device::cuda(0));
  Buffer data = Buffer::on(Device::cuda(0), DataType::f32, 3);
  FakeCuda::capture(native_handle(stream), true);
  const auto refused = [](auto work) {
    expect_error(ErrorKind::usage, {"a stream of cuda:0 that is being captured into a CUDA graph"}, work);
  };
  refused([&] { detail::fill(data.view(), 1, stream); });
  refused([&] { other.wait(stream.record()); });
  FakeCuda::capture(native_handle(stream), false);
  detail::fill(data.view(), 1, stream);  // nothing of it stays
  stream.synchronize(soon());
}

TEST_F(CudaStreams, CopiesGoBothWays) {
  Stream stream(Device::cuda(0));
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out(3);
  Buffer device = Buffer::on(Device::cuda(0), DataType::f32, 3);
  EXPECT_EQ(device.view().device(), Device::cuda(0));
  expect_error(ErrorKind::usage, {"view on cuda:0 read as f32 on the host"}, [&] { device.as<float>(); });
  copy(device.view(), ConstView(std::span(in)), stream);
  detail::divide(device.view(), 2, stream);
  copy(View(std::span(out)), device.view(), stream);
  stream.synchronize(soon());
  EXPECT_EQ(out, (std::vector{0.5F, 1.0F, 1.5F}));
}

TEST_F(CudaStreams, MemoryAndStreamsThatDoNotMatchAreRefused) {
  Stream host;
  Stream device(Device::cuda(0));
  Buffer on_device = Buffer::on(Device::cuda(0), DataType::f32, 2);
  Buffer on_host = Buffer::on_host(DataType::f32, 2);
  Buffer longer = Buffer::on_host(DataType::f32, 3);
  expect_error(ErrorKind::usage,
               {"from host to cuda:0 on a stream of host", "use a stream of the CUDA device"},
               [&] { copy(on_device.view(), on_host.view(), host); });
  expect_error(ErrorKind::usage, {"from host to host on a stream of cuda:0"},
               [&] { copy(on_host.view(), on_host.view(), device); });
  expect_error(ErrorKind::usage, {"copy of 3 f32 to 2 f32"},
               [&] { copy(on_host.view(), longer.view(), host); });
  expect_error(ErrorKind::usage, {"divide of memory on cuda:0 on a stream of host"},
               [&] { detail::divide(on_device.view(), 2, host); });
  expect_error(ErrorKind::usage, {"a host stream where a stream of a CUDA device"},
               [&] { native_handle(host); });
}

TEST_F(CudaStreams, ADeviceThatIsNotThereOrFullIsRefused) {
  expect_error(ErrorKind::usage, {"cuda:8 of 8 device(s)", "CUDA_VISIBLE_DEVICES"},
               [] { Stream(Device::cuda(8)); });
  cuda_->memory = 100;
  expect_error(ErrorKind::system, {"cannot allocate 400 bytes on cuda:2"},
               [] { Buffer::on(Device::cuda(2), DataType::f32, 100); });
  expect_error(ErrorKind::usage, {"-1 elements"}, [] { Buffer::on(Device::cuda(0), DataType::f32, -1); });
  cuda_->refuse_next("devices");
  expect_error(ErrorKind::system, {"refuses devices"}, [] { Stream(Device::cuda(0)); });
  EXPECT_EQ(cuda_->allocated, 0U);
}

TEST(CudaWithoutADevice, SaysWhyAndWhatToDo) {
  try {
    detail::cuda::runtime()->devices();
    GTEST_SKIP() << "this machine has a device";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("CUDA"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("; "), std::string::npos) << "no advice: " << error.what();
  }
}

}  // namespace
}  // namespace weft::test
