#pragma once
// How a model is cut over GPUs. Ranks are numbered as Megatron-LM numbers them: tensor, then context, then
// data, then pipeline; so groups of tensor parallelism lie within a node as long as they fit there.
//
//   Plan plan{.gpus = 512, .tensor = 8, .pipeline = 2, .micro_batch = 4, .global_batch = 1536, ...};
//   expect_divides(model, hardware, plan);     // throws, and says what does not divide
//
// Plain values, any thread.

#include <cstdint>
#include <string>
#include <string_view>

#include "weft-plan/scale/hardware.hpp"
#include "weft-plan/scale/model.hpp"
#include "weft-plan/scale/software.hpp"

namespace weft::scale {

enum class Recompute {
  none,
  selective,  ///< what attention computes between its products
  full,       ///< whole layers
};
const char* name(Recompute recompute);
/// @throws Error (usage) for another word than none, selective and full
Recompute recompute_named(std::string_view word);

enum class Precision { bf16, fp8 };
const char* name(Precision precision);
/// @throws Error (usage) for another word than bf16 and fp8
Precision precision_named(std::string_view word);

struct Plan {
  std::int64_t gpus = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t virtual_stages = 0;  ///< on each device; 0: as the software takes them
  std::int64_t micro_batch = 1;     ///< sequences
  std::int64_t global_batch = 1;    ///< sequences
  int zero = 0;                     ///< stage
  Recompute recompute = Recompute::none;
  bool sequence_parallel = false;
  Precision precision = Precision::bf16;
  std::string schedule{};  ///< a name of weft-plan schedule; empty: 1f1b, or interleaved
  std::string software{};  ///< empty: the hardware's

  std::int64_t data() const { return gpus / (tensor * pipeline * context); }
  std::int64_t microbatches() const { return global_batch / (data() * micro_batch); }
  std::int64_t stages() const { return pipeline * virtual_stages; }
};

/// The software that is meant: the one that is named; else the hardware's, or the first that has what the plan
/// asks for.
const Software& software_of(const Hardware& hardware, const Plan& plan);
/// The same plan with what was left open: software, virtual stages and schedule. @throws Error (usage) for counts
/// that are none
Plan completed(const Model& model, const Hardware& hardware, Plan plan);

/// @param plan completed. @throws Error (usage) naming the option, its value and what would divide
void expect_divides(const Model& model, const Hardware& hardware, const Plan& plan);

/// The layers of a stage: all have as many; or the first and the last have one less, which leaves room for the
/// embedding and the logits.
std::int64_t layers_of_stage(const Model& model, const Plan& plan, std::int64_t stage);

}  // namespace weft::scale
