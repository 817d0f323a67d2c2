// What stands beside weft: no exchange (-DNONE), one MPI_Allreduce of the block (-DBY_MPI), a barrier at the end of backward and no exchange
// (-DMEET), and the reference (-DREFERENCE), whose ranks are threads of one process, of which one runs at a time, and which adds the ranks' gradients in their order and divides the sum.

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "exchange.h"
#if defined(BY_MPI) || defined(MEET)
#include <mpi.h>
#endif

namespace {

thread_local int rank = 0;
int ranks = 1;
thread_local float* block = nullptr;
thread_local size_t count = 0;
#ifdef REFERENCE
std::mutex mutex;
std::condition_variable turned;
int running = 0;
std::vector<float*> blocks;

void hand_on(std::unique_lock<std::mutex>& lock, bool comes_back) {
  running = (running + 1) % ranks;
  turned.notify_all();
  const int self = rank;
  if (comes_back) turned.wait(lock, [self] { return running == self; });
}
#endif

}  // namespace

void exchange_connect() {
#ifndef REFERENCE
#if defined(BY_MPI) || defined(MEET)
  MPI_Init(nullptr, nullptr);
#endif
  if (const char* of = std::getenv("OMPI_COMM_WORLD_RANK")) rank = std::atoi(of);
  if (const char* of = std::getenv("OMPI_COMM_WORLD_SIZE")) ranks = std::atoi(of);
#endif
}
int exchange_rank() {
  return rank;
}
int exchange_ranks() {
  return ranks;
}
void* exchange_allocate(size_t bytes) {
  constexpr size_t page =
      4096;  // as weft's memory: AVX loads that cross cache lines would cost what is not exchange
  return std::aligned_alloc(page, (bytes + page - 1) / page * page);
}
void exchange_parameters(float* gradients, float*, const size_t* sizes, int kinds, size_t) {
  block = gradients;
  for (int kind = 0; kind < kinds; ++kind) count += sizes[kind];
}
void exchange_begin() {}
void exchange_ready(const float*) {}
void exchange_finish() {
#ifdef BY_MPI
  MPI_Allreduce(MPI_IN_PLACE, block, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (size_t i = 0; i < count; ++i) block[i] /= static_cast<float>(ranks);
#endif
#ifdef MEET
  MPI_Barrier(MPI_COMM_WORLD);
#endif
#ifdef REFERENCE
  blocks.push_back(block);
  if (rank == ranks - 1) {
    for (size_t i = 0; i < count; ++i) {
      float sum = blocks[0][i];
      for (int other = 1; other < ranks; ++other) sum += blocks[static_cast<size_t>(other)][i];
      sum /= static_cast<float>(ranks);
      for (float* one : blocks) one[i] = sum;
    }
    blocks.clear();
  }
  std::unique_lock lock(mutex, std::adopt_lock);
  hand_on(lock, true);
  lock.release();
#endif
}
void exchange_end() {
#if defined(BY_MPI) || defined(MEET)
  MPI_Finalize();
#endif
}

#ifdef REFERENCE
#undef main
extern "C" int program(void);
int main() {
  if (const char* of = std::getenv("REFERENCE_RANKS")) ranks = std::atoi(of);
  std::vector<std::thread> threads;
  for (int one = 0; one < ranks; ++one) {
    threads.emplace_back([one] {
      rank = one;
      std::unique_lock lock(mutex);
      turned.wait(lock, [one] { return running == one; });
      program();
      hand_on(lock, false);
    });
  }
  for (std::thread& one : threads) one.join();
}
#endif
