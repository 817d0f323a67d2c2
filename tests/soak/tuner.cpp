// soak_tuner SEED CALLS: random calls of libnccl-tuner-weft.so through each of its interfaces, as NCCL calls it: random tables (some with bad rows),
// communicators that come and go, any collective, size and table of costs. Each answer is that of a plain reading of the rows, and nothing else is
// touched.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>

#include "unit/tools/weft-report/tuner/loading_nccl.hpp"
#include "weft-report/tuner/rows.hpp"

namespace weft::tuner {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int count) {
  return static_cast<int>(random() % static_cast<unsigned>(count));
}

std::string any_or(Random& random, int most) {
  return std::to_string(below(random, 2) == 0 ? -1 : 1 + below(random, most));
}

template <class Names>
std::string one_of(Random& random, const Names& names) {
  return std::string(names[random() % names.size()]);
}

std::size_t some_bytes(Random& random) {
  return random() >> below(random, 64);
}

std::string random_row(Random& random) {
  const std::size_t from = some_bytes(random) >> 1, to = some_bytes(random) >> 1;
  std::string row = one_of(random, collective_names) + ',' + std::to_string(std::min(from, to)) + ',' +
                    (below(random, 3) == 0 ? "-1" : std::to_string(std::max(from, to))) + ',' +
                    one_of(random, algorithm_names) + ',' + one_of(random, protocol_names) + ',' +
                    any_or(random, 64) + ',' + any_or(random, 3) + ',' + any_or(random, 3);
  if (below(random, 2) == 0) row += ',' + any_or(random, 3);
  if (below(random, 10) == 0) row[random() % row.size()] = static_cast<char>(random());
  return row + '\n';
}

struct Call {
  int collective;
  std::size_t bytes;
  int pipe_ops;
  int registered;
  CostTable costs;
};

Call random_call(Random& random) {
  Call call{below(random, 12) - 2, some_bytes(random), 1 + below(random, 4), below(random, 2), {}};
  for (float& cost : call.costs)
    cost = below(random, 2) == 0 ? -1.0F : static_cast<float>(below(random, 1000)) * 0.5F;
  return call;
}

/// Whether an answer is what the rows say. @param table the rows of the file, @param ranks and @param nodes of the communicator
bool is_right(const Choice& choice, const Call& call, const Table& table, Release release, std::size_t ranks,
              std::size_t nodes) {
  Choice expected{.after = call.costs};
  if (release ==
      Release::
          v2_21) {  // what it refuses is tested row by row; here: it changes no table and takes a row that matches, or none
    if (choice.after != call.costs) return false;
    if (choice.algorithm < 0) return choice.protocol < 0 && choice.channels == 0;
    return std::ranges::any_of(table.rows, [&](const Row& row) {
      return row.fits(ranks, nodes) && row.matches(call.collective, call.bytes, call.pipe_ops, not_told) &&
             row.algorithm == choice.algorithm && row.protocol == choice.protocol &&
             std::max(row.channels, 0) == choice.channels;
    });
  }
  const int told = release == Release::v2_22 ? not_told : call.registered;
  for (const Row& row : table.rows) {
    if (!row.fits(ranks, nodes) || !row.matches(call.collective, call.bytes, call.pipe_ops, told)) continue;
    if (release == Release::v2_22 && row.algorithm == pat) continue;
    float& entry = expected.after[static_cast<std::size_t>(row.algorithm * 3 + row.protocol)];
    if (entry == -1.0F) continue;
    entry = 0;
    expected.channels = std::max(row.channels, 0);
    break;
  }
  return choice == expected;
}

void run(Release release, Random& random, long calls, const std::string& path) {
  const LoadingNccl nccl(release, "weft");
  if (!nccl.loaded()) throw std::runtime_error("libnccl-tuner-weft.so is not found");
  long done = 0, taken = 0;
  while (done < calls) {
    std::string content;
    for (int i = below(random, 30); i >= 0; --i) content += random_row(random);
    std::ofstream(path) << content;
    const Table table = Table::parse(content);
    const std::size_t ranks = 1 + random() % 3, nodes = 1 + random() % 3;
    Communicator communicator(nccl, ranks, nodes);
    for (int i = 0; i < 2000 && done < calls; ++i, ++done) {
      const Call call = random_call(random);
      const Choice choice =
          communicator.ask(call.collective, call.bytes, call.pipe_ops, call.costs, call.registered);
      if (!is_right(choice, call, table, release, ranks, nodes))
        throw std::runtime_error("a wrong answer to call " + std::to_string(done) + " of interface v" +
                                 std::to_string(nccl.interface()));
      taken += choice.algorithm >= 0 || choice.after != call.costs ? 1 : 0;
    }
  }
  std::printf("v%d: %ld calls, a row was taken in %ld\n", nccl.interface(), done, taken);
  if (taken == 0) throw std::runtime_error("no row was ever taken");
}

}  // namespace
}  // namespace weft::tuner

int main(int argc, char** argv) try {
  using namespace weft::tuner;
  const long seed = argc > 1 ? std::atol(argv[1]) : 1, calls = argc > 2 ? std::atol(argv[2]) : 10'000'000;
  const std::string path =
      std::filesystem::temp_directory_path() / ("weft-soak-tuner-" + std::to_string(getpid()));
  setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
  Random random(static_cast<std::uint64_t>(seed));
  for (const Release release :
       {Release::v2_21, Release::v2_22, Release::v2_24, Release::v2_28, Release::v2_30})
    run(release, random, calls, path);
  std::filesystem::remove(path);
} catch (const std::exception& error) {
  std::printf("FAILED: %s\n", error.what());
  return 1;
}
