#pragma once
// What each unit of a GPT costs on the machine at hand.
//
//   plan = found_plan({.devices = 2, .microbatches = 8, .units = measured.units, .hop = measured.hop});

#include <vector>

#include "gpt_layers.hpp"
#include "weft/pipeline/profile.hpp"

namespace weft::examples {

struct UnitCosts {
  std::vector<pipeline::StageCosts> units;  ///< of one microbatch, with what is held of it
  pipeline::Hop hop;
};

/// Every rank measures its part of the units. Collective; the same on every rank.
template <class Real>
UnitCosts measured_units(Communicator comm, Math<Real>& math, const GptSizes& sizes, int sequences,
                         const Stream& compute);

}  // namespace weft::examples
