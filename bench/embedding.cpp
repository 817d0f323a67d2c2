// Look-ups and updates of embedding tables on one core, beside simple loops over rows of the same size at random.
//
//   bench_embedding [ROWS COLUMNS [ROUNDS]]        default: 4,000,000 rows of 64 (1 GB), 21 rounds
//
// A batch is 2,048 samples of 20 rows each, drawn evenly, so that most rows come from memory. The peer of a look-up is a loop that adds up rows, and
// that of an update one that reads and writes them; both ask for memory ahead, are no bound of it, neither has seen its rows before, and
// their table lies in a Buffer, whose pages are large where the kernel gives such.

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

constexpr std::int64_t samples = 2048;
constexpr std::int64_t rows_of_sample = 20;
constexpr std::size_t ahead = 12;

class PlainTable {
 public:
  PlainTable(std::int64_t rows, std::int64_t columns)
      : columns_(columns),
        rows_(Buffer::on_host(DataType::f32, rows * columns)),
        out_(static_cast<std::size_t>(samples * columns), 1e-3F) {
    std::ranges::fill(rows_.as<float>(), 1.0F);  // else all of it is one page of zeros
  }

  void add(const std::vector<std::int64_t>& indices) {
    each(indices, [this](std::size_t i, const float* row) {
      float* const to = out_.data() + static_cast<std::int64_t>(i) / rows_of_sample * columns_;
      for (std::int64_t c = 0; c < columns_; ++c) to[c] += row[c];
    });
  }
  void change(const std::vector<std::int64_t>& indices) {
    each(indices, [this](std::size_t, float* row) {
      for (std::int64_t c = 0; c < columns_; ++c) row[c] -= 0.01F * out_[static_cast<std::size_t>(c)];
    });
  }

 private:
  template <class Work>
  void each(const std::vector<std::int64_t>& indices, const Work& work) {
    const auto row_of = [&](std::size_t i) { return rows_.as<float>().data() + indices[i] * columns_; };
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (i + ahead < indices.size()) {
        for (std::int64_t c = 0; c < std::min<std::int64_t>(columns_, 64); c += 16)
          __builtin_prefetch(row_of(i + ahead) + c);
      }
      work(i, row_of(i));
    }
  }

  std::int64_t columns_;
  Buffer rows_;
  std::vector<float> out_;
};

int run(int argc, char** argv) {
  const std::int64_t rows = argc > 1 ? std::atoll(argv[1]) : 4'000'000;
  const int columns = argc > 2 ? std::atoi(argv[2]) : 64;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 21;
  bench::stay_on_one_core();
  embedding::ShardedTables tables(self(), {{"table", rows, columns}}, {.rule = embedding::RowAdaGrad{}});
  PlainTable plain(rows, columns);
  std::vector<float> pooled(static_cast<std::size_t>(samples * columns));
  std::vector<float> gradient(pooled.size(), 1e-3F);
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i <= samples; ++i) offsets.push_back(i * rows_of_sample);
  std::mt19937_64 random(1);  // NOLINT: the same rows in each run
  std::vector<std::vector<std::int64_t>> drawn(static_cast<std::size_t>(3 * (rounds + 1)));
  for (auto& indices : drawn) {
    for (std::int64_t i = 0; i < samples * rows_of_sample; ++i)
      indices.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows)));
  }
  const auto indices_of = [&](int round, int which) -> const std::vector<std::int64_t>& {
    return drawn[static_cast<std::size_t>(3 * round + which)];
  };

  const View out{std::span(pooled)};
  const ConstView of_loss{std::span(gradient)};
  Stream compute;
  std::vector<bench::Case> cases{
      {"request",
       [&](int round) {
         const embedding::Bags bags{indices_of(round, 0), offsets};
         tables.request(std::span(&bags, 1));
       }},
      {"look_up",
       [&](int) {
         tables.look_up(std::span(&out, 1), compute);
         compute.synchronize();
       }},
      {"add rows in a loop", [&](int round) { plain.add(indices_of(round, 1)); }},
      {"step",
       [&](int) {
         tables.step(std::span(&of_loss, 1), compute);
         compute.synchronize();
       }},
      {"change rows in a loop", [&](int round) { plain.change(indices_of(round, 2)); }}};
  bench::in_turn(cases, rounds);
  bench::print_rates(cases, static_cast<double>(samples * rows_of_sample) * 1e-6, "million rows a second");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
