#pragma once
// A gradient sink for tests: packed memory full of NaN, so that an unwritten element shows, and the order
// of ready().

#include <limits>
#include <span>
#include <vector>

#include "weft-scaling/gpt/model/model.hpp"

namespace weft::examples {

template <class Real>
class RecordingSink final : public GradientSink<Real> {
 public:
  explicit RecordingSink(const std::vector<ParameterInfo>& infos)
      : infos_(&infos),
        offsets_(packed_offsets(infos)),
        gradients_(static_cast<std::size_t>(total_count(infos)), std::numeric_limits<Real>::quiet_NaN()) {}

  Real* target(int parameter) override {
    return gradients_.data() + offsets_[static_cast<std::size_t>(parameter)];
  }
  void ready(int parameter) override { order_.push_back(parameter); }

  const std::vector<Real>& gradients() const { return gradients_; }
  std::span<const Real> gradient(int parameter) const {
    const auto p = static_cast<std::size_t>(parameter);
    return std::span(gradients_)
        .subspan(static_cast<std::size_t>(offsets_[p]), static_cast<std::size_t>((*infos_)[p].count));
  }
  const std::vector<std::int64_t>& offsets() const { return offsets_; }
  const std::vector<int>& order() const { return order_; }

 private:
  const std::vector<ParameterInfo>* infos_;
  std::vector<std::int64_t> offsets_;
  std::vector<Real> gradients_;
  std::vector<int> order_;
};

}  // namespace weft::examples
