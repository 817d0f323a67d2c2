// Data-parallel training on text, byte by byte, in C (docs/c.md): weft-launch -n 2 ./trainer [TEXT [FOLDER OF CHECKPOINTS]]
//   gcc -std=c11 -O2 main.c -o trainer $(pkg-config --cflags --libs weft) -lm
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { context = 6, bytes = 256, hidden = 32 };  // 6 bytes in, 32 hidden values, 256 probabilities out
enum { steps = 400, rows = 64 };                 // a step learns so many rows of the text on each rank
enum { embed, head, parameters };
static const int64_t sizes[parameters] = {context * bytes * hidden, bytes* hidden};

static unsigned char text[1 << 24], *x[rows];  // each row: 6 bytes of text, and the byte to predict
static float *w[parameters], h[rows][hidden], y[rows][bytes];  // hidden values; gradient before softmax
static size_t length;

static void must(weft_status_t status) {  // an error ends this rank; the others hear of it
  if (status == WEFT_OK) return;
  fprintf(stderr, "%s\n", weft_error());
  exit(weft_exit_code(status));
}

static void read_text(const char* name) {
  FILE* file = fopen(name, "rb");
  if (file != NULL) length = fread(text, 1, sizeof text, file);
  if (length < 10000) fprintf(stderr, "no 10000 bytes of text in %s\n", name), exit(42);
  fclose(file);
}

static uint32_t random_of(uint64_t seed) {  // the same on every machine
  seed = (seed + 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  return (uint32_t)((seed ^ seed >> 31) * 0x94d049bb133111ebU >> 32);
}

static int at(int r, int k) {
  return (k / hidden * bytes + x[r][k / hidden]) * hidden + k % hidden;
}

static double forward(size_t begin, size_t end, uint64_t batch) {
  double loss = 0;
  memset(h, 0, sizeof h), memset(y, 0, sizeof y);
  for (int r = 0; r < rows; ++r) {
    float sum = 0;
    x[r] = text + begin + random_of(batch * rows + (uint64_t)r) % (end - begin - context);
    for (int k = 0; k < context * hidden; ++k) h[r][k % hidden] += w[embed][at(r, k)];
    for (int k = 0; k < hidden; ++k) h[r][k] = tanhf(h[r][k]);
    for (int k = 0; k < bytes * hidden; ++k) y[r][k / hidden] += h[r][k % hidden] * w[head][k];
    for (int b = 0; b < bytes; ++b) sum += y[r][b] = expf(y[r][b]);
    loss -= log(y[r][x[r][context]] / sum) / rows;
    for (int b = 0; b < bytes; ++b) y[r][b] /= sum * rows;
    y[r][x[r][context]] -= 1.0F / rows;
  }
  return loss;
}

static void backward(weft_reducer_t reducer, weft_stream_t compute) {
  float *g_embed = weft_reducer_gradient(reducer, embed), *g_head = weft_reducer_gradient(reducer, head);
  float dh[rows][hidden] = {{0}};
  memset(g_embed, 0, sizeof(float) * (size_t)sizes[embed]);
  memset(g_head, 0, sizeof(float) * (size_t)sizes[head]);
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < bytes * hidden; ++k)
      g_head[k] += y[r][k / hidden] * h[r][k % hidden], dh[r][k % hidden] += y[r][k / hidden] * w[head][k];
  must(weft_reducer_ready(reducer, head, compute));  // leaves while the rest of backward runs
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < context * hidden; ++k)
      g_embed[at(r, k)] += dh[r][k % hidden] * (1 - h[r][k % hidden] * h[r][k % hidden]);
  must(weft_reducer_ready(reducer, embed, compute));
}

int main(int argc, char** argv) {
  read_text(argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3");
  weft_world_t world;
  weft_comm_t comm;
  weft_stream_t compute;
  weft_layout_t layout;
  weft_reducer_t reducer;
  weft_checkpointer_t checkpointer;
  weft_buffer_t memory[parameters];
  must(weft_world_from_environment(NULL, &world));
  must(weft_comm_connect(world, NULL, &comm));
  must(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &compute));
  must(weft_layout_create(WEFT_F32, &layout));
  for (int id = 0; id < parameters; ++id) {
    if (weft_layout_add(layout, id == embed ? "embed" : "head", &sizes[id], 1, NULL) < 0)
      must(weft_last_status());
    must(weft_buffer_create(comm, WEFT_F32, sizes[id], &memory[id]));
    w[id] = weft_buffer_data(memory[id]);
    for (int64_t i = 0; i < sizes[id]; ++i) w[id][i] = (float)random_of((uint64_t)i) / 4e10F;
  }
  void* weights[parameters] = {w[embed], w[head]};
  must(weft_sync_initial_values(comm, layout, weights, WEFT_HOST, WEFT_FROM_RANK_0));
  must(weft_reducer_create(comm, layout, NULL, &reducer));
  const weft_checkpointer_options_t saving = {
      .size = sizeof saving, .folder = argc > 2 ? argv[2] : NULL, .every = 100, .run = "c"};
  must(weft_checkpointer_create(comm, &saving, &checkpointer));
  const int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
  int64_t step = 0;
  int go_on = 1;
  for (must(weft_checkpointer_resume(checkpointer, layout, weights, &step)); step <= steps && go_on; ++step) {
    if (step % 100 == 0 && rank == 0)
      printf("step %d: held-out loss %.4f\n", (int)step, forward(length / 10 * 9, length, 0)), fflush(stdout);
    must(weft_reducer_begin_step(reducer, WEFT_EXCHANGE_NOW));
    forward(0, length / 10 * 9, (uint64_t)(step * ranks + rank));  // the last tenth is held out
    backward(reducer, compute);
    must(weft_reducer_finish_step(reducer, compute));
    must(weft_stream_synchronize(compute, WEFT_NO_DEADLINE));
    for (int id = 0; id < parameters; ++id) {
      const float* mean = weft_reducer_gradient(reducer, id);
      for (int64_t i = 0; i < sizes[id]; ++i) w[id][i] -= mean[i];
    }
    must(weft_checkpointer_after_step(checkpointer, step + 1, step == steps, layout, weights, &go_on));
  }
  if (go_on) printf("rank %d: the first weight is %a\n", rank, w[head][0]);
  weft_checkpointer_free(checkpointer), weft_reducer_free(reducer), weft_layout_free(layout);
  weft_buffer_free(memory[embed]), weft_buffer_free(memory[head]), weft_stream_free(compute);
  weft_comm_free(comm), weft_world_free(world);
  return go_on ? 0 : 75;  // 75: start it again to go on
}
