#pragma once
// Which parameters of this process an exchange has: a parameter belongs to one. Two would each average its gradient, or take the
// other's mean for a gradient of this rank. One table for all that exchanges gradients, weft::torch included.
//
//   ParameterClaim claim;                                         // ends with the exchange
//   claim.take(storages_of(layout), layout, comm, "GradientReducer");  // or throws, on every rank
//   if (claim.take({&params}, "ShardedOptimizer")) ...                 // another one has it
//
// A key is what a parameter is known by: the address of its values, or of its tensor; null for one that is not known. Whoever lets
// values move takes the new addresses, and keeps the old memory until then. From any thread. A child after fork() begins without
// claims.

#include <cstddef>
#include <optional>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/param_layout.hpp"

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

  /// Takes all keys, in place of those that it has, or changes nothing. @param owner of static storage
  std::optional<Other> take(const std::vector<const void*>& keys, const char* owner);
  /// The same. @param keys of the layout's parameters in turn, once or several times over
  /// @throws Error (usage), also on the other ranks, naming a parameter that another one has
  void take(const std::vector<const void*>& keys, const ParamLayout& layout, const Communicator& comm,
            const char* owner);

 private:
  std::vector<const void*> taken_;
};

/// By parameter.
std::vector<const void*> storages_of(const ParamLayout& layout);

}  // namespace weft::detail
