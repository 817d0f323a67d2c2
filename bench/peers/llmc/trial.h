/* What ../llmc.sh puts at the end of train_gpt2.c: parameters into the file TRIAL_DUMP.RANK. */
#include <stdio.h>
#include <stdlib.h>
static void trial_dump(const float* values, size_t count, int rank) {
  char name[4096];
  if (getenv("TRIAL_DUMP") == NULL) return;
  snprintf(name, sizeof name, "%s.%d", getenv("TRIAL_DUMP"), rank);
  FILE* file = fopen(name, "wb");
  if (file == NULL || fwrite(values, sizeof(float), count, file) != count || fclose(file) != 0) exit(70);
}
