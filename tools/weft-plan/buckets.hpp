#pragma once

#include <iosfwd>

#include "options.hpp"
#include "profile.hpp"

namespace weft::plan {

/// The plan and what it exposes, beside fixed sizes.
void explain_buckets(const Options& options, const Profile& profile, std::ostream& out);
std::string buckets_json(const Options& options, const Profile& profile);

}  // namespace weft::plan
