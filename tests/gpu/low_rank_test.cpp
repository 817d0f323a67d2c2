// On a card: the kernels of PowerSGD beside their host twins, bit by bit; sums over rows within their bound,
// and in every run the same.

#include "compression/power_sgd/low_rank.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "compression/power_sgd/low_rank_jobs.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"

namespace weft::test {
namespace {

using namespace detail;

enum class Kind { nothing, floats, steps };
using Shape = std::pair<std::int64_t, std::int64_t>;

// More than one launch takes; odd sizes, blocks that end early, several blocks of rows and of columns.
std::vector<Shape> small_shapes() {
  std::vector<Shape> shapes{{1, 1},    {3, 5},    {4, 16},  {9, 255},  {5, 256},
                            {37, 301}, {300, 40}, {129, 3}, {20, 516}, {128, 128}};
  for (std::int64_t i = 0; i < 25; ++i) shapes.emplace_back(2 + i, 40 - i);
  return shapes;
}

/// Memory of jobs, twice: on the host, and at the same distances on the device.
class Twins {
 public:
  Twins(const std::vector<Shape>& shapes, int rank, Kind kind, Side product) {
    for (const auto& [rows, columns] : shapes) {
      Places one;
      const std::int64_t made = product == Side::left ? rows : columns;
      const std::int64_t stored = kind == Kind::steps ? (rows * columns + 1) / 2 : rows * columns;
      one.values = take(rows * columns);
      one.basis = take(rank * (rows + columns - made));
      for (std::int64_t* factor : {&one.mine, &one.mean, &one.next_basis}) *factor = take(rank * made);
      one.sums = take(scratch_elements(rows, columns, rank));
      if (kind != Kind::nothing) {
        for (std::int64_t* residual : {&one.kept, &one.next}) *residual = take(stored);
      }
      if (kind == Kind::steps) {
        for (std::int64_t* scales : {&one.kept_scales, &one.next_scales})
          *scales = take(rows * blocks_of(columns));
      }
      places_.push_back(one);
    }
    host_.resize(static_cast<std::size_t>(end_));
    device_ = Buffer::on(Device::cuda(0), DataType::f32, end_);
    here_ = jobs_at(host_.data(), shapes, rank, kind, product);
    there_ = make_recycled<const RecycledVector<LowRankJob>>(
        jobs_at(static_cast<float*>(device_.view().data()), shapes, rank, kind, product));
    fill(kind);
    upload();
  }

  const RecycledVector<LowRankJob>& here() const { return here_; }
  const LowRankJobs& there() const { return there_; }
  Stream& stream() { return stream_; }
  const std::vector<float>& host() const { return host_; }

  void upload() {
    copy(device_.view(), ConstView(std::span(host_)), stream_);
    stream_.synchronize();
  }
  /// The device's memory, at the same distances as the host's.
  std::vector<float> fetched() {
    std::vector<float> all(host_.size());
    copy(View(std::span(all)), device_.view(), stream_);
    stream_.synchronize();
    return all;
  }
  std::size_t at(const float* here) const { return static_cast<std::size_t>(here - host_.data()); }

  /// Both do the same, and have the same bits then, everywhere.
  void compare(const char* what, const std::function<void(std::span<const LowRankJob>)>& twin,
               const std::function<void(const LowRankJobs&, Stream)>& kernel) {
    twin(here_);
    kernel(there_, stream_);
    const std::vector<float> found = fetched();
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(std::memcmp(&found[i], &host_[i], sizeof(float)), 0)
          << what << ": " << found[i] << " and not " << host_[i] << " in " << name_of(i);
  }

 private:
  struct Places {
    std::int64_t values = 0, basis = 0, mine = 0, mean = 0, next_basis = 0, sums = 0;
    std::int64_t kept = 0, next = 0, kept_scales = 0, next_scales = 0;
  };

