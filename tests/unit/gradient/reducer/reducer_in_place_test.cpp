// Gradients that are reduced where backward put them, beside a reducer that copies the same ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/expect_error.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft {
namespace {

// "large" and "head" are whole cache lines; "odd" ends within one.
const ParamLayout layout(DataType::f32, {{"large", 4096}, {"bias", 7}, {"odd", 1001}, {"head", 512}});
const BucketPlan plan = plan_buckets(layout, 256, 2048);

struct Gradients {
  Gradients(Communicator& comm, int step) {
    for (int i = 0; i < layout.parameters(); ++i) {
      of.push_back(comm.allocate(DataType::f32, layout.count(ParamId{i})));
      float value = 0.3F * static_cast<float>(step) + 1.7F * static_cast<float>(comm.rank() + i);
      for (float& one : of.back().as<float>()) one = value = value * 1.01F + 0.0113F;
    }
  }
  std::vector<Buffer> of;  // by parameter
};

bool same(ConstView one, ConstView other) {
  return std::ranges::equal(one.as<const float>(), other.as<const float>());
}

struct Case {
  int ranks;
  bool queued;
  bool all;  ///< every rank has its gradients in place; else rank 0 copies
  bool reached = true;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) {
    return out << one.ranks << " ranks, " << (one.queued ? "queued" : "inline")
               << (one.all ? "" : ", rank 0 copies") << (one.reached ? "" : ", private memory");
  }
};

class InPlace : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, InPlace,
                         testing::Values(Case{1, false, true}, Case{2, false, true}, Case{2, true, false},
                                         Case{3, true, true}, Case{4, false, false},
                                         Case{3, false, true, false}));

TEST_P(InPlace, MeansAreThoseOfGradientsThatAreCopied) {
  const Case one = GetParam();
  run_as_threads(
      one.ranks,
      [&](Communicator comm) {
        const auto wire = [&] { return one.queued ? Stream::queued() : Stream(); };
        GradientReducer twin(comm, layout, {.buckets = plan, .wire = wire()});
        GradientReducer reducer(comm, layout, {.buckets = plan, .wire = wire()});
        Stream compute;
        for (int step = 0; step < 3; ++step) {
          Gradients copied(comm, step);
          Gradients there(comm, step);
          twin.begin_step();
          reducer.begin_step();
          std::vector<View> means(there.of.size());
          for (int i = layout.parameters() - 1; i >= 0; --i) {
            const ParamId id{i};
            twin.mark_ready(id, ConstView(copied.of[index(id)].view()), compute);
            const View gradient = there.of[index(id)].view();
            if (one.all || comm.rank() > 0) {
              means[index(id)] = reducer.mark_ready_in_place(id, gradient, compute);
            } else {
              reducer.mark_ready(id, ConstView(gradient), compute);
              means[index(id)] = reducer.gradient(id);
            }
          }
          twin.finish_step(compute);
          reducer.finish_step(compute);
          compute.synchronize();
          for (int i = 0; i < layout.parameters(); ++i) {
            const ParamId id{i};
            EXPECT_TRUE(same(means[index(id)], twin.gradient(id))) << layout.name(id) << ", step " << step;
            const bool stays = (one.all || comm.rank() > 0) && (id == ParamId{0} || id == ParamId{3});
            EXPECT_EQ(means[index(id)].data() == there.of[index(id)].view().data(), stays) << layout.name(id);
            EXPECT_EQ(means[index(id)].data() == reducer.gradient(id).data(), !stays);
          }
        }
      },
      {.shared_memory = one.reached});
}

/// A hook that keeps addresses of the arena.
class Keeps final : public CommHook {
 public:
  std::string name() const override { return "keeps"; }
  void planned(const BucketPlan&, GradientSpace gradients, Communicator&) override { space_ = gradients; }
  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream&,
              const Stream& wire) override {
    EXPECT_EQ(gradient.data(), space_.slice(bucket.begin, bucket.count()).data());
    comm.all_reduce(space_.slice(bucket.begin, bucket.count()), ReduceOp::avg, wire);
  }

 private:
  GradientSpace space_;
};

