#pragma once
// A model's parameters without the frozen ones: a plain value.
//
// Gradients, buckets, shards and optimizer state have a layout of the trained parameters alone, in which they
// are numbered from 0. Frozen parameters have a layout of their own. Without frozen parameters the trained
// layout is the model's, and numbers are the same.

#include <optional>
#include <vector>

#include "weft/gradient/param_layout.hpp"

namespace weft::detail {

class TrainedParams {
 public:
  /// @param frozen of the model, in any order
  /// @throws Error (usage) if a number belongs to no parameter or is given twice, and if all parameters are
  /// frozen
  TrainedParams(const ParamLayout& model, const std::vector<ParamId>& frozen);

  const ParamLayout& model() const { return model_; }
  const ParamLayout& trained() const { return trained_; }
  /// nullopt if nothing is frozen.
  const std::optional<ParamLayout>& frozen() const { return frozen_; }
  bool is_frozen(ParamId id) const { return is_frozen_[index(id)]; }
  /// The number of one of the model's parameters in the layout that it is in: trained() or frozen().
  ParamId number(ParamId id) const { return number_[index(id)]; }
  /// The number among the trained. @param operation for the message
  /// @throws Error (usage) for a frozen parameter, which has no gradient
  ParamId trained(ParamId id, const char* operation) const;
  /// The numbers of the parameters in `ids` that are trained. @param name of the list, for the message
  /// @throws Error (usage) if a number belongs to no parameter
  std::vector<ParamId> trained_of(const std::vector<ParamId>& ids, const char* name) const;
  /// Units of the model that have trained parameters, by number; `firsts` are the model's, or empty.
  struct Units {
    std::vector<ParamId> firsts{};  ///< among the trained; empty if `firsts` are
    std::vector<std::size_t> of{};  ///< the model's number of each
  };
  Units units(const std::vector<ParamId>& firsts) const;

 private:
  ParamLayout model_;
  std::vector<bool> is_frozen_;  // by parameter of the model
  std::vector<ParamId> number_;
  ParamLayout trained_;
  std::optional<ParamLayout> frozen_;
};

}  // namespace weft::detail