  // Every third begins where no vector load is aligned to.
  std::int64_t take(std::int64_t count) {
    const std::int64_t begin = (end_ + 3) / 4 * 4 + (++taken_ % 13 == 0 ? 1 : 0);
    end_ = begin + count;
    return begin;
  }
  RecycledVector<LowRankJob> jobs_at(float* base, const std::vector<Shape>& shapes, int rank, Kind kind,
                                     Side product) const {
    RecycledVector<LowRankJob> jobs;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Places& at = places_[i];
      const bool stepped = kind == Kind::steps;
      LowRankJob job{.product = product,
                     .rank = rank,
                     .matrix = {shapes[i].first, shapes[i].second, base + at.values},
                     .basis = base + at.basis,
                     .mine = base + at.mine,
                     .mean = base + at.mean,
                     .next_basis = base + at.next_basis,
                     .sums = base + at.sums,
                     .seed = 1000 + i};
      if (kind != Kind::nothing) {
        job.matrix.kept = {base + at.kept, stepped ? base + at.kept_scales : nullptr};
        job.matrix.next = {base + at.next, stepped ? base + at.next_scales : nullptr};
      }
      jobs.push_back(job);
    }
    return jobs;
  }
  void fill(Kind kind) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& value : host_) value = normal(random);
    if (kind != Kind::steps) return;
    for (const LowRankJob& job : here_) {
      const auto elements = static_cast<std::size_t>(job.matrix.rows * job.matrix.columns);
      for (void* values : {job.matrix.kept.values, job.matrix.next.values}) {
        for (std::int16_t& step : std::span(static_cast<std::int16_t*>(values), elements))
          step = static_cast<std::int16_t>(random() % 65535 - 32767);
      }
      const auto blocks = static_cast<std::size_t>(job.matrix.rows * blocks_of(job.matrix.columns));
      for (float& scale : std::span(job.matrix.kept.scales, blocks))
        scale = std::ldexp(1.0F, -15 - static_cast<int>(random() % 4));
    }
  }
  std::string name_of(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    std::string name = "nothing";
    for (std::size_t job = 0; job < places_.size(); ++job) {
      const Places& one = places_[job];
      for (const auto& [begin, part] : {std::pair(one.values, "values"),
                                        {one.basis, "basis"},
                                        {one.mine, "mine"},
                                        {one.mean, "mean"},
                                        {one.next_basis, "next_basis"},
                                        {one.sums, "sums"},
                                        {one.kept, "kept"},
                                        {one.next, "next"},
                                        {one.kept_scales, "kept_scales"},
                                        {one.next_scales, "next_scales"}}) {
        if (begin <= at && (begin > 0 || job == 0))
          name =
              text(part, " + ", at - begin, " of ", here_[job].matrix.rows, " x ", here_[job].matrix.columns);
      }
    }
    return name;
  }

  std::vector<Places> places_;
  std::int64_t end_ = 0;
  int taken_ = 0;
  std::vector<float> host_;
  RecycledVector<LowRankJob> here_;
  LowRankJobs there_;
  Stream stream_{Device::cuda(0)};
  Buffer device_;
};

void rebuild_all(const LowRankJobs& jobs, const Stream& stream) {
  rebuild(jobs, stream);
}
void orthonormalize_all(const LowRankJobs& jobs, const Stream& stream) {
  orthonormalize(jobs, stream);
}

const std::vector<int> ranks{1, 2, 3, 4, 9};
const std::vector<Kind> kinds{Kind::nothing, Kind::floats, Kind::steps};

TEST(LowRankOnDevice, ProductsOverRowsAreTheirTwin) {
  for (const int rank : ranks) {
    for (const Kind kind : kinds) {
      Twins twins(small_shapes(), rank, kind, Side::left);
      twins.compare("project", on_host::multiply, multiply);
    }
  }
}

/// The matrix and its residual, in f32 as everybody adds them.
float element(const Matrix& matrix, std::int64_t i, std::int64_t j) {
  const std::int64_t at = i * matrix.columns + j;
  if (matrix.kept.values == nullptr) return matrix.values[at];
  if (matrix.kept.scales == nullptr) return matrix.values[at] + static_cast<float*>(matrix.kept.values)[at];
  return matrix.values[at] + static_cast<float>(static_cast<std::int16_t*>(matrix.kept.values)[at]) *
                                 matrix.kept.scales[i * blocks_of(matrix.columns) + j / residual_block];
}

