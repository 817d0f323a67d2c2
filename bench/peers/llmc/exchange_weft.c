/* llm.c's exchange on weft. llm.c has its gradients in one block by kind: all layers' qkvw, then all layers' attprojw. Backward finishes
   them by layer. So the layout, whose order is that of buckets, goes by layer, and gradients are reduced where they lie in the block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "exchange.h"

enum { most_blocks = 8 };

static weft_world_t world;
static weft_comm_t comm;
static weft_stream_t compute;
static weft_reducer_t reducer;
static weft_buffer_t blocks[most_blocks];
static int block_count, parameter_count;
/* By parameter: in the block, and where this step's mean is. */
static struct place {
  float *gradient, *mean;
  size_t count;
} * places;

static void must(weft_status_t status) {
  if (status == WEFT_OK) return;
  fprintf(stderr, "%s\n", weft_error());
  exit(weft_exit_code(status)); /* 42: do not retry; the other ranks hear of it */
}

void exchange_connect(void) {
  must(weft_world_from_environment(NULL, &world));
  must(weft_comm_connect(world, NULL, &comm));
  must(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &compute));
}
int exchange_rank(void) {
  return weft_comm_rank(comm);
}
int exchange_ranks(void) {
  return weft_comm_size(comm);
}
void* exchange_allocate(size_t bytes) { /* in memory that all ranks of the node reach */
  if (block_count == most_blocks) exit(70);
  must(weft_buffer_create(comm, WEFT_F32, (int64_t)(bytes / sizeof(float)), &blocks[block_count]));
  return weft_buffer_data(blocks[block_count++]);
}

void exchange_parameters(float* gradients, float* values, const size_t* sizes, int kinds, size_t layers) {
  /* Of llm.c's 16 kinds, 2 to 13 are there once a layer. The last two, of the final norm, come first in backward. */
  weft_layout_t layout;
  must(weft_layout_create(WEFT_F32, &layout));
  places = calloc((size_t)kinds * layers, sizeof *places);
  if (places == NULL) exit(70);
  /* Embeddings, to which backward adds last; then layer by layer; then the final norm. */
  for (int part = 0; part < 3; ++part) {
    const int first = part == 0   ? 0
                      : part == 1 ? 2
                                  : kinds - 2,
              last = part == 0   ? 2
                     : part == 1 ? kinds - 2
                                 : kinds;
    const size_t turns = part == 1 ? layers : 1;
    for (size_t layer = 0; layer < turns; ++layer) {
      size_t start = 0;
      for (int kind = 0; kind < last; ++kind) {
        const int64_t count = (int64_t)(sizes[kind] / turns);
        if (kind >= first) {
          const size_t at = start + layer * (size_t)count;
          char name[64];
          snprintf(name, sizeof name, "kind%d.layer%zu", kind, layer);
          const int id = weft_layout_add(layout, name, &count, 1, values + at);
          if (id < 0) must(weft_last_status());
          places[id].gradient = gradients + at;
          places[id].count = (size_t)count;
        }
        start += sizes[kind];
      }
    }
  }
  parameter_count = weft_layout_parameters(layout);
  weft_reducer_options_t options = {.size = sizeof options};
  options.bucket_bytes = 1 << 20;
  options.alone_bytes = 64 << 10; /* larger gradients are reduced where they lie */
  must(weft_reducer_create(comm, layout, &options, &reducer));
  must(weft_layout_free(layout));
}

void exchange_begin(void) {
  must(weft_reducer_begin_step(reducer, WEFT_EXCHANGE_NOW));
}
void exchange_ready(const float* gradient) {
  for (int id = 0; id < parameter_count; ++id) {
    if (places[id].gradient != gradient) continue;
    void* mean = NULL;
    must(weft_reducer_ready_in_place(reducer, id, places[id].gradient, compute, &mean));
    places[id].mean = mean;
    return;
  }
  fprintf(stderr, "no parameter has its gradient at %p\n", (const void*)gradient);
  exit(42);
}
void exchange_finish(void) {
  must(weft_reducer_finish_step(reducer, compute));
  must(weft_stream_synchronize(compute, WEFT_NO_DEADLINE));
  for (int id = 0; id < parameter_count; ++id) { /* small ones share a bucket, and were copied there */
    if (places[id].mean != places[id].gradient)
      memcpy(places[id].gradient, places[id].mean, places[id].count * sizeof(float));
  }
}
void exchange_end(void) {
  must(weft_reducer_free(reducer));
  for (int i = 0; i < block_count; ++i) must(weft_buffer_free(blocks[i]));
  must(weft_stream_free(compute));
  must(weft_comm_free(comm));
  must(weft_world_free(world));
  free(places);
}
