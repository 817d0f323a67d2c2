// Structures that begin with their size: of this version, of a newer one, of an older one.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "c/call.hpp"
#include "unit/c/some_of_each.hpp"

namespace weft::test {
namespace {

/// Calls `call` with this structure as programs of other versions have it. @param name of the structure
template <class Options, class Call>
void expect_only_its_size(Options options, const std::string& name, Call call) {
  SCOPED_TRACE(name);
  options.size = sizeof options;
  expect_ok(call(&options));
  const std::string knows = "; this libweft knows " + std::string(text(sizeof options));
  for (const std::size_t smaller :
       {std::size_t{0}, std::size_t{1}, sizeof(std::size_t), sizeof options - 1}) {
    options.size = smaller;
    EXPECT_EQ(call(&options), WEFT_USAGE) << smaller;
    expect_said("a " + name + " whose size is " + std::string(text(smaller)) + " bytes" + knows);
    expect_said(".size = sizeof(" + name + ")");
  }
  std::vector<std::byte> newer(sizeof options + 8);  // with a field that this library does not know
  for (const std::size_t larger : {sizeof options + 8, ~std::size_t{0}}) {
    options.size = larger;
    std::memcpy(newer.data(), &options, sizeof options);
    EXPECT_EQ(call(reinterpret_cast<const Options*>(newer.data())), WEFT_USAGE) << larger;
    expect_said("compiled with the weft.h of a newer version");
  }
}

TEST(OptionsInC, AStructureOfAnotherSizeIsRefusedWithBoth) {
  const SomeOfEach some;
  weft_world_options_t of_one_rank{};
  of_one_rank.ranks = 1;
  expect_only_its_size(of_one_rank, "weft_world_options_t", [](const weft_world_options_t* options) {
    weft_world_t world = nullptr;
    const weft_status_t status = weft_world_from_environment(options, &world);
    expect_ok(weft_world_free(world));
    return status;
  });
  expect_only_its_size(weft_connect_options_t{}, "weft_connect_options_t",
                       [&](const weft_connect_options_t* options) {
                         weft_comm_t comm = nullptr;
                         const weft_status_t status = weft_comm_connect(some.world, options, &comm);
                         expect_ok(weft_comm_free(comm));
                         return status;
                       });
  expect_only_its_size(weft_threads_options_t{}, "weft_threads_options_t",
                       [](const weft_threads_options_t* options) {
                         return weft_comm_run_as_threads(
                             1, options, [](weft_comm_t, void*) { return int{WEFT_OK}; }, nullptr);
                       });
  expect_only_its_size(
      weft_reducer_options_t{}, "weft_reducer_options_t", [&](const weft_reducer_options_t* options) {
        weft_reducer_t reducer = nullptr;
        const weft_status_t status = weft_reducer_create(some.comm, some.layout, options, &reducer);
        expect_ok(weft_reducer_free(reducer));
        return status;
      });
  expect_only_its_size(weft_zero_options_t{}, "weft_zero_options_t", [&](const weft_zero_options_t* options) {
    weft_zero_t zero = nullptr;
    const weft_status_t status = weft_zero_create(some.comm, some.layout, options, &zero);
    expect_ok(weft_zero_free(zero));
    return status;
  });
  expect_only_its_size(weft_checkpointer_options_t{}, "weft_checkpointer_options_t",
                       [&](const weft_checkpointer_options_t* options) {
                         weft_checkpointer_t checkpointer = nullptr;
                         const weft_status_t status =
                             weft_checkpointer_create(some.comm, options, &checkpointer);
                         expect_ok(weft_checkpointer_free(checkpointer));
                         return status;
                       });
}

struct Grown {
  std::size_t size;
  int first, second;
};

TEST(OptionsInC, AnOlderSizeThatThereWasHasZerosForWhatCameSince) {
  const Grown older{16 - sizeof(int), 7, 9};
  const Grown read = c::options_of(&older, "grown", {16 - sizeof(int)});
  EXPECT_EQ(read.first, 7);
  EXPECT_EQ(read.second, 0);
  EXPECT_THROW(c::options_of(&older, "grown", {8}), Error);
  EXPECT_EQ(c::options_of<Grown>(nullptr, "grown").first, 0);
}

TEST(OptionsInC, FieldsOutOfRangeAreNamed) {
  const SomeOfEach some;
  weft_world_t world = nullptr;
  const auto refused = [&](auto change, const std::string& said) {
    weft_world_options_t options{};
    options.size = sizeof options;
    change(options);
    EXPECT_EQ(weft_world_from_environment(&options, &world), WEFT_USAGE);
    expect_said(said);
  };
  refused([](auto& options) { options.rank = 1; }, "`rank` is 1 and `ranks` is 0");
  refused([](auto& options) { options.rank = 2, options.ranks = 2; }, "2");
  refused([](auto& options) { options.ranks = -1; }, "-1");
  refused([](auto& options) { options.ranks = 1, options.timeout = -1; }, "`timeout` is -1 s");
  refused([](auto& options) { options.ranks = 1, options.connect_timeout = -1; },
          "`connect_timeout` is -1 s");
  refused([](auto& options) { options.ranks = 1, options.device = "toaster"; }, "toaster");
  weft_connect_options_t options{};
  options.size = sizeof options;
  options.order = 3;
  weft_comm_t comm = nullptr;
  EXPECT_EQ(weft_comm_connect(some.world, &options, &comm), WEFT_USAGE);
  expect_said("`order` is 3");
}

}  // namespace
}  // namespace weft::test
