// Ranks of a node do not come to a collective. All others name them at their deadline, and nobody who only waits as well.

#include <gtest/gtest.h>

#include <charconv>
#include <latch>
#include <thread>

#include "collectives/diagnosis/operation_words.hpp"
#include "support/ranks_on_nodes.hpp"
#include "support/under_tsan.hpp"

namespace weft::test {
namespace {

constexpr std::array kinds{Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                           Collective::broadcast,  Collective::reduce,         Collective::all_to_all,
                           Collective::barrier};
constexpr const char* timeout =
    "4";  // seconds: long beside the time for which a busy machine holds a thread up

void issue(Communicator& comm, Collective kind, int root, const View& whole, const View& part,
           const Stream& stream) {
  switch (kind) {
    case Collective::all_reduce:
      return comm.all_reduce(whole, ReduceOp::sum, stream).wait();
    case Collective::reduce_scatter:
      return comm.reduce_scatter(whole, part, ReduceOp::sum, stream).wait();
    case Collective::all_gather:
      return comm.all_gather(part, whole, stream).wait();
    case Collective::broadcast:
      return comm.broadcast(whole, root, stream).wait();
    case Collective::reduce:
      return comm.reduce(whole, whole, ReduceOp::sum, root, stream).wait();
    case Collective::all_to_all: {
      Buffer other = comm.allocate(whole.dtype(), whole.count());
      return comm.all_to_all(whole, other.view(), stream).wait();
    }
    default:
      return comm.barrier(stream).wait();
  }
}

/// The largest number behind a "#" in the text.
int last_number_in(const std::string& words) {
  int last = 0;
  for (std::size_t at = words.find('#'); at != std::string::npos; at = words.find('#', at + 1)) {
    int number = 0;
    std::from_chars(words.data() + at + 1, words.data() + words.size(), number);
    last = std::max(last, number);
  }
  return last;
}

struct Absence {
  std::vector<std::string> nodes;
  std::string absent;  ///< the node whose ranks do not come
  Collective kind;
  int root;
  int rank = -1;  ///< then this one alone does not come
};

void expect_blame(const Absence& absence) {
  const auto is_absent = [&](int rank) {
    if (absence.rank >= 0) return rank == absence.rank;
    return absence.nodes[static_cast<std::size_t>(rank)] == absence.absent;
  };
  std::latch over(std::ssize(absence.nodes));
  run_on_nodes(absence.nodes,
               [&](Communicator comm) {
                 SCOPED_TRACE(text(name(absence.kind), " from rank ", absence.root, " without ",
                                   absence.absent, " of ", comm.size()));
                 Buffer whole = comm.allocate(DataType::f32, 50'000 * comm.size());
                 Buffer part = comm.allocate(DataType::f32, 50'000);
                 Stream stream;
                 for (int i = 0; i < 3; ++i) comm.barrier(stream).wait();
                 if (!is_absent(comm.rank())) {
                   try {
                     issue(comm, absence.kind, absence.root, whole.view(), part.view(), stream);
                     comm.barrier(stream).wait();  // who needs nobody in a collective waits here
                     ADD_FAILURE() << "rank " << comm.rank() << " waited for nobody";
                   } catch (const Error& error) {
                     const std::vector<int> named = detail::ranks_in(error.problem());
                     EXPECT_FALSE(named.empty()) << error.what();
                     EXPECT_TRUE(std::ranges::all_of(named, is_absent)) << error.what();
                     EXPECT_LE(last_number_in(error.problem()), 5) << error.what();
                   }
                 }
                 over.arrive_and_wait();
               },
               {{"WEFT_TIMEOUT", timeout}, {"WEFT_LOG", "error"}});
}

// All at once, for each takes until its deadline.
TEST(Blame, FallsOnWhoDoesNotComeAndNotOnWhoWaitsAsWell) {
  std::vector<Absence> all;
  for (const Collective kind : kinds) {
    all.push_back({{"a", "a", "b"}, "b", kind, 0});
    all.push_back({{"a", "b", "a", "b", "c"}, "b", kind, 1});
    all.push_back({{"a", "a", "b"}, "a", kind, 0, 1});  // its neighbour sees how far it has come
  }
  if (few_under_tsan<int>({0, 1}, 1).size() == 1) all.resize(4);
  std::vector<std::thread> jobs;
  for (const Absence& absence : all) jobs.emplace_back([&] { expect_blame(absence); });
  for (std::thread& job : jobs) job.join();
}

}  // namespace
}  // namespace weft::test
