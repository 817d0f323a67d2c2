#pragma once
// Starts the ranks of a job, here or on several hosts, and watches them to their end.

#include <string>
#include <vector>

#include "options.hpp"

namespace weft::launch {

/// @param inherited NAME=VALUE lines. @returns the status of the job
int run_job(const RunOptions& options, const std::vector<std::string>& inherited);

}  // namespace weft::launch