void expect_sums_over_rows(Twins& twins) {
  multiply(twins.there(), twins.stream());
  const std::vector<float> found = twins.fetched();
  std::vector<float> expected = twins.host();  // but for what is written
  const auto written = [&](const float* from, std::int64_t count) {
    if (count > 0)
      std::memcpy(&expected[twins.at(from)], &found[twins.at(from)],
                  static_cast<std::size_t>(count) * sizeof(float));
  };
  for (const LowRankJob& job : twins.here()) {
    const Matrix& matrix = job.matrix;
    written(job.mine, job.rank * matrix.columns);
    written(job.sums, scratch_elements(matrix.rows, matrix.columns, job.rank));
    for (int k = 0; k < job.rank; ++k) {
      for (std::int64_t j = 0; j < matrix.columns; ++j) {
        double sum = 0;
        double magnitudes = 0;
        for (std::int64_t i = 0; i < matrix.rows; ++i) {
          const double one = static_cast<double>(element(matrix, i, j)) *
                             static_cast<double>(job.basis[k * matrix.rows + i]);
          sum += one;
          magnitudes += std::abs(one);
        }
        const float mine = found[twins.at(job.mine + k * matrix.columns + j)];
        ASSERT_NEAR(static_cast<double>(mine), sum,
                    static_cast<double>(2 * matrix.rows) * 0x1p-24 * magnitudes)
            << matrix.rows << " x " << matrix.columns << ", rank " << k << " of " << job.rank << ", column "
            << j;
      }
    }
  }
  EXPECT_EQ(std::memcmp(expected.data(), found.data(), found.size() * sizeof(float)), 0)
      << "something else was written";
  twins.upload();
  multiply(twins.there(), twins.stream());
  EXPECT_EQ(std::memcmp(twins.fetched().data(), found.data(), found.size() * sizeof(float)), 0)
      << "another run has other bits";
}

TEST(LowRankOnDevice, SumsOverRowsAreWithinRoundingAndAlwaysTheSame) {
  for (const int rank : ranks) {
    for (const Kind kind : kinds) {
      Twins twins(small_shapes(), rank, kind, Side::right);
      expect_sums_over_rows(twins);
    }
  }
}

TEST(LowRankOnDevice, WhatIsRebuiltAndKeptIsItsTwin) {
  for (const Side product : {Side::left, Side::right}) {
    for (const int rank : ranks) {
      for (const Kind kind : kinds) {
        Twins twins(small_shapes(), rank, kind, product);
        twins.compare("keep_residuals", on_host::keep_residuals, keep_residuals);
        const auto parts_of = [](std::span<const LowRankJob> jobs) {
          RecycledVector<LowRankPart> parts;
          for (const LowRankJob& job : jobs) {
            const std::int64_t elements = job.matrix.rows * job.matrix.columns;
            parts.push_back({job, elements / 3, elements - elements / 4});
          }
          return parts;
        };
        twins.compare(
            "expand", [&](auto jobs) { on_host::expand(parts_of(jobs)); },
            [&](const LowRankJobs& jobs, Stream stream) { expand(parts_of(*jobs), stream); });
        twins.compare("rebuild", on_host::rebuild, rebuild_all);
      }
    }
  }
}

// Blocks of zeros, of the smallest and of the largest numbers: every scale there is.
TEST(LowRankOnDevice, EveryScaleIsItsTwin) {
  Twins twins({{60, 700}}, 1, Kind::steps, Side::left);
  const LowRankJob& job = twins.here().front();
  for (std::int64_t i = 0; i < job.matrix.rows; ++i) {
    job.mine[i] = 0;
    for (std::int64_t j = 0; j < job.matrix.columns; ++j) {
      float& value = job.matrix.values[i * job.matrix.columns + j];
      value = i == 0 ? 0 : std::ldexp(value, static_cast<int>(i * 5) - 160);
      static_cast<std::int16_t*>(job.matrix.kept.values)[i * job.matrix.columns + j] = 0;
    }
  }
  twins.upload();
  twins.compare("keep_residuals", on_host::keep_residuals, keep_residuals);
}

