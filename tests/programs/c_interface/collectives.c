/* weft.h from C alone: every collective, messages, split, and works, on any number of ranks; each result is compared with what a loop over the
   ranks gives. Numbers are small and whole, so that every order of a sum has the same bits. */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

#define CHECK(call)                                     \
  do {                                                  \
    if ((call) != WEFT_OK) {                            \
      fprintf(stderr, "%s: %s\n", #call, weft_error()); \
      exit(weft_exit_code(weft_last_status()));         \
    }                                                   \
  } while (0)
#define EXPECT(held)                                                   \
  do {                                                                 \
    if (!(held)) {                                                     \
      fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #held); \
      exit(1);                                                         \
    }                                                                  \
  } while (0)

enum { n = 5000 };

static float value(int rank, int64_t i) {
  return (float)((i * 7 + rank * 13) % 64);
}

static void called(void* context) {
  ++*(int*)context;
}

int main(void) {
  weft_world_t world = NULL;
  weft_comm_t comm = NULL;
  weft_stream_t stream = NULL;
  CHECK(weft_world_from_environment(NULL, &world));
  CHECK(weft_comm_connect(world, NULL, &comm));
  CHECK(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
  const int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
  EXPECT(rank == weft_world_rank(world) && ranks == weft_world_size(world));
  weft_buffer_t memory[2];
  for (int i = 0; i < 2; ++i) CHECK(weft_buffer_create(comm, WEFT_F32, (int64_t)n * ranks, &memory[i]));
  float *in = weft_buffer_data(memory[0]), *out = weft_buffer_data(memory[1]);
  const int64_t all = (int64_t)n * ranks;
  for (int64_t i = 0; i < all; ++i) in[i] = value(rank, i);

  weft_work_t work = NULL;
  int calls = 0;
  CHECK(weft_comm_all_reduce(comm, in, out, all, WEFT_F32, WEFT_AVG, stream, &work));
  CHECK(weft_work_then(work, called, &calls));
  CHECK(weft_work_wait(work, 60));
  EXPECT(weft_work_done(work) == 1 && calls == 1);
  CHECK(weft_work_free(work));
  for (int64_t i = 0; i < all; ++i) {
    float sum = 0;
    for (int one = 0; one < ranks; ++one) sum += value(one, i);
    EXPECT(out[i] == sum / (float)ranks);
  }
  CHECK(weft_comm_reduce_scatter(comm, in, out, n, WEFT_F32, WEFT_SUM, stream, NULL));
  CHECK(weft_stream_synchronize(stream, WEFT_NO_DEADLINE));
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int one = 0; one < ranks; ++one) sum += value(one, (int64_t)n * rank + i);
    EXPECT(out[i] == sum);
  }
  CHECK(weft_comm_all_gather(comm, in, out, n, WEFT_F32, stream, NULL));
  CHECK(weft_stream_synchronize(stream, WEFT_NO_DEADLINE));
  for (int64_t i = 0; i < all; ++i) EXPECT(out[i] == value((int)(i / n), i % n));
  CHECK(weft_comm_all_to_all(comm, in, out, n, WEFT_F32, stream, NULL));
  CHECK(weft_stream_synchronize(stream, WEFT_NO_DEADLINE));
  for (int64_t i = 0; i < all; ++i) EXPECT(out[i] == value((int)(i / n), (int64_t)n * rank + i % n));
  CHECK(weft_comm_reduce(comm, in, rank == 0 ? out : NULL, n, WEFT_F32, WEFT_MAX, 0, stream, NULL));
  CHECK(weft_stream_synchronize(stream, WEFT_NO_DEADLINE));
  for (int64_t i = 0; i < n && rank == 0; ++i) {
    float most = 0;
    for (int one = 0; one < ranks; ++one) most = value(one, i) > most ? value(one, i) : most;
    EXPECT(out[i] == most);
  }
  CHECK(weft_comm_broadcast(comm, in, n, WEFT_F32, ranks - 1, stream, NULL));
  CHECK(weft_comm_barrier(comm, stream, NULL));
  CHECK(weft_stream_synchronize(stream, WEFT_NO_DEADLINE));
  for (int64_t i = 0; i < n; ++i) EXPECT(in[i] == value(ranks - 1, i));

  /* A ring of messages; then the odd and the even ranks apart. */
  weft_group_t group = NULL;
  int64_t mine = 100 + rank, theirs = -1;
  CHECK(weft_group_create(comm, WEFT_HOST, &group));
  CHECK(weft_group_receive(group, &theirs, 1, WEFT_I64, (rank + ranks - 1) % ranks, 7));
  CHECK(weft_group_send(group, &mine, 1, WEFT_I64, (rank + 1) % ranks, 7));
  CHECK(weft_group_start(group, stream, &work));
  CHECK(weft_work_wait(work, 60));
  CHECK(weft_work_free(work));
  CHECK(weft_group_free(group));
  EXPECT(theirs == 100 + (rank + ranks - 1) % ranks);
  weft_comm_t part = NULL;
  CHECK(weft_comm_split(comm, rank % 2, -rank, &part));
  int64_t sum = rank, expected = 0;
  CHECK(weft_comm_all_reduce(part, &sum, &sum, 1, WEFT_I64, WEFT_SUM, stream, NULL));
  CHECK(weft_stream_synchronize(stream, WEFT_NO_DEADLINE));
  for (int one = rank % 2; one < ranks; one += 2) expected += one;
  EXPECT(sum == expected && weft_comm_size(part) == (ranks - rank % 2 + 1) / 2);
  CHECK(weft_comm_free(part));
  CHECK(weft_comm_split(comm, WEFT_NO_COLOR, 0, &part));
  EXPECT(part == NULL);

  char said[200];
  EXPECT(weft_comm_explain(comm, WEFT_ALL_REDUCE, WEFT_F32, n, WEFT_SUM, said, sizeof said) > 0);
  EXPECT(weft_comm_explain(comm, WEFT_ALL_REDUCE, WEFT_F32, n, WEFT_SUM, NULL, 0) > 0);
  EXPECT(ranks == 1 || weft_comm_wire_bytes(comm) > 0);
  EXPECT(weft_comm_all_reduce(comm, in, out, n, 99, WEFT_SUM, stream, NULL) == WEFT_USAGE);
  EXPECT(weft_exit_code(weft_last_status()) == 42);
  printf("rank %d of %d: all results are right, over %s\n", rank, ranks, weft_comm_backend(comm));
  for (int i = 0; i < 2; ++i) CHECK(weft_buffer_free(memory[i]));
  CHECK(weft_stream_free(stream));
  CHECK(weft_comm_free(comm));
  CHECK(weft_world_free(world));
  return 0;
}