TEST(InPlace, IsACopyWhereAddressesOfTheArenaAreKept) {
  run_as_threads(2, [](Communicator comm) {
    const auto stays = [&](ReducerOptions options, Exchange before = Exchange::now) {
      options.buckets = plan;
      GradientReducer reducer(comm, layout, options);
      Stream compute;
      bool in_place = true;
      for (const Exchange exchange : {before, Exchange::now}) {
        Gradients there(comm, 1);
        reducer.begin_step(exchange);
        for (int i = layout.parameters() - 1; i >= 0; --i) {
          const View gradient = there.of[static_cast<std::size_t>(i)].view();
          const View mean = reducer.mark_ready_in_place(ParamId{i}, gradient, compute);
          if (i == 0) in_place = mean.data() == gradient.data();
        }
        reducer.finish_step(compute);
        compute.synchronize();
      }
      return in_place;
    };
    EXPECT_TRUE(stays({}));
    EXPECT_TRUE(stays({.hook = cast_hook(DataType::bf16)}));
    EXPECT_FALSE(stays({.hook = std::make_shared<Keeps>()}));
    EXPECT_FALSE(stays({.hook = cast_hook(DataType::f32, std::make_shared<Keeps>())}));
    EXPECT_FALSE(stays({.norm_block = 64}));
    EXPECT_FALSE(stays({}, Exchange::no_sync)) << "the sum of two micro-steps is in the arena";
  });
}

TEST(InPlace, BadValuesAreCountedWhereTheyLie) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = plan, .count_bad_values = true});
    Stream compute;
    Gradients there(comm, 0);
    if (comm.rank() == 1) there.of[0].as<float>()[4000] = std::numeric_limits<float>::quiet_NaN();
    reducer.begin_step();
    for (int i = layout.parameters() - 1; i >= 0; --i)
      reducer.mark_ready_in_place(ParamId{i}, there.of[static_cast<std::size_t>(i)].view(), compute);
    reducer.finish_step(compute);
    compute.synchronize();
    ASSERT_EQ(reducer.bad_values().size(), 1U);
    EXPECT_EQ(reducer.bad_values()[0].rank, 1);
    EXPECT_EQ(reducer.bad_values()[0].first, ParamId{0});
    EXPECT_EQ(reducer.bad_values()[0].nans, 1);
    EXPECT_TRUE(std::isnan(there.of[0].as<float>()[4000]));
  });
}

TEST(InPlace, AnotherCountAndASecondMarkAreRefused) {
  const auto refused = [](const std::string& part,
                          const std::function<void(GradientReducer&, Communicator&)>& wrong) {
    run_as_threads(2, [&](Communicator comm) {
      GradientReducer reducer(comm, layout, {.buckets = plan});
      reducer.begin_step();
      if (comm.rank() == 0) {
        test::expect_error(ErrorKind::usage, {part}, [&] { wrong(reducer, comm); });
        return;
      }
      test::expect_error(ErrorKind::usage, {"rank 0 failed: ", part}, [&] {
        Stream compute;
        Gradients there(comm, 0);
        for (int i = layout.parameters() - 1; i >= 0; --i)
          reducer.mark_ready(ParamId{i}, ConstView(there.of[static_cast<std::size_t>(i)].view()), compute);
        reducer.finish_step(compute);
        compute.synchronize();
      });
    });
  };
  refused("the gradient of large has 4095 f32, the parameter 4096 f32",
          [](GradientReducer& reducer, Communicator& comm) {
            reducer.mark_ready_in_place(ParamId{0}, comm.allocate(DataType::f32, 4095).view(), Stream());
          });
  refused("gradient of large was marked ready twice", [](GradientReducer& reducer, Communicator& comm) {
    Buffer gradient = comm.allocate(DataType::f32, 4096);
    reducer.mark_ready_in_place(ParamId{0}, gradient.view(), Stream());
    reducer.mark_ready_in_place(ParamId{0}, gradient.view(), Stream());
  });
}

}  // namespace
}  // namespace weft
