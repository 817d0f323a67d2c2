#include "compression/step_figures.hpp"

namespace weft::detail {
namespace {

// A step, whether coding is in its way, and four speeds of coding.
constexpr std::size_t single_numbers = 6;

}  // namespace

std::int64_t numbers_of(std::size_t buckets, std::size_t link_samples) {
  return static_cast<std::int64_t>(single_numbers + buckets + link_samples);
}

std::vector<double> to_numbers(const StepProfile& mine, std::span<const LinkModel::Sample> link) {
  const auto& [bf16, matrix, factor, copying] = mine.coding;
  std::vector<double> numbers{mine.step_seconds, mine.beside ? 0.0 : 1.0, bf16, matrix, factor, copying};
  numbers.insert(numbers.end(), mine.ready_seconds.begin(), mine.ready_seconds.end());
  for (const auto& [bytes, seconds] : link) numbers.push_back(seconds);
  return numbers;
}

StepProfile of_numbers(std::span<const double> numbers, std::size_t buckets,
                       std::vector<LinkModel::Sample> link) {
  StepProfile profile;
  profile.step_seconds = numbers[0];
  profile.beside = numbers[1] == 0;
  profile.coding = {numbers[2], numbers[3], numbers[4], numbers[5]};
  const auto ready = numbers.subspan(single_numbers, buckets);
  profile.ready_seconds.assign(ready.begin(), ready.end());
  for (std::size_t i = 0; i < link.size(); ++i) link[i].seconds = numbers[single_numbers + buckets + i];
  profile.link = LinkModel::fit(link);
  return profile;
}

}  // namespace weft::detail
