#pragma once
// Which parameters are exchanged together. Pure: no communicator.

#include <vector>

#include "weft/local/local_steps.hpp"

namespace weft::detail {

/// By parameter, the number of its fragment: as the options say, or cut in the layout's order where the bytes before a cut are nearest to
/// their share. Every fragment has a parameter. @throws Error (usage) where that cannot be
std::vector<int> fragments_of(const ParamLayout& layout, const LocalStepsOptions& options);

/// The parameters of one fragment, in the layout's order.
std::vector<ParamId> parameters_of(const std::vector<int>& fragments, int fragment);

/// A layout of these parameters alone: the same one, if they are all of it.
ParamLayout layout_of(const ParamLayout& layout, const std::vector<ParamId>& ids);

/// Inner steps that a fragment is taken to have behind it at the beginning: fragment p is sent after (p + 1) * every / fragments steps for the
/// first time, and then every `every` steps.
std::int64_t steps_behind(const LocalStepsOptions& options, int fragment);

/// @throws Error (usage) for a number of fragments, a delay or a mixing out of range, with the values
void check_streaming(const LocalStepsOptions& options);

}  // namespace weft::detail
