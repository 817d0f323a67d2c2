// Exchange plans without a wire: all ranks' plans carried out in one process, flow by flow, in any order that
// their conditions allow.

#include "collectives/network/plan/exchange.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "collectives/kernels/reduce_kernel.hpp"
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
        if (!waits_in_lane(pairs_[i]) && possible(pairs_[i]) > 0) open.push_back(i);
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
    std::optional<End> before{};  ///< the sender's flow before it in the same direction
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
    for (const auto& [direction, ends] : senders) {
      ASSERT_EQ(ends.size(), receivers[direction].size());
      for (std::size_t i = 0; i < ends.size(); ++i) {
        ASSERT_EQ(flow(ends[i]).bytes, flow(receivers[direction][i]).bytes);
        pairs_.push_back({ends[i], receivers[direction][i]});
        if (i > 0) pairs_.back().before = ends[i - 1];
      }
    }
  }

  std::size_t ready(End end) {
    const Flow& one = flow(end);
    for (const std::size_t before : one.after_all) {
      if (done_[end.rank][before] < plans_[end.rank].flows[before].bytes) return done(end);
    }
    if (one.made) return made_[end.rank][end.flow];
    return one.after ? done_[end.rank][*one.after] : one.bytes;
  }
  /// Flows of one pair follow each other.
  bool waits_in_lane(const Pair& pair) {
    return pair.before && done(*pair.before) < flow(*pair.before).bytes;
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
        for (const std::size_t from : one.from) {
          const bool is_over = done_[rank][from] == plan.flows[from].bytes;
          arrived = std::min(arrived, one.once_all_over && !is_over ? 0 : done_[rank][from]);
        }
        std::size_t& begin = reduced_[rank][i];
        if (arrived == begin) continue;
        std::vector<const std::byte*> sources;
        for (const std::byte* source : one.sources) sources.push_back(source + begin);
        std::byte* const result = one.result + begin;
        reduce(sources, {std::span(&result, 1)},
               static_cast<std::int64_t>((arrived - begin) / size_of(plan.dtype)), plan.dtype, one.op,
               one.divisor);
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

/// An operation on all ranks: what goes in, what its plans do with it, and what must come out.
class Trial {
 public:
  Trial(Collective kind, Algorithm algorithm, int ranks, std::int64_t count, bool in_place)
      : kind_(kind), algorithm_(algorithm), ranks_(ranks), count_(count), in_place_(in_place) {}

  Trial& with(ReduceOp op) {
    op_ = op;
    return *this;
  }
  Trial& from(int root) {
    root_ = root;
    return *this;
  }

  /// Bytes that each rank sent.
  std::vector<std::size_t> run(std::uint64_t seed, std::size_t piece) {
    std::vector<std::vector<float>> ins;
    for (int rank = 0; rank < ranks_; ++rank) {
      auto& own = ins.emplace_back();
      for (std::int64_t i = 0; i < in_count(); ++i) own.push_back(value(rank, i));
    }
    std::vector<std::vector<float>> outs = ins;  // in place
    for (auto& out : outs) out.resize(static_cast<std::size_t>(std::max(in_count(), out_count())), -1);
    std::vector<ExchangePlan> plans;
    for (int rank = 0; rank < ranks_; ++rank) {
      auto& own = outs[static_cast<std::size_t>(rank)];
      const View whole{std::span(own)};
      View in = in_place_ ? whole.slice(0, in_count()) : View(std::span(ins[static_cast<std::size_t>(rank)]));
      View out = whole.slice(0, out_count());
      if (in_place_ && kind_ == Collective::reduce_scatter) out = whole.slice(count_ * rank, count_);
      if (in_place_ && kind_ == Collective::all_gather) {
        in = whole.slice(count_ * rank, count_);
        for (std::int64_t i = 0; i < count_; ++i)
          own[static_cast<std::size_t>(count_ * rank + i)] = value(rank, i);
      }
      results_.push_back(out);
      plans.push_back(plan_exchange({.kind = kind_,
                                     .in = in,
                                     .out = out,
                                     .count = count_,
                                     .dtype = DataType::f32,
                                     .op = op_,
                                     .root = root_},
                                    algorithm_, rank, ranks_, pool_));
    }
    memory_ = {std::move(ins), std::move(outs)};
    return Wire(std::move(plans), seed).run(piece);
  }

  void check() const {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (kind_ == Collective::reduce && rank != root_) continue;
      const float* got = results_[static_cast<std::size_t>(rank)].as<float>().data();
      for (std::int64_t i = 0; i < out_count(); ++i) {
        const float wanted = expected(rank, i);
        if (reduces(kind_) && !keeps_rank_order(algorithm_)) {
          ASSERT_TRUE(test::near_reduction(got[i], wanted, ranks_, index(rank, i), op_))
              << "rank " << rank << ", element " << i << ": " << got[i] << " and not " << wanted;
          if (kind_ == Collective::all_reduce) {
            ASSERT_EQ(got[i], results_[0].as<float>()[static_cast<std::size_t>(i)]) << "ranks differ";
          }
        } else {
          ASSERT_EQ(got[i], wanted) << "rank " << rank << ", element " << i;
        }
      }
    }
  }

 private:
  static float value(int rank, std::int64_t i) { return test::ordinary<float>(rank, i); }
  std::int64_t in_count() const { return kind_ == Collective::reduce_scatter ? count_ * ranks_ : count_; }
  std::int64_t out_count() const { return kind_ == Collective::all_gather ? count_ * ranks_ : count_; }
  /// The index of the input element that becomes this one.
  std::int64_t index(int rank, std::int64_t i) const {
    return kind_ == Collective::reduce_scatter ? count_ * rank + i : i;
  }
  float expected(int rank, std::int64_t i) const {
    if (kind_ == Collective::broadcast) return value(root_, i);
    if (kind_ == Collective::all_gather) return value(static_cast<int>(i / count_), i % count_);
    std::vector<int> all;
    for (int other = 0; other < ranks_; ++other) all.push_back(other);
    return test::reduced<float>(all, ranks_, index(rank, i), op_);
  }

  Collective kind_;
  Algorithm algorithm_;
  int ranks_;
  std::int64_t count_;
  bool in_place_;
  ReduceOp op_ = ReduceOp::sum;
  int root_ = 0;
  ScratchPool pool_;
  std::pair<std::vector<std::vector<float>>, std::vector<std::vector<float>>> memory_;
  std::vector<View> results_;
};

