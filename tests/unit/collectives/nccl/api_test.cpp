#include "collectives/nccl/api.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "fake_nccl.hpp"
#include "support/expect_error.hpp"

#if WEFT_HAS_NCCL_HEADER
#include <nccl.h>
#endif

namespace weft::detail::nccl {
namespace {

using test::expect_error;

TEST(NcclApi, HasWhatTheLibrarysVersionHas) {
  struct Case {
    int version;
    bool memory, shrink, revoke;
  };
  for (const Case& one :
       {Case{21801, false, false, false}, Case{21900, true, false, false}, Case{22700, true, true, false},
        Case{22806, true, true, false}, Case{22807, true, true, true}, Case{23007, true, true, true}}) {
    FakeNccl fake(one.version);
    const auto api = fake.api();
    EXPECT_EQ(api->version, one.version);
    EXPECT_NE(api->AllReduce, nullptr);
    EXPECT_EQ(api->MemAlloc != nullptr, one.memory) << one.version;
    EXPECT_EQ(api->CommShrink != nullptr, one.shrink) << one.version;
    EXPECT_EQ(api->CommRevoke != nullptr, one.revoke) << one.version;
  }
}

TEST(NcclApi, SaysWhatIsMissingAndWhatToDo) {
  expect_error(ErrorKind::system, {"NCCL cannot be loaded", "/no/such/libnccl.so", "LD_LIBRARY_PATH"},
               [] { Api::load("/no/such/libnccl.so"); });
  expect_error(ErrorKind::system, {"an empty library does not say"},
               [] { Api::load([](const char*) { return nullptr; }, "an empty library"); });
  FakeNccl old(21703);
  expect_error(ErrorKind::system, {"the fake is NCCL 2.17.3", "older than 2.18.0", "install NCCL 2.18"},
               [&] { old.api(); });
  FakeNccl damaged(22809);
  damaged.hide("CommShrink");
  expect_error(ErrorKind::system, {"NCCL 2.28.9", "no ncclCommShrink", "2.27.0"}, [&] { damaged.api(); });
}

TEST(NcclApi, AConfigIsAsLongAsTheLibraryUnderstands) {
  EXPECT_EQ(Config::for_library(21801).size, offsetof(Config, traffic_class));
  EXPECT_EQ(Config::for_library(22602).size, offsetof(Config, comm_name));
  EXPECT_EQ(Config::for_library(22703).size, offsetof(Config, channels_per_net_peer));
  EXPECT_EQ(Config::for_library(22809).size, sizeof(Config));
  EXPECT_EQ(Config::for_library(21801).version, 21801U);
  EXPECT_EQ(Config::for_library(23007).version, 22809U);
}

TEST(NcclApi, TheLibraryOfThisMachineLoads) {
  void* present = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (present == nullptr) GTEST_SKIP() << "there is no libnccl.so.2 here";
  const auto api = Api::load();
  EXPECT_GE(api->version, oldest_version);
  EXPECT_STREQ(api->GetErrorString(success), "no error");
}

#if WEFT_HAS_NCCL_HEADER
// The binary interface as written down against the one of the header that is here.
TEST(NcclApi, IsTheInterfaceOfTheHeader) {
  static_assert(int{success} == ncclSuccess && int{in_progress} == ncclInProgress);
  static_assert(int{remote_error} == ncclRemoteError && int{invalid_usage} == ncclInvalidUsage);
  static_assert(int{u8} == ncclUint8 && int{bf16} == ncclBfloat16 && int{f64} == ncclFloat64);
  static_assert(int{sum} == ncclSum && int{max} == ncclMax && int{min} == ncclMin && int{avg} == ncclAvg);
  static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  static_assert(offsetof(Config, nvlink_centric_schedule) == offsetof(ncclConfig_t, nvlinkCentricSched));
  static_assert(offsetof(Config, comm_name) == offsetof(ncclConfig_t, commName));
#endif
  static_assert(offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(Config().magic, theirs.magic);
  EXPECT_EQ(Config::undefined, theirs.blocking);
  EXPECT_EQ(version_code(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_VERSION_CODE);
}
#endif

}  // namespace
}  // namespace weft::detail::nccl
