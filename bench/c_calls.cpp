// What a call through weft.h costs beside the same call in C++, on one rank: nanoseconds, of calls in turns within one process.
//
//   bench_c_calls [ROUNDS]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/weft.h"

namespace {

using namespace weft;

constexpr int calls_of_a_round = 20'000;

double nanoseconds_of(const std::function<void(int)>& calls) {
  const auto begin = std::chrono::steady_clock::now();
  calls(calls_of_a_round);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
         calls_of_a_round;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void must(weft_status_t status) {
  if (status == WEFT_OK) return;
  std::fprintf(stderr, "%s\n", weft_error());
  std::exit(weft_exit_code(status));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 101;
  Communicator comm = self();
  Stream stream;
  std::vector<float> data(8);
  float* const memory = data.data();
  const View view{std::span(data)};
  weft_comm_t comm_in_c = nullptr;
  weft_stream_t stream_in_c = nullptr;
  must(weft_comm_self(&comm_in_c));
  must(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream_in_c));
  const Work done = comm.barrier(stream);
  weft_work_t done_in_c = nullptr;
  must(weft_comm_barrier(comm_in_c, stream_in_c, &done_in_c));

  struct Row {
    const char* name;
    std::function<void(int)> in_cpp, in_c;
  };
  int sum = 0;
  const std::vector<Row> rows = {
      {"rank",
       [&](int n) {
         while (n-- > 0) sum += comm.rank();
       },
       [&](int n) {
         while (n-- > 0) sum += weft_comm_rank(comm_in_c);
       }},
      {"all_reduce",
       [&](int n) {
         while (n-- > 0) comm.all_reduce(view, ReduceOp::sum, stream);
       },
       [&](int n) {
         while (n-- > 0)
           must(weft_comm_all_reduce(comm_in_c, memory, memory, 8, WEFT_F32, WEFT_SUM, stream_in_c, nullptr));
       }},
      {"all_reduce, and its work kept",
       [&](int n) {
         while (n-- > 0) {
           const Work work = comm.all_reduce(view, ReduceOp::sum, stream);
           work.wait();
         }
       },
       [&](int n) {
         while (n-- > 0) {
           weft_work_t work = nullptr;
           must(weft_comm_all_reduce(comm_in_c, memory, memory, 8, WEFT_F32, WEFT_SUM, stream_in_c, &work));
           must(weft_work_wait(work, WEFT_NO_DEADLINE));
           must(weft_work_free(work));
         }
       }},
      {"done",
       [&](int n) {
         while (n-- > 0) sum += done.done() ? 1 : 0;
       },
       [&](int n) {
         while (n-- > 0) sum += weft_work_done(done_in_c);
       }},
      {"poll",
       [&](int n) {
         while (n-- > 0) sum += stream.poll() ? 1 : 0;
       },
       [&](int n) {
         while (n-- > 0) sum += weft_stream_poll(stream_in_c);
       }},
      {"synchronize",
       [&](int n) {
         while (n-- > 0) stream.synchronize();
       },
       [&](int n) {
         while (n-- > 0) must(weft_stream_synchronize(stream_in_c, WEFT_NO_DEADLINE));
       }},
  };
  std::printf(
      "%-32s %8s %8s %8s   (ns a call, medians of %d rounds; a work that is kept is three calls in C)\n",
      "call", "C++", "C", "more", rounds);
  for (const Row& row : rows) {
    std::vector<double> in_cpp;
    std::vector<double> in_c;
    std::vector<double> more;
    for (int round = 0; round < rounds; ++round) {
      in_cpp.push_back(nanoseconds_of(row.in_cpp));
      in_c.push_back(nanoseconds_of(row.in_c));
      more.push_back(in_c.back() - in_cpp.back());
    }
    std::printf("%-32s %8.1f %8.1f %8.1f\n", row.name, median(in_cpp), median(in_c), median(more));
  }
  must(weft_work_free(done_in_c));
  must(weft_stream_free(stream_in_c));
  must(weft_comm_free(comm_in_c));
  return sum == 0 ? 1 : 0;
}