std::size_t sum(const std::vector<std::size_t>& sent) {
  std::size_t total = 0;
  for (const std::size_t one : sent) total += one;
  return total;
}

/// Every collective by every algorithm that carries it out.
std::vector<std::tuple<Collective, Algorithm>> all_there_are() {
  std::vector<std::tuple<Collective, Algorithm>> result;
  for (const Collective kind : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                Collective::broadcast, Collective::reduce}) {
    for (const Algorithm algorithm : {Algorithm::small, Algorithm::doubling, Algorithm::pairwise,
                                      Algorithm::ring, Algorithm::halving, Algorithm::tree}) {
      if (carries_out(algorithm, kind)) result.emplace_back(kind, algorithm);
    }
  }
  return result;
}

class AlgorithmOf : public testing::TestWithParam<std::tuple<Collective, Algorithm>> {};

// In place and not, from every root, in whatever order flows happen to move: what arrives never meets what
// has not left, and nobody waits for ever.
TEST_P(AlgorithmOf, GivesWhatTheObviousTwinGives) {
  const auto [kind, algorithm] = GetParam();
  const bool has_root = kind == Collective::broadcast || kind == Collective::reduce;
  std::uint64_t seed = 0;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    for (const std::int64_t count : {0, 1, 33, 1025}) {
      for (const bool in_place : {false, true}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
          if (!reduces(kind) && op != ReduceOp::sum) continue;
          for (int root = 0; root < (has_root ? ranks : 1); ++root) {
            SCOPED_TRACE(text(count, " elements, ", ranks, " ranks, ", op, ", root ", root,
                              in_place ? ", in place" : ""));
            Trial trial(kind, algorithm, ranks, count, in_place);
            trial.with(op).from(root).run(++seed, 256);
            trial.check();
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exchange, AlgorithmOf, testing::ValuesIn(all_there_are()), [](const auto& one) {
  return text(name(std::get<0>(one.param)), "_", name(std::get<1>(one.param)));
});

// Every algorithm that divides the work sends as little as a ring does, and every rank the same.
TEST(Exchange, SlicesSendWhatARingSends) {
  for (const int ranks : {2, 3, 4, 7, 8}) {
    const std::int64_t count = 16L * ranks * 10;  // whole cache lines to everybody
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    for (const Algorithm algorithm : {Algorithm::pairwise, Algorithm::ring, Algorithm::halving}) {
      const auto sent = Trial(Collective::all_reduce, algorithm, ranks, count, true).run(1, 64);
      for (const std::size_t one : sent)
        EXPECT_EQ(one, 2 * bytes / static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks - 1))
            << name(algorithm) << " of " << ranks;
    }
    const auto tree = Trial(Collective::all_reduce, Algorithm::tree, ranks, count, true).run(1, 64);
    EXPECT_EQ(sum(tree), 2 * bytes * static_cast<std::size_t>(ranks - 1));
    const auto doubling = Trial(Collective::all_reduce, Algorithm::doubling, ranks, count, true).run(1, 64);
    for (const std::size_t one : doubling) EXPECT_EQ(one, bytes * static_cast<std::size_t>(ranks - 1));
    const auto broadcast = Trial(Collective::broadcast, Algorithm::pairwise, ranks, count, true).run(1, 64);
    EXPECT_LT(broadcast[0], 2 * bytes);
  }
}

TEST(ScratchPool, GivesTheSmallestThatFitsAndKeepsWhatComesBack) {
  ScratchPool pool;
  std::vector<Buffer> taken;
  for (const std::size_t bytes : {100, 3000, 1000}) taken.push_back(pool.take(bytes));
  const void* const large = taken[1].view().data();
  const void* const middle = taken[2].view().data();
  pool.give_back(std::move(taken));
  EXPECT_EQ(pool.take(500).view().data(), middle);  // and it is gone, for it does not come back
  EXPECT_EQ(pool.take(500).view().data(), large);
  EXPECT_GE(pool.take(5000).size_bytes(), 5000U);
}

// Nobody is through before everybody has begun: what a rank hears last depends on every other's first word.
TEST(Exchange, RoundsOfABarrierWaitForEachOther) {
  ScratchPool pool;
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const ExchangePlan plan =
        plan_exchange({.kind = Collective::barrier}, Algorithm::dissemination, 0, ranks, pool);
    std::optional<std::size_t> heard;
    for (std::size_t i = 0; i < plan.flows.size(); ++i) {
      EXPECT_EQ(plan.flows[i].after, heard) << i << " of " << ranks;
      if (!plan.flows[i].sends) heard = i;
    }
  }
}

}  // namespace
}  // namespace weft::detail
