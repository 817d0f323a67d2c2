#include "collectives/bootstrap/device_choice.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/expect_error.hpp"
#include "support/fake_cuda.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::detail {
namespace {

using test::expect_error;
using test::WithFakeCuda;

Device choose(const Environment::Values& values, int local_rank = 0) {
  return choose_device(Environment(values), [local_rank] { return local_rank; });
}

TEST(DeviceChoice, IsTheHostUnlessAskedOtherwise) {
  EXPECT_EQ(choose({}), Device::host());
  EXPECT_EQ(choose({{"WEFT_DEVICE", "host"}}), Device::host());
}

TEST(DeviceChoice, IsTheRanksOwnOrTheOneThatIsNamed) {
  const WithFakeCuda two(2);
  EXPECT_EQ(choose({{"WEFT_DEVICE", "cuda"}}, 1), Device::cuda(1));
  EXPECT_EQ(choose({{"WEFT_DEVICE", "cuda:0"}}, 1), Device::cuda(0));
  EXPECT_EQ(choose({{"WEFT_DEVICE", "cuda"}, {"WEFT_SHARE_DEVICE", "1"}}, 3), Device::cuda(1));
}

TEST(DeviceChoice, RefusesWhatIsNotThere) {
  const WithFakeCuda two(2);
  expect_error(ErrorKind::usage, {"number 2 on its node", "has 2 device(s)", "WEFT_SHARE_DEVICE"}, [] {
    choose({{"WEFT_DEVICE", "cuda"}}, 2);
  });
  expect_error(ErrorKind::usage, {"WEFT_DEVICE=cuda:2", "has 2 device(s)"}, [] {
    choose({{"WEFT_DEVICE", "cuda:2"}});
  });
  for (const char* wrong : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "c"}) {
    expect_error(ErrorKind::usage, {text("WEFT_DEVICE=", wrong), "host, cuda, cuda:N"}, [&] {
      choose({{"WEFT_DEVICE", wrong}});
    });
  }
  const WithFakeCuda none(0);
  expect_error(ErrorKind::usage, {"has 0 device(s)"}, [] {
    choose({{"WEFT_DEVICE", "cuda"}, {"WEFT_SHARE_DEVICE", "1"}});
  });
}

TEST(Places, TravelAsNotes) {
  const WithFakeCuda fake;
  const Place there = Place::from(Place::of("a host 3:7", Device::cuda(1)).note());
  EXPECT_EQ(there.host_id, "a host 3:7");
  EXPECT_EQ(there.device, "fake 1");
  EXPECT_EQ(Place::from(Place::of("h", Device::host()).note()).device, "host");
}

TEST(Places, OneDeviceAndAMixtureAreRefused) {
  EXPECT_FALSE(check_places({{"a", "host"}, {"a", "host"}}, false));
  EXPECT_FALSE(check_places({{"a", "1"}, {"b", "1"}, {"a", "2"}}, false));
  EXPECT_TRUE(check_places({{"a", "1"}, {"b", "1"}, {"a", "1"}}, true));
  expect_error(ErrorKind::usage, {"ranks 0 and 2 use the same CUDA device (1)", "WEFT_SHARE_DEVICE"}, [] {
    check_places({{"a", "1"}, {"b", "1"}, {"a", "1"}}, false);
  });
  expect_error(ErrorKind::mismatch, {"rank 0 computes on the host and rank 1 on a CUDA device"}, [] {
    check_places({{"a", "host"}, {"a", "1"}}, false);
  });
  expect_error(ErrorKind::mismatch, {"rank 0 computes on a CUDA device and rank 2 on the host"}, [] {
    check_places({{"a", "1"}, {"a", "2"}, {"a", "host"}}, true);
  });
}

TEST(Places, ConnectWithoutNcclSaysWhatToInstall) {
  const WithFakeCuda fake;
  const World world =
      World::over(make_store_rendezvous(make_memory_store(), "world", 0, 1), {},
                  Environment({{"WEFT_DEVICE", "cuda"}, {"WEFT_NCCL_LIBRARY", "/no/such/libnccl.so"}}));
  EXPECT_EQ(world.device(), Device::cuda(0));
  expect_error(ErrorKind::system, {"NCCL cannot be loaded", "/no/such/libnccl.so", "install NCCL 2.18"},
               [&] { connect(world); });
}

}  // namespace
}  // namespace weft::detail