TEST(LowRankOnDevice, BasesAreTheirTwin) {
  for (const Side product : {Side::left, Side::right}) {
    for (const int rank : ranks) {
      Twins twins(small_shapes(), rank, Kind::nothing, product);
      for (std::size_t i = 0; i < twins.here().size(); ++i) {
        const LowRankJob& job = twins.here()[i];
        if (i % 3 == 1) std::fill_n(job.mean, rank * length(job), 0.0F);  // a dead layer
        if (i % 3 == 2 && rank > 2)                                       // the last depends on two others
          for (std::int64_t at = 0; at < length(job); ++at)
            job.mean[2 * length(job) + at] = 2 * job.mean[at] - 3 * job.mean[length(job) + at];
        if (i == 5) job.mean[0] = INFINITY;  // becomes NaN, one of those bits
      }
      twins.upload();
      twins.compare("start_next", on_host::start_next, start_next);
      twins.compare("orthonormalize", on_host::orthonormalize, orthonormalize_all);
      twins.compare("start_anew", on_host::start_anew, start_anew);
    }
  }
}

TEST(LowRankOnDevice, ChecksForNaNLikeTheHost) {
  Twins twins(small_shapes(), 2, Kind::nothing, Side::left);
  const auto guard = std::make_shared<NonFiniteGuard>(Device::cuda(0));
  const auto counts = [&] {
    guard->submitted(twins.stream());
    return guard->finish_step();
  };
  const auto both = [&] {
    twins.compare(
        "check_finite", [](auto jobs) { on_host::check_finite(jobs); },
        [&](const LowRankJobs& jobs, Stream stream) { check_finite(jobs, guard, stream); });
    return counts();
  };
  EXPECT_TRUE(both());
  for (const std::size_t at : {std::size_t{0}, std::size_t{31}}) {
    const LowRankJob& job = twins.here()[at];
    job.mean[2 * length(job) - 1] = at == 0 ? NAN : -INFINITY;
    twins.upload();
    EXPECT_FALSE(both());
    std::fill_n(job.mean, 2 * length(job), 1.0F);
    twins.upload();
    EXPECT_TRUE(both()) << "one bad step is one";
  }
  for (const float last : {1.0F, NAN, INFINITY}) {
    std::vector<float> sums(100'001, 3.0F);
    sums.back() = last;
    Buffer there = Buffer::on(Device::cuda(0), DataType::f32, static_cast<std::int64_t>(sums.size()));
    copy(there.view(), ConstView(std::span(sums)), twins.stream());
    check_finite(there.view(), guard, twins.stream());
    EXPECT_EQ(counts(), !on_host::check_finite(sums));
  }
  for (const std::int64_t nans : {0, 1}) {
    const std::vector<std::int64_t> here{0, nans};
    Buffer there = Buffer::on(Device::cuda(0), DataType::i64, 2);
    copy(there.view(), ConstView(std::span(here)), twins.stream());
    check_counts(there.view(), guard, twins.stream());
    EXPECT_EQ(counts(), !on_host::check_counts(here));
  }
}

// As they are in models: a long vocabulary, many rows at once, many blocks.
TEST(LowRankOnDevice, LargeMatricesAreTheirTwins) {
  const std::vector<Shape> shapes = WEFT_EMULATED
                                        ? std::vector<Shape>{{40'000, 16}, {160, 1600}, {768, 307}}
                                        : std::vector<Shape>{{40'000, 64}, {1600, 1600}, {768, 3072}};
  Twins left(shapes, 4, Kind::steps, Side::left);
  left.compare("project", on_host::multiply, multiply);
  left.compare("rebuild", on_host::rebuild, rebuild_all);
  left.compare("start_next", on_host::start_next, start_next);
  Twins right(shapes, 4, Kind::steps, Side::right);
  expect_sums_over_rows(right);
}

}  // namespace
}  // namespace weft::test
