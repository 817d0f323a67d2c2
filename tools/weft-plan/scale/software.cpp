#include "weft-plan/scale/software.hpp"

#include "weft-plan/scale/unknown_name.hpp"

namespace weft::scale {

const std::vector<Software>& all_software() {
  static const std::vector<Software> all = {
      {.name = "megatron-lm-2021",
       .about = "Narayanan et al. 2021, with the options of its published scripts: fp16, whole layers "
                "recomputed; torch's DDP "
                "without a pipeline, and sums after the last backward with one",
       .gradients = GradientOverlap::without_pipeline},
      {.name = "megatron-lm-2022",
       .about = "Korthikanti et al. 2022: sequence parallelism, selective recomputation, sums of input "
                "gradients beside the "
                "gradient of the weights",
       .tensor = TensorOverlap::backward,
       .gradients = GradientOverlap::without_pipeline,
       .fuses_accumulation = true},
      {.name = "megatron-deepspeed",
       .about = "Smith et al. 2022 (MT-NLG): Megatron-LM's layers under DeepSpeed's pipeline engine"},
      {.name = "megatron-core",
       .about =
           "Megatron-Core from 2024 on with the options of its published figures: --overlap-grad-reduce, "
           "--overlap-param-gather, --tp-comm-overlap, fused attention, f32 sums of gradients",
       .fused_attention = true,
       .tensor = TensorOverlap::chunked,
       .gradients = GradientOverlap::always,
       .overlaps_transfers = true,
       .fuses_accumulation = true,
       .gradient_bytes = 4,
       .shortens_ends = true,
       .interleaves = true},
  };
  return all;
}

const Software& software_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Software& one : all_software()) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  refuse_name("software", name, names, "");
}

}  // namespace weft::scale
