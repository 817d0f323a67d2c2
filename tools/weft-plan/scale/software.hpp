#pragma once
// What a trainer of the field overlaps and fuses: a row each, which decides what a plan costs beside the
// hardware. What is measured of a run is its software as much as its GPUs.

#include <string>
#include <string_view>
#include <vector>

namespace weft::scale {

/// Which collectives of tensor parallelism run beside products of matrices.
enum class TensorOverlap {
  none,
  backward,  ///< the sum of input gradients, beside the gradient of the weights
  chunked,   ///< each beside its product, in as many chunks as there are ranks
};

enum class GradientOverlap {
  none,
  without_pipeline,  ///< beside the last backward pass, where there is one stage
  always,
};

struct Software {
  std::string name;
  std::string about;  ///< when, and where it says so
  bool fused_attention = false;
  TensorOverlap tensor = TensorOverlap::none;
  GradientOverlap gradients = GradientOverlap::none;
  bool overlaps_transfers = false;  ///< a stage computes while it sends to the next
  bool fuses_accumulation = false;  ///< gradients are added to their sum by the product that makes them
  double gradient_bytes = 2;        ///< of an element of the sum, which is what ranks reduce
  bool shortens_ends = false;       ///< the first and the last stage may have a layer less than the others
  bool interleaves = false;  ///< takes as many virtual stages as divide, up to 12, where none are given
};

const std::vector<Software>& all_software();
/// @throws Error (usage) for an unknown name, with the nearest one
const Software& software_named(std::string_view name);

}  // namespace weft::scale
