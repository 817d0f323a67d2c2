#include "weft/pipeline/tied_gradients.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>

#include "support/expect_error.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {
namespace {

using Values = std::vector<float>;

/// Values whose sum depends on the order.
Values values_of(int parameter, int stage, int step, std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  std::uint32_t bits = 2654435761U * static_cast<std::uint32_t>(1 + parameter + 10 * stage + 100 * step);
  for (float& value : values) {
    bits = bits * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(bits >> 8U)) * (bits % 7 == 0 ? 1e-3F : 1e-7F);
  }
  return values;
}

/// The sum in the given order, from the left.
Values sum_of(const std::vector<Values>& all) {
  Values sum = all.front();
  for (std::size_t k = 1; k < all.size(); ++k) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += all[k][i];
  }
  return sum;
}

/// The copies of one device's stages, and their values before the sum.
class Copies {
 public:
  Copies(const std::vector<TiedParameter>& tied, const std::vector<int>& device_of, int device)
      : tied_(tied) {
    for (int parameter = 0; parameter < static_cast<int>(tied.size()); ++parameter) {
      for (const int stage : tied[static_cast<std::size_t>(parameter)].stages) {
        if (device_of[static_cast<std::size_t>(stage)] == device) places_.emplace_back(parameter, stage);
      }
    }
  }
  using Place = std::pair<int, int>;  // parameter, stage
  const std::vector<Place>& places() const { return places_; }
  void fill(int step) {
    for (const auto& [parameter, stage] : places_)
      values_[{parameter, stage}] =
          values_of(parameter, stage, step, tied_[static_cast<std::size_t>(parameter)].count);
  }
  View at(const Place& place) { return View(std::span(values_[place])); }
  const Values& of(const Place& place) { return values_[place]; }

 private:
  std::vector<TiedParameter> tied_;
  std::vector<Place> places_;
  std::map<Place, Values> values_;
};

struct Job {
  std::vector<int> device_of;
  std::vector<TiedParameter> tied;
  int steps = 3;
  bool queued = false;
  bool shared_memory = true;
  /// Devices begin and await in orders of their own.
  bool shuffled = false;

  int devices() const { return *std::ranges::max_element(device_of) + 1; }

  /// The expected sum: the stages of each device first, then devices in the order of their first stages.
  Values expected(int parameter, int step) const {
    const TiedParameter& of = tied[static_cast<std::size_t>(parameter)];
    std::map<int, int> first_stage;  // of each device
    std::map<int, std::vector<Values>> by_first_stage;
    for (const int stage : of.stages) {
      const int first = first_stage.emplace(device_of[static_cast<std::size_t>(stage)], stage).first->second;
      by_first_stage[first].push_back(values_of(parameter, stage, step, of.count));
    }
    std::vector<Values> sums;
    for (const auto& [first, values] : by_first_stage) sums.push_back(sum_of(values));
    return sum_of(sums);
  }

  void run() const {
    run_as_threads(devices(),
                   [&](Communicator comm) {
                     TiedGradients sums(comm, device_of, tied);
                     Copies copies(tied, device_of, comm.rank());
                     Stream compute = queued ? Stream::queued() : Stream();
                     for (int step = 0; step < steps; ++step) {
                       copies.fill(step);
                       auto order = copies.places();
                       const auto turn = [&](int by) {
                         if (!order.empty() && shuffled)
                           std::ranges::rotate(order, order.begin() + (comm.rank() + by) % std::ssize(order));
                       };
                       turn(step);
                       for (const auto& place : order)
                         sums.begin(place.first, place.second, copies.at(place), compute);
                       turn(1);
                       for (const auto& place : order) sums.await(place.first, place.second, compute);
                       compute.synchronize();
                       for (const auto& place : order)
                         EXPECT_EQ(copies.of(place) == expected(place.first, step), true)
                             << "parameter " << place.first << ", stage " << place.second << ", step "
                             << step;
                     }
                   },
                   {.timeout = std::chrono::seconds(20), .shared_memory = shared_memory});
  }
};

TiedParameter tied(std::string name, std::int64_t count, std::vector<int> stages) {
  return {std::move(name), DataType::f32, count, std::move(stages)};
}

