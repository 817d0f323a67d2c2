// Look-ups and updates of embedding tables on one core, beside simple loops over rows of the same size at random.
//
//   bench_embedding [ROWS COLUMNS [ROUNDS]]        default: 4,000,000 rows of 64 (1 GB), 21 rounds
//
// A batch is 2,048 samples of 20 rows each, drawn evenly, so that most rows come from memory. The peer of a look-up is a loop that adds up rows, and
// that of an update one that reads and writes them; both ask for memory ahead, are no bound of it, neither has seen its rows before, and
// their table lies in a Buffer, whose pages are large where the kernel gives such.
//
//   bench_embedding file FOLDER [ROWS COLUMNS SHARE STEPS WARM_UP PAUSE]      default: 4,000,000 rows of 64, .15, 100 steps after 200, 0.02 s
//   weft-launch -n 2 bench_embedding file FOLDER 32000000                     8 GB on 2 ranks
//
// A table in a file (Table::file) with SHARE of its rows in memory, beside one that has none there. Rows are generated: numbers of Zipf's law
// with exponent 1.05, spread over the table. A step looks up the batch that was requested during the step before, requests the next, waits PAUSE
// seconds, which stand for the dense part of a model, and trains. One table is trained after the other, for they share the disk; of each the first
// step is not counted. The best fixed set of rows is what this bench finds when all is over: the rows that most batches have read, as many as the
// cache has. What it knows too late no cache knows; so the hit rate of the set that Zipf's law alone names, without the batches, is told as well.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
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

/// Numbers of Zipf's law: i of [1, count] with a probability that falls as i^-exponent. Rejection-inversion (Hoermann and Derflinger 1996).
class Zipf {
 public:
  Zipf(std::int64_t count, double exponent)
      : count_(static_cast<double>(count)),
        exponent_(exponent),
        first_(integral(1.5) - 1),
        last_(integral(count_ + 0.5)),
        shortcut_(2 - inverse(integral(2.5) - std::pow(2.0, -exponent))) {}

  std::int64_t operator()(std::mt19937_64& random) const {
    while (true) {
      const double u = last_ + static_cast<double>(random() >> 11U) * 0x1p-53 * (first_ - last_);
      const double x = inverse(u);
      const double k = std::clamp(std::floor(x + 0.5), 1.0, count_);
      if (k - x <= shortcut_ || u >= integral(k + 0.5) - std::pow(k, -exponent_))
        return static_cast<std::int64_t>(k);
    }
  }

 private:
  double integral(double x) const { return (std::pow(x, 1 - exponent_) - 1) / (1 - exponent_); }
  double inverse(double u) const { return std::pow(1 + u * (1 - exponent_), 1 / (1 - exponent_)); }

  double count_, exponent_, first_, last_, shortcut_;
};

struct FileBench {
  std::string folder;
  std::int64_t rows = 4'000'000;
  int columns = 64;
  double share = .15;
  int steps = 100, warm_up = 200;
  double pause = .02;

  std::int64_t rows_in_memory() const { return static_cast<std::int64_t>(share * static_cast<double>(rows)); }
  /// Spreads numbers over the table: a multiple of each, by an odd factor near rows / golden ratio that has no divisor in common with `rows`.
  std::int64_t row_of(std::int64_t number) const {
    std::int64_t factor = static_cast<std::int64_t>(0.618033988749895 * static_cast<double>(rows)) | 1;
    while (std::gcd(factor, rows) != 1) factor += 2;
    return static_cast<std::int64_t>(__int128{number} * factor % rows);
  }
};

/// Rows that a rank's samples read in a step: the same whoever asks.
std::vector<std::int64_t> drawn_rows(const FileBench& bench, const Zipf& zipf, int rank, int step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step) * 1000 + static_cast<std::uint64_t>(rank) + 1);
  std::vector<std::int64_t> result(static_cast<std::size_t>(samples * rows_of_sample));
  for (std::int64_t& row : result) row = bench.row_of(zipf(random) - 1);
  return result;
}

