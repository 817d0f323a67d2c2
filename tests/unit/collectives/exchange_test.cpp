// Exchange plans without a wire: all ranks' plans carried out in one process, flow by flow, in any order that
// their conditions allow.

#include "collectives/algorithms/exchange.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "collectives/algorithms/reduce_kernel.hpp"
#include "conformance/values.hpp"

namespace weft::detail {
namespace {

/// Moves at most `piece` bytes of one flow at a time, chosen at random among those that may go on.
class Wire {
 public:
  Wire(std::vector<ExchangePlan> plans, std::uint64_t seed) : plans_(std::move(plans)), random_(seed) {
    for (const ExchangePlan& plan : plans_) {
      done_.emplace_back(plan.flows.size());
      made_.emplace_back(plan.flows.size());
      reduced_.emplace_back(plan.reductions.size());
      if (plan.begin) plan.begin();
    }
    pair_up();
  }

  /// Bytes that each rank sent; fails when nothing can go on before all is done.
  std::vector<std::size_t> run(std::size_t piece) {
    std::vector<std::size_t> sent(plans_.size());
    for (;;) {
      std::vector<std::size_t> open;
      bool all = true;
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        if (done(pairs_[i].sender) < flow(pairs_[i].sender).bytes) all = false;
        if (possible(pairs_[i]) > 0) open.push_back(i);
      }
      if (all) break;
      if (open.empty()) {
        ADD_FAILURE() << "flows wait for each other";
        break;
      }
      const Pair& pair = pairs_[open[random_() % open.size()]];
      const std::size_t bytes = std::min(piece, possible(pair));
      std::memcpy(flow(pair.receiver).in + done(pair.receiver), flow(pair.sender).out + done(pair.sender),
                  bytes);
      done(pair.sender) += bytes;
      done(pair.receiver) += bytes;
      sent[pair.sender.rank] += bytes;
      reduce_all();
    }
    return sent;
  }

 private:
  struct End {
    std::size_t rank;
    std::size_t flow;
  };
  struct Pair {
    End sender;
    End receiver;
  };

  Flow& flow(End end) { return plans_[end.rank].flows[end.flow]; }
  std::size_t& done(End end) { return done_[end.rank][end.flow]; }

  void pair_up() {
    using Lane = std::tuple<std::size_t, std::size_t, int>;  // from, to, stage
    std::map<Lane, std::vector<End>> senders;
    std::map<Lane, std::vector<End>> receivers;
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (std::size_t i = 0; i < plans_[rank].flows.size(); ++i) {
        const Flow& one = plans_[rank].flows[i];
        const auto peer = static_cast<std::size_t>(one.peer);
        (one.sends ? senders[{rank, peer, one.stage}] : receivers[{peer, rank, one.stage}])
            .push_back({rank, i});
      }
    }
    ASSERT_EQ(senders.size(), receivers.size());
    for (const auto& [lane, ends] : senders) {
      ASSERT_EQ(ends.size(), receivers[lane].size());
      for (std::size_t i = 0; i < ends.size(); ++i) {
        ASSERT_EQ(flow(ends[i]).bytes, flow(receivers[lane][i]).bytes);
        pairs_.push_back({ends[i], receivers[lane][i]});
      }
    }
  }

  std::size_t ready(End end) {
    const Flow& one = flow(end);
    if (one.made) return made_[end.rank][end.flow];
    return one.after ? done_[end.rank][*one.after] : one.bytes;
  }
  std::size_t possible(const Pair& pair) {
    return std::min(ready(pair.sender), ready(pair.receiver)) - done(pair.sender);
  }

