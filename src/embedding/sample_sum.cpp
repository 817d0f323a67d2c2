#include "embedding/sample_sum.hpp"

#include "embedding/row_loops.hpp"

namespace weft::detail {

bool SampleRange::is_one_part() const {
  return count < 2 || has_whole_block(first, height_over(first, first + count - 1));
}

void SampleSum::begin(int columns, const SampleRange* mine) {
  columns_ = columns;
  mine_ = mine;
  finished_ = true;
}

float* SampleSum::push(std::int64_t sample) {
  if (finished_) {
    samples_.clear();
    heights_.clear();
    finished_ = false;
  }
  int height = 0;
  if (!samples_.empty()) {
    height = height_over(samples_.back(), sample);
    while (samples_.size() > 1 && heights_.back() < height && merge()) {
    }
  }
  samples_.push_back(sample);
  heights_.push_back(height);
  const std::size_t columns = static_cast<std::size_t>(columns_);
  if (values_.size() < samples_.size() * columns) values_.resize(2 * samples_.size() * columns);
  return values_.data() + (samples_.size() - 1) * columns;
}

bool SampleSum::merge() {
  if (mine_ != nullptr && !mine_->has_whole_block(samples_.back(), heights_.back())) return false;
  const std::size_t columns = static_cast<std::size_t>(columns_);
  float* const last = values_.data() + (samples_.size() - 1) * columns;
  add_row(last - columns, last, columns_);
  samples_.pop_back();
  heights_.pop_back();
  return true;
}

SampleSum::Parts SampleSum::finish() {
  // From the last on heights grow. Below one that may not be merged none is left that may: push() has merged what is lower.
  while (samples_.size() > 1 && merge()) {
  }
  finished_ = true;
  return {samples_, values_.data()};
}

}  // namespace weft::detail
