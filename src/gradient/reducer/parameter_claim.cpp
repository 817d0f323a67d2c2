#include "gradient/reducer/parameter_claim.hpp"

#include <unordered_map>

#include "core/memory/per_process.hpp"

namespace weft::detail {
namespace {

struct Claimed {
  const ParameterClaim* by;
  const char* owner;
};
using Claims = std::unordered_map<const void*, Claimed>;
constinit PerProcess<Claims> claims;

/// A child after fork() has none.
void release(Claims& all, const std::vector<const void*>& keys, const ParameterClaim* by) {
  for (const void* key : keys) {
    const auto there = all.find(key);
    if (there != all.end() && there->second.by == by) all.erase(there);
  }
}

}  // namespace

std::optional<ParameterClaim::Other> ParameterClaim::take(const std::vector<const void*>& keys,
                                                          const char* owner) {
  std::vector<const void*> known;
  known.reserve(keys.size());
  return claims.use([&](Claims& all) -> std::optional<Other> {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == nullptr) continue;
      const auto there = all.find(keys[i]);
      if (there != all.end() && there->second.by != this) return Other{i, there->second.owner};
      known.push_back(keys[i]);
    }
    release(all, taken_, this);
    taken_ = std::move(known);
    for (const void* key : taken_) all.emplace(key, Claimed{this, owner});
    return std::nullopt;
  });
}

void ParameterClaim::take(const std::vector<const void*>& keys, const ParamLayout& layout,
                          const Communicator& comm, const char* owner) {
  const auto other = take(keys, owner);
  if (!other) return;
  const ParamId id{static_cast<std::int32_t>(other->key) % layout.parameters()};
  const bool same = std::string_view(owner) == other->owner;
  const Error error(ErrorKind::usage,
                    text("parameter ", layout.name(id), " belongs to ", same ? "another " : "a ",
                         other->owner, " of this process, which still lives"),
                    "a parameter's gradient is averaged once: end the other one first, or leave the "
                    "parameter to it",
                    {comm.rank(), owner, 0});
  Communicator(comm).give_up(error);
  throw error;
}

ParameterClaim::~ParameterClaim() {
  if (taken_.empty()) return;
  claims.use([&](Claims& all) { release(all, taken_, this); });
}

std::vector<const void*> storages_of(const ParamLayout& layout) {
  std::vector<const void*> storages;
  for (int i = 0; i < layout.parameters(); ++i) storages.push_back(layout.storage(ParamId{i}));
  return storages;
}

}  // namespace weft::detail
