#include "gradient/reducer/parameter_claim.hpp"

#include <unordered_map>

#include "core/memory/per_process.hpp"

namespace weft::detail {
namespace {

struct Claimed {
  const ParameterClaim* by;
  const char* owner;
};
constinit PerProcess<std::unordered_map<const void*, Claimed>> claims;

}  // namespace

std::optional<ParameterClaim::Other> ParameterClaim::take(const std::vector<const void*>& keys,
                                                          const char* owner) {
  taken_.reserve(keys.size());
  return claims.use([&](auto& all) -> std::optional<Other> {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (const auto there = all.find(keys[i]); keys[i] != nullptr && there != all.end())
        return Other{i, there->second.owner};
    }
    for (const void* key : keys) {
      if (key == nullptr) continue;
      all.emplace(key, Claimed{this, owner});
      taken_.push_back(key);
    }
    return std::nullopt;
  });
}

ParameterClaim::~ParameterClaim() {
  if (taken_.empty()) return;
  claims.use([&](auto& all) {
    for (const void* key : taken_) {
      const auto there = all.find(key);  // a child after fork() has none
      if (there != all.end() && there->second.by == this) all.erase(there);
    }
  });
}

}  // namespace weft::detail
