#pragma once
// What a step frees stays with the process, for the next step.
//
// glibc gives the top of its heap back to the system when more than M_TRIM_THRESHOLD of it is free: 128 KiB at first, later twice the
// largest block that came from mmap() and was freed (mallopt(3)). A trainer's activations lie there, and whether a step gives them back depends
// on what happens to lie above them. Gradients that ranks reduce in other memory no longer do. Then each step faults its pages in again:
// 1,266 a step of pytorch/examples' dist-mnist on one rank, where the program without exchange has 352 (bench/results).

namespace weft::torch::detail {

/// Takes glibc's two thresholds, once a process, to where a freed block of 32 MiB takes them: up to 64 MiB stay. Nothing happens if the
/// environment sets one of them (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_), or with another allocator.
void keep_freed_memory();

}  // namespace weft::torch::detail
