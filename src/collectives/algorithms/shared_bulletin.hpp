#pragma once
// The Bulletin of ranks that share memory: what each has issued for its device stands in its Line.

#include "collectives/algorithms/shared_ground.hpp"

namespace weft::detail {

class SharedBulletin final : public Bulletin {
 public:
  explicit SharedBulletin(SharedGround& ground) : ground_(ground) {}

  void issued(const Operation& operation) override;
  void compare(const Operation& operation) const override;
  std::string behind(std::uint64_t number) const override;
  std::optional<std::string> lost(std::uint64_t number) const override;

 private:
  SharedGround& ground_;
};

}  // namespace weft::detail