  void reduce_all() {
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      const ExchangePlan& plan = plans_[rank];
      for (std::size_t i = 0; i < plan.reductions.size(); ++i) {
        const Reduction& one = plan.reductions[i];
        std::size_t arrived = one.bytes;
        for (const std::size_t from : one.from) arrived = std::min(arrived, done_[rank][from]);
        std::size_t& begin = reduced_[rank][i];
        if (arrived == begin) continue;
        std::vector<const std::byte*> sources;
        for (const std::byte* source : one.sources) sources.push_back(source + begin);
        std::byte* const result = one.result + begin;
        reduce(sources, {std::span(&result, 1)},
               static_cast<std::int64_t>((arrived - begin) / size_of(plan.dtype)), plan.dtype, plan.op);
        begin = arrived;
        for (const std::size_t into : one.into) made_[rank][into] = arrived;
      }
    }
  }

  std::vector<ExchangePlan> plans_;
  std::mt19937_64 random_;
  std::vector<Pair> pairs_;
  std::vector<std::vector<std::size_t>> done_, made_, reduced_;
};

class AllReduceOf : public testing::TestWithParam<std::tuple<int, std::int64_t>> {};

// In place, in every order: what arrives never meets what has not left.
TEST_P(AllReduceOf, IsInRankOrderAndSendsNoMoreThanARing) {
  const auto [ranks, count] = GetParam();
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<std::vector<float>> data;
    std::vector<ExchangePlan> plans;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& own = data.emplace_back();
      for (std::int64_t i = 0; i < count; ++i) own.push_back(test::ordinary<float>(rank, i));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const View view{std::span(data[static_cast<std::size_t>(rank)])};
      plans.push_back(plan_exchange(
          {.kind = Collective::all_reduce, .in = view, .out = view, .count = count, .dtype = DataType::f32},
          rank, ranks));
    }
    const auto sent = Wire(std::move(plans), seed).run(64);
    std::vector<int> all(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) all[static_cast<std::size_t>(rank)] = rank;
    for (const auto& own : data) {
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(own[static_cast<std::size_t>(i)], test::reduced<float>(all, ranks, i, ReduceOp::sum)) << i;
    }
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    std::size_t total = 0;
    for (const std::size_t one : sent) total += one;
    if (bytes > 4096) {
      EXPECT_EQ(total, 2 * static_cast<std::size_t>(ranks - 1) * bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exchange, AllReduceOf,
                         testing::Combine(testing::Values(2, 3, 5), testing::Values(0, 1, 1000, 1025, 4099)));

TEST(Exchange, ABroadcastReachesEveryRankFromAnyRoot) {
  for (int root = 0; root < 4; ++root) {
    std::vector<std::vector<float>> data(4, std::vector<float>(5000));
    for (std::size_t i = 0; i < 5000; ++i) data[static_cast<std::size_t>(root)][i] = static_cast<float>(i);
    std::vector<ExchangePlan> plans;
    for (int rank = 0; rank < 4; ++rank) {
      const View view{std::span(data[static_cast<std::size_t>(rank)])};
      plans.push_back(plan_exchange({.kind = Collective::broadcast,
                                     .in = view,
                                     .out = view,
                                     .count = 5000,
                                     .dtype = DataType::f32,
                                     .root = root},
                                    rank, 4));
    }
    const auto sent = Wire(std::move(plans), 7).run(1000);
    for (const auto& own : data) EXPECT_EQ(own, data[static_cast<std::size_t>(root)]);
    EXPECT_LT(sent[static_cast<std::size_t>(root)], 2 * 5000 * sizeof(float));
  }
}

// Nobody is through before everybody has begun: what a rank hears last depends on every other's first word.
TEST(Exchange, RoundsOfABarrierWaitForEachOther) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const ExchangePlan plan = plan_exchange({.kind = Collective::barrier}, 0, ranks);
    std::optional<std::size_t> heard;
    for (std::size_t i = 0; i < plan.flows.size(); ++i) {
      EXPECT_EQ(plan.flows[i].after, heard) << i << " of " << ranks;
      if (!plan.flows[i].sends) heard = i;
    }
  }
}

}  // namespace
}  // namespace weft::detail
