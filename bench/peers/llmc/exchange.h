/* What llm.c's train_gpt2.c calls to train on several ranks: on weft (exchange_weft.c), or on what stands beside it in ../llmc.sh. */
#ifndef EXCHANGE_H
#define EXCHANGE_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void exchange_connect(void);
int exchange_rank(void);
int exchange_ranks(void);
/* Memory for a flat block, which the exchange frees. */
void* exchange_allocate(size_t bytes);
/* The block: gradients and their parameters by kind, sizes[k] elements of each of `kinds`; some kinds are there once a layer. */
void exchange_parameters(float* gradients, float* values, const size_t* sizes, int kinds, size_t layers);
void exchange_begin(void);
/* This gradient of the block is complete. */
void exchange_ready(const float* gradient);
/* All gradients of the block are means. */
void exchange_finish(void);
void exchange_end(void);
#ifdef __cplusplus
}
#endif
#endif
