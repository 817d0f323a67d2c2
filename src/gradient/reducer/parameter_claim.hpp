#pragma once
// Which parameters of this process an exchange has: a parameter belongs to one. Two would each average its gradient, or take the
// other's mean for a gradient of this rank.
//
//   ParameterClaim claim;                                         // ends with the exchange
//   if (const auto other = claim.take(keys, "GradientReducer")) ...   // keys[other->key] belongs to another->owner
//
// A key is what a parameter is known by: the address of its values, or of its tensor; null for one that is not known. From any
// thread. A child after fork() begins without claims.

#include <cstddef>
#include <optional>
#include <vector>

namespace weft::detail {

class ParameterClaim {
 public:
  struct Other {
    std::size_t key;    ///< the first that is taken
    const char* owner;  ///< in a program's words
  };

  ParameterClaim() = default;
  ParameterClaim(const ParameterClaim&) = delete;
  ParameterClaim& operator=(const ParameterClaim&) = delete;
  ~ParameterClaim();

  /// Takes all keys or none. Once. @param owner of static storage
  std::optional<Other> take(const std::vector<const void*>& keys, const char* owner);

 private:
  std::vector<const void*> taken_;
};

}  // namespace weft::detail
