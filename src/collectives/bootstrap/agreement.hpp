#pragma once
// What all ranks must have in common before data moves: a rank of another build, or with another option, would
// read the others' messages wrongly, or sum in another order.
//
// Ranks compare one number; only where it differs do they exchange the facts themselves, to say which.

#include <string>
#include <utility>
#include <vector>

#include "weft/collectives/rendezvous.hpp"

namespace weft::detail {

/// What this build of weft says of itself to the other ranks.
struct Build {
  std::string version;
  int wire_format;  ///< grows with every change of what ranks say to each other

  /// Tests pose as another build by writing to it.
  static Build& mine();
};

class Facts {
 public:
  /// @param name as a user knows it: a variable, an option
  void add(std::string name, std::string value) { lines_.emplace_back(std::move(name), std::move(value)); }
  /// 16 digits; the same for the same facts.
  std::string digest() const;

  /// Collective: all ranks have the digests of all. Returns where they are equal.
  /// @throws Error (mismatch) with the first fact in which a rank differs from rank 0
  void expect_equal(const std::vector<std::string>& digests, Rendezvous& rendezvous, Deadline deadline) const;

 private:
  std::string note() const;

  std::vector<std::pair<std::string, std::string>> lines_;
};

}  // namespace weft::detail
