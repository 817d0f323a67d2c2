#pragma once
// The slow, obvious twin of the verifier, for small schedules: it looks up every rule by its definition, from
// positions in rows, and finds deadlocks by going through every order in which devices and transfers can
// move.

#include <string>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::test {

/// The rule that the schedule breaks, or "". Up to 3 devices, rows of up to 250 entries.
std::string broken_rule(const pipeline::Schedule& schedule, const pipeline::Problem& problem);

/// The most bytes of activations that a device holds at once, in a schedule without a fault.
pipeline::Bytes most_held(const pipeline::Schedule& schedule, const pipeline::Problem& problem, int device);

/// States that broken_rule has visited so far, over all calls.
long states_visited();

}  // namespace weft::test
