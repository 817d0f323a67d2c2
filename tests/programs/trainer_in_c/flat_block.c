/* A trainer in C whose gradients lie in one block by kind, as llm.c's do, on the exchange of bench/peers/llmc. Every mean is compared with
   what a loop over the ranks gives: gradients are small whole numbers, so that every order of a sum has the same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "exchange.h"

enum { kinds = 16, layers = 3 };

static float made(int rank, size_t i, int step) {
  return (float)((i * 7 + (size_t)rank * 13 + (size_t)step * 5) % 64);
}

int main(void) {
  /* Some reduced where they lie (64 KiB or more), some not; sizes by layer that are no whole cache lines, too. */
  const size_t by_layer[kinds] = {40000, 1003, 256,   256, 20000, 771, 16384, 257,
                                  256,   256,  17001, 100, 30000, 5,   256,   255};
  size_t sizes[kinds], starts[kinds], count = 0;
  for (int kind = 0; kind < kinds; ++kind) {
    sizes[kind] = by_layer[kind] * (kind >= 2 && kind < kinds - 2 ? layers : 1);
    starts[kind] = count;
    count += sizes[kind];
  }
  exchange_connect();
  const int rank = exchange_rank(), ranks = exchange_ranks();
  float* values = exchange_allocate(count * sizeof(float));
  float* block = exchange_allocate(count * sizeof(float));
  exchange_parameters(block, values, sizes, kinds, layers);
  for (int step = 0; step < 5; ++step) {
    exchange_begin();
    for (size_t i = 0; i < count; ++i) block[i] = made(rank, i, step);
    for (int kind = kinds - 2; kind < kinds; ++kind) exchange_ready(block + starts[kind]);
    for (int layer = layers - 1; layer >= 0; --layer) {
      for (int kind = kinds - 3; kind >= 2; --kind)
        exchange_ready(block + starts[kind] + (size_t)layer * by_layer[kind]);
    }
    exchange_ready(block + starts[1]);
    exchange_ready(block + starts[0]);
    exchange_finish();
    for (size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int one = 0; one < ranks; ++one) sum += made(one, i, step);
      if (block[i] != sum / (float)ranks) {
        fprintf(stderr, "rank %d, step %d, element %zu: %g, and the mean is %g\n", rank, step, i, block[i],
                sum / (float)ranks);
        return 1;
      }
    }
  }
  exchange_end();
  printf("rank %d of %d has the means of 5 steps\n", rank, ranks);
  return 0;
}