/// What fixed sets of rows would have hit in the measured steps.
struct FixedSets {
  double reads = 0, best = 0, by_law = 0;
};

FixedSets fixed_sets(const FileBench& bench, const Zipf& zipf, const embedding::TablePlacement& placement,
                     int ranks) {
  std::vector<std::uint32_t> batches(static_cast<std::size_t>(bench.rows));  // that have read the row
  std::vector<std::int32_t> last(batches.size(), -1);
  for (int step = bench.warm_up; step < bench.warm_up + bench.steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t row : drawn_rows(bench, zipf, rank, step)) {
        if (std::exchange(last[static_cast<std::size_t>(row)], step) != step)
          ++batches[static_cast<std::size_t>(row)];
      }
    }
  }
  FixedSets sets;
  std::vector<std::vector<std::uint32_t>> of_rank(static_cast<std::size_t>(ranks));
  for (std::size_t row = 0; row < batches.size(); ++row) {
    of_rank[static_cast<std::size_t>(placement.owners[row / static_cast<std::size_t>(placement.block_rows)])]
        .push_back(batches[row]);
    sets.reads += batches[row];
  }
  for (std::vector<std::uint32_t>& counts : of_rank) {
    std::ranges::sort(counts, std::greater());
    const auto places = static_cast<std::size_t>(bench.share * static_cast<double>(counts.size()));
    sets.best += std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(places), 0.0);
  }
  for (std::int64_t number = 0; number < bench.rows_in_memory(); ++number)
    sets.by_law += batches[static_cast<std::size_t>(bench.row_of(number))];
  return sets;
}

/// A table, and its batches.
class FileCase {
 public:
  FileCase(const Communicator& comm, const FileBench& bench, const Zipf& zipf, std::int64_t rows_in_memory)
      : bench_(bench),
        zipf_(zipf),
        rank_(comm.rank()),
        tables_(comm,
                {{"table",
                  bench.rows,
                  bench.columns,
                  embedding::Pooling::sum,
                  {.directory = bench.folder, .rows_in_memory = rows_in_memory}}},
                {.rule = embedding::RowAdaGrad{}}),
        pooled_(static_cast<std::size_t>(samples * bench.columns)),
        gradient_(pooled_.size(), 1e-3F) {
    for (std::int64_t i = 0; i <= samples; ++i) offsets_.push_back(i * rows_of_sample);
  }