TEST(TiedGradients, AreTheSumOfBothCopiesOnBothDevices) {
  for (const std::int64_t count : {1, 100, 100'000}) {
    for (const int devices : {2, 4})
      Job{looped_placement(devices), {tied("w", count, {0, devices - 1})}}.run();
  }
}

TEST(TiedGradients, AreSummedInTheOrderOfStages) {
  Job{looped_placement(4), {tied("w", 5000, {0, 1, 3})}}.run();
  // Device 2 has stage 0 here.
  Job{{2, 1, 0}, {tied("w", 5000, {0, 1, 2})}}.run();
}

TEST(TiedGradients, OfCopiesOnOneDeviceAreSummedThere) {
  Job{v_placement(2), {tied("w", 5000, {0, 3})}}.run();
  Job{{0, 0, 0}, {tied("w", 5000, {0, 1, 2})}}.run();
  Job{v_placement(3), {tied("w", 5000, {0, 1, 5}), tied("v", 77, {1, 2, 3, 4})}}.run();
}

TEST(TiedGradients, MayBeginAndBeAwaitedInAnyOrder) {
  const std::vector<TiedParameter> all{tied("a", 3, {0, 3}), tied("b", 70'000, {0, 3}),
                                       tied("c", 900, {1, 3}), tied("d", 20'000, {0, 1, 2, 3})};
  for (const bool queued : {false, true}) {
    for (const bool shared : {false, true}) Job{looped_placement(4), all, 8, queued, shared, true}.run();
  }
  Job{v_placement(2), all, 8, false, true, true}.run();
}

TEST(TiedGradients, NeitherBeginNorAwaitBlocks) {
  std::promise<void> gone_on;
  run_as_threads(2, [&](Communicator comm) {
    TiedGradients sums(comm, {0, 1}, {tied("w", 10'000, {0, 1})});
    Values gradient = values_of(0, comm.rank(), 0, 10'000);
    Stream compute;
    bool is_after = false;
    if (comm.rank() == 1) {
      ASSERT_EQ(gone_on.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    }
    sums.begin(0, comm.rank(), View(std::span(gradient)), compute);
    sums.await(0, comm.rank(), compute);
    compute.run([&] { is_after = true; });
    if (comm.rank() == 0) {
      EXPECT_FALSE(is_after);
      gone_on.set_value();
    }
    compute.synchronize();
    EXPECT_TRUE(is_after);
    EXPECT_EQ(gradient == sum_of({values_of(0, 0, 0, 10'000), values_of(0, 1, 0, 10'000)}), true);
  });
}

TEST(TiedGradients, WaitForComputeBeforeTheyAreSummed) {
  run_as_threads(2, [&](Communicator comm) {
    TiedGradients sums(comm, {0, 1}, {tied("w", 100, {0, 1})});
    Values gradient(100);
    Stream compute = Stream::queued();
    compute.run([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::ranges::fill(gradient, 1.5F);
    });
    sums.begin(0, comm.rank(), View(std::span(gradient)), compute);
    sums.await(0, comm.rank(), compute);
    compute.synchronize();
    EXPECT_EQ(gradient, Values(100, 3.0F));
  });
}

TEST(TiedGradients, OfSixteenBitsAreTheSameOnAllCopies) {
  const std::vector<int> device_of = v_placement(3);
  std::mutex mutex;
  std::vector<std::vector<BFloat16>> all;
  run_as_threads(3, [&](Communicator comm) {
    TiedGradients sums(comm, device_of, {{"w", DataType::bf16, 300, {0, 1, 2, 3, 5}}});
    std::map<int, std::vector<BFloat16>> mine;
    Stream compute;
    for (const int stage : {0, 1, 2, 3, 5}) {
      if (device_of[static_cast<std::size_t>(stage)] != comm.rank()) continue;
      for (const float value : values_of(0, stage, 0, 300))
        mine[stage].push_back(static_cast<BFloat16>(value));
      sums.begin(0, stage, View(std::span(mine[stage])), compute);
    }
    for (const auto& [stage, values] : mine) sums.await(0, stage, compute);
    compute.synchronize();
    const std::lock_guard lock(mutex);
    for (const auto& [stage, values] : mine) all.push_back(values);
  });
  ASSERT_EQ(all.size(), 5U);
  const auto floats = [](const std::vector<BFloat16>& values) {
    Values result;
    for (const BFloat16 value : values) result.push_back(static_cast<float>(value));
    return result;
  };
  for (const auto& one : all) EXPECT_EQ(floats(one), floats(all.front()));
}

TEST(TiedGradients, CountForTheFirstStageOnly) {
  run_as_threads(2, [](Communicator comm) {
    const TiedGradients sums(comm, {0, 1, 1, 0}, {tied("w", 1, {1, 3})});
    EXPECT_TRUE(sums.counts(0, 1));
    EXPECT_FALSE(sums.counts(0, 3));
  });
}

TEST(TiedGradients, SendWhatAnAllReduceDoesAndNothingWithinADevice) {
  run_as_threads(2, [](Communicator comm) {
    const std::vector<TiedParameter> both{tied("across", 1000, {0, 1}), tied("within", 1000, {0, 3})};
    TiedGradients sums(comm, {0, 1, 1, 0}, both);
    std::vector<Values> gradients(3, Values(1000, 1.0F));
    Stream compute;
    sums.begin(0, comm.rank(), View(std::span(gradients[0])), compute);
    sums.await(0, comm.rank(), compute);
    if (comm.rank() == 0) {
      for (const int stage : {0, 3})
        sums.begin(1, stage, View(std::span(gradients[stage == 0 ? 1 : 2])), compute);
      for (const int stage : {0, 3}) sums.await(1, stage, compute);
    }
    compute.synchronize();
    EXPECT_EQ(sums.wire_bytes(), 4000U);
    if (comm.rank() == 1) return;
    EXPECT_EQ(gradients, std::vector<Values>(3, Values(1000, 2.0F)));
  });
}

class TiedGradientsRefuse : public testing::Test {
 protected:
  static void list(std::vector<TiedParameter> tied, std::initializer_list<std::string> parts,
                   std::vector<int> device_of = {0, 1, 1, 0}) {
    run_as_threads(2, [&](Communicator comm) {
      test::expect_error(ErrorKind::usage, parts, [&] { TiedGradients(comm, device_of, tied); });
    });
  }
  /// Device 0 has both copies.
  static void use(std::initializer_list<std::string> parts,
                  const std::function<void(TiedGradients&, View first, View last)>& body) {
    run_as_threads(2, [&](Communicator comm) {
      TiedGradients sums(comm, {0, 1, 1, 0}, {tied("w", 4, {0, 3})});
      Values first(4);
      Values last(4);
      if (comm.rank() == 1) return;
      test::expect_error(ErrorKind::usage, parts,
                         [&] { body(sums, View(std::span(first)), View(std::span(last))); });
    });
  }
};

TEST_F(TiedGradientsRefuse, ListsThatCannotBe) {
  list({tied("w", 0, {0, 3})}, {"w has 0 elements"});
  list({tied("w", 4, {3})}, {"w is tied over stages '3'", "0 to 3"});
  list({tied("w", 4, {3, 0})}, {"stages '3 0'", "rising"});
  list({tied("w", 4, {0, 0})}, {"stages '0 0'"});
  list({tied("w", 4, {0, 4})}, {"stages '0 4'"});
  list({tied("w", 4, {0, 1})}, {"device 2", "has 2"}, {0, 2});
}

TEST_F(TiedGradientsRefuse, RanksThatTieOtherWeights) {
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(ErrorKind::mismatch,
                       {"rank 0 has stages on devices 0 1, w of 4 f32 in stages 0 1; rank 1", "w of 5 f32"},
                       [&] {
                         TiedGradients(comm, {0, 1}, {tied("w", 4 + comm.rank(), {0, 1})});
                       });
  });
}

TEST_F(TiedGradientsRefuse, GradientsThatAreNone) {
  const Stream compute;
  use({"tied parameter 1 of 1"},
      [&](TiedGradients& sums, View first, View) { sums.begin(1, 0, first, compute); });
  use({"stage 1 has no copy of w on device 0", "stages 0 3"},
      [&](TiedGradients& sums, View first, View) { sums.begin(0, 1, first, compute); });
  use({"w in stage 3 is 3 f32, the parameter 4 f32"},
      [&](TiedGradients& sums, View first, View) { sums.begin(0, 3, first.slice(0, 3), compute); });
  use({"stages 0 and 3 give the same memory", "tie only one"}, [&](TiedGradients& sums, View first, View) {
    sums.begin(0, 0, first, compute);
    sums.begin(0, 3, first, compute);
  });
}

TEST_F(TiedGradientsRefuse, AnotherOrderOfCalls) {
  const Stream compute;
  use({"w is awaited for stage 0 before stage 0"},
      [&](TiedGradients& sums, View, View) { sums.await(0, 0, compute); });
  use({"w is awaited for stage 0 before stage 3", "every copy"}, [&](TiedGradients& sums, View first, View) {
    sums.begin(0, 0, first, compute);
    sums.await(0, 0, compute);
  });
  use({"w in stage 0 comes before the last sum is awaited"}, [&](TiedGradients& sums, View first, View) {
    sums.begin(0, 0, first, compute);
    sums.begin(0, 0, first, compute);
  });
  use({"w in stage 0 comes before the last sum is awaited"}, [&](TiedGradients& sums, View first, View last) {
    sums.begin(0, 0, first, compute);
    sums.begin(0, 3, last, compute);
    sums.await(0, 0, compute);
    sums.begin(0, 0, first, compute);
  });
  use({"w is awaited for stage 0 before stage 0"}, [&](TiedGradients& sums, View first, View last) {
    sums.begin(0, 0, first, compute);
    sums.begin(0, 3, last, compute);
    sums.await(0, 0, compute);
    sums.await(0, 0, compute);
  });
}

TEST(TiedGradients, NameWhoDoesNotCome) {
  std::promise<void> seen;
  run_as_threads(
      2,
      [&](Communicator comm) {
        TiedGradients sums(comm, {0, 1}, {tied("w", 1000, {0, 1})});
        Values gradient(1000);
        Stream compute;
        if (comm.rank() == 1) {
          EXPECT_EQ(seen.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
        } else {
          sums.begin(0, 0, View(std::span(gradient)), compute);
          sums.await(0, 0, compute);
          test::expect_error(ErrorKind::timeout, {"all_reduce", "rank 1"}, [&] { compute.synchronize(); });
          seen.set_value();
        }
      },
      {.timeout = std::chrono::seconds(2)});
}

}  // namespace
}  // namespace weft::pipeline
