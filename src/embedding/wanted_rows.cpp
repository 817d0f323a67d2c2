#include "embedding/wanted_rows.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::int64_t most_slots = std::numeric_limits<std::int32_t>::max();

void check_offsets(const embedding::Table& table, const embedding::Bags& bags) {
  const auto count = static_cast<std::int64_t>(bags.indices.size());
  const auto refuse = [&](const std::string& problem) {
    throw Error(ErrorKind::usage, text("table ", table.name, ": ", problem),
                "offsets begin with 0, never fall, and end with the number of indices: one more than there "
                "are samples");
  };
  if (bags.offsets.empty()) refuse("bags without offsets");
  if (count > most_slots) refuse(text(count, " indices; ", most_slots, " are the most"));
  if (bags.offsets.front() != 0) refuse(text("offsets begin with ", bags.offsets.front()));
  for (std::size_t i = 1; i < bags.offsets.size(); ++i) {
    if (bags.offsets[i] < bags.offsets[i - 1])
      refuse(text("sample ", i - 1, " has indices from ", bags.offsets[i - 1], " to ", bags.offsets[i]));
  }
  if (bags.offsets.back() != count)
    refuse(text("offsets end with ", bags.offsets.back(), ", and there are ", count, " indices"));
}

[[noreturn]] void refuse_row(const embedding::Table& table, const embedding::Bags& bags, std::size_t at) {
  const auto next = std::ranges::upper_bound(bags.offsets, static_cast<std::int64_t>(at));
  throw Error(ErrorKind::usage,
              text("table ", table.name, " has ", table.rows, " rows, and sample ",
                   next - bags.offsets.begin() - 1, " reads row ", bags.indices[at]),
              "rows count from 0");
}

}  // namespace

RowPlaces::RowPlaces(const embedding::Table& table, const embedding::TablePlacement& placement, int ranks)
    : shift_(std::countr_zero(static_cast<std::uint64_t>(placement.block_rows))),
      mask_(placement.block_rows - 1),
      rows_(table.rows),
      owners_(placement.owners),
      rows_of_(static_cast<std::size_t>(ranks)) {
  for (std::size_t block = 0; block < owners_.size(); ++block) {
    std::int64_t& rows = rows_of_[static_cast<std::size_t>(owners_[block])];
    bases_.push_back(rows);
    rows += std::min(placement.block_rows, rows_ - static_cast<std::int64_t>(block) * placement.block_rows);
    if (rows > most_slots)
      throw Error(ErrorKind::usage,
                  text("table ", table.name, " has more than ", most_slots, " rows on rank ", owners_[block]),
                  "use more ranks");
  }
}

std::vector<RowPlaces::Block> RowPlaces::blocks_of(int rank) const {
  std::vector<Block> all;
  for (std::size_t block = 0; block < owners_.size(); ++block) {
    if (owners_[block] != rank) continue;
    const std::int64_t first = static_cast<std::int64_t>(block) << shift_;
    const std::int64_t count = std::min(mask_ + 1, rows_ - first);
    if (!all.empty() && all.back().first + all.back().count == first) {
      all.back().count += count;
    } else {
      all.push_back({first, count, bases_[block]});
    }
  }
  return all;
}

void DigitSort::sort(std::uint64_t most) {
  constexpr int digit = 11;
  constexpr std::uint64_t mask = (1U << digit) - 1;
  for (int shift = 0; shift < 64 && (most >> shift) != 0; shift += digit) {
    counts_.assign(mask + 1, 0);
    for (const Item& item : items_) ++counts_[item.key >> shift & mask];
    std::uint32_t before = 0;
    for (std::uint32_t& count : counts_) before += std::exchange(count, before);
    other_.resize(items_.size());
    for (const Item& item : items_) other_[counts_[item.key >> shift & mask]++] = item;
    std::swap(items_, other_);
  }
}

void want_rows(const embedding::Table& table, const embedding::Bags& bags, const RowPlaces& places, int ranks,
               DigitSort& sort, WantedRows& wanted) {
  check_offsets(table, bags);
  std::int64_t most = 1;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, places.rows_of(rank));
  const auto slot_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(most - 1)));
  std::vector<DigitSort::Item>& items = sort.items();
  items.resize(bags.indices.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int64_t row = bags.indices[i];
    if (row < 0 || row >= table.rows) refuse_row(table, bags, i);
    const auto [owner, slot] = places.of(row);
    items[i] = {static_cast<std::uint64_t>(owner) << slot_bits | static_cast<std::uint64_t>(slot),
                static_cast<std::int32_t>(i)};
  }
  sort.sort((static_cast<std::uint64_t>(ranks) << slot_bits) - 1);

  wanted.places.resize(items.size());
  wanted.uses.resize(items.size());
  wanted.slots.clear();
  wanted.first_use.clear();
  wanted.first_of_owner.assign(static_cast<std::size_t>(ranks) + 1, 0);
  // The sample of each index: by a search where there are few indices a sample, it would be slower than this list.
  std::vector<std::int32_t>& samples = wanted.first_use;  // its memory, until the loop below needs it
  samples.resize(items.size());
  for (std::int64_t sample = 0; sample < bags.samples(); ++sample) {
    const auto begin = static_cast<std::size_t>(bags.offsets[static_cast<std::size_t>(sample)]);
    const auto end = static_cast<std::size_t>(bags.offsets[static_cast<std::size_t>(sample) + 1]);
    std::fill(samples.begin() + static_cast<std::ptrdiff_t>(begin),
              samples.begin() + static_cast<std::ptrdiff_t>(end), static_cast<std::int32_t>(sample));
  }
  for (std::size_t i = 0; i < items.size(); ++i)
    wanted.uses[i] = samples[static_cast<std::size_t>(items[i].value)];
  wanted.first_use.clear();
  const std::uint64_t slot_mask = (std::uint64_t{1} << slot_bits) - 1;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 0 || items[i].key != items[i - 1].key) {
      wanted.slots.push_back(static_cast<std::int32_t>(items[i].key & slot_mask));
      wanted.first_use.push_back(static_cast<std::int32_t>(i));
      ++wanted.first_of_owner[static_cast<std::size_t>(items[i].key >> slot_bits) + 1];
    }
    wanted.places[static_cast<std::size_t>(items[i].value)] =
        static_cast<std::int32_t>(wanted.slots.size()) - 1;
  }
  wanted.first_use.push_back(static_cast<std::int32_t>(items.size()));
  for (std::size_t r = 1; r < wanted.first_of_owner.size(); ++r)
    wanted.first_of_owner[r] += wanted.first_of_owner[r - 1];
}

}  // namespace weft::detail