  void request(int step) {
    const std::vector<std::int64_t> indices = drawn_rows(bench_, zipf_, rank_, step);
    const auto begin = std::chrono::steady_clock::now();
    const embedding::Bags bags{indices, offsets_};
    tables_.request(std::span(&bags, 1));
    requesting_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  /// @returns seconds, without those in which the bench drew the next batch
  double step(int step) {
    const View out{std::span(pooled_)};
    const ConstView of_loss{std::span(gradient_)};
    double seconds = bench::seconds_of([&] {
      tables_.look_up(std::span(&out, 1), compute_);
      compute_.synchronize();
    });
    request(step + 1);
    seconds += requesting_;
    return seconds + bench::seconds_of([&] {
             std::this_thread::sleep_for(std::chrono::duration<double>(bench_.pause));
             tables_.step(std::span(&of_loss, 1), compute_);
             compute_.synchronize();
           });
  }
  embedding::ShardedTables& tables() { return tables_; }

 private:
  const FileBench& bench_;
  const Zipf& zipf_;
  int rank_;
  embedding::ShardedTables tables_;
  std::vector<float> pooled_, gradient_;
  std::vector<std::int64_t> offsets_{};
  double requesting_ = 0;
  Stream compute_{};
};

int run_file(int argc, char** argv) {
  if (argc < 3)
    throw Error(ErrorKind::usage, "no folder for the file of the table", "bench_embedding file FOLDER");
  FileBench bench{.folder = argv[2]};
  if (argc > 3) bench.rows = std::atoll(argv[3]);
  if (argc > 4) bench.columns = std::atoi(argv[4]);
  if (argc > 5) bench.share = std::atof(argv[5]);
  if (argc > 6) bench.steps = std::atoi(argv[6]);
  if (bench.steps < 2)
    throw Error(ErrorKind::usage, text(bench.steps, " steps"), "2 or more: the first is not counted");
  if (argc > 7) bench.warm_up = std::atoi(argv[7]);
  if (argc > 8) bench.pause = std::atof(argv[8]);
  Communicator comm = connect(World::from_environment());
  const Zipf zipf(bench.rows, 1.05);
  FileCase cached(comm, bench, zipf, bench.rows_in_memory());
  FileCase plain(comm, bench, zipf, 0);
  const bool says = comm.rank() == 0;
  if (says)
    std::printf(
        "%d ranks, %lld rows of %d columns, %.1f GB; rows are generated: Zipf 1.05; %lld rows in memory\n",
        comm.size(), static_cast<long long>(bench.rows), bench.columns,
        static_cast<double>(bench.rows) * bench.columns * 4e-9,
        static_cast<long long>(bench.rows_in_memory()));
  embedding::FileFigures before[2];
  FileCase* const cases[2] = {&cached, &plain};
  std::vector<double> seconds[2];
  for (int i = 0; i < 2; ++i) {
    const int warm_up = i == 0 ? bench.warm_up : 0;  // a table without a cache needs none
    cases[i]->request(0);
    for (int step = 0; step < warm_up + bench.steps; ++step) {
      const double took = cases[i]->step(step);
      if (step > warm_up) seconds[i].push_back(took);
      if (step == warm_up) before[i] = cases[i]->tables().file_figures();
    }
  }
  const char* const names[2] = {"cached", "without a cache"};
  double medians[2];
  const int counted = bench.steps - 1;
  for (int i = 0; i < 2; ++i) {
    const embedding::FileFigures after = cases[i]->tables().file_figures();
    std::vector<double> sums{static_cast<double>(after.hits - before[i].hits),
                             static_cast<double>(after.misses - before[i].misses),
                             static_cast<double>(after.reads - before[i].reads),
                             static_cast<double>(after.reads_hidden - before[i].reads_hidden),
                             static_cast<double>(after.bytes_read - before[i].bytes_read),
                             static_cast<double>(after.bytes_written - before[i].bytes_written),
                             after.stall_seconds - before[i].stall_seconds,
                             static_cast<double>(after.memory_bytes)};
    comm.all_reduce(View(std::span(sums)), ReduceOp::sum, Stream()).wait();
    medians[i] = bench::median(seconds[i]);
    if (!says) continue;
    std::printf(
        "%-16s step %8.2f ms (%.2f to %.2f), hit rate %.4f, reads hidden %.3f, a step: %.1f MB read, %.1f MB "
        "written, %.2f ms stalled a rank; %.0f MB of memory\n",
        names[i], medians[i] * 1e3, seconds[i].front() * 1e3, seconds[i].back() * 1e3,
        sums[0] / std::max(1.0, sums[0] + sums[1]), sums[3] / std::max(1.0, sums[2]),
        sums[4] * 1e-6 / counted, sums[5] * 1e-6 / counted, sums[6] * 1e3 / counted / comm.size(),
        sums[7] * 1e-6);
  }
  if (!says) return 0;
  const FixedSets sets = fixed_sets(bench, zipf, cached.tables().placement().tables[0], comm.size());
  std::printf(
      "best fixed set of rows, known when all is over: hit rate %.4f; the set that Zipf's law names: %.4f\n",
      sets.best / sets.reads, sets.by_law / sets.reads);
  std::printf("step without a cache / step with it: %.2f\n", medians[1] / medians[0]);
  return 0;
}

int run(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "file") return run_file(argc, argv);
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
