#include "embedding/held_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weft::detail {

using embedding::LazyAdamW;
using embedding::RowAdaGrad;
using embedding::RowSgd;

double RowRule::learning_rate() const {
  return std::visit([](const auto& one) { return one.learning_rate; }, rule_);
}

void RowRule::add_step(double learning_rate) {
  rates_.push_back(learning_rate);
  const auto* const adamw = std::get_if<LazyAdamW>(&rule_);
  if (adamw == nullptr) return;
  const auto t = static_cast<double>(rates_.size());
  adamw_.push_back({.beta1 = static_cast<float>(adamw->beta1),
                    .fresh1 = static_cast<float>(1 - adamw->beta1),
                    .beta2 = static_cast<float>(adamw->beta2),
                    .fresh2 = static_cast<float>(1 - adamw->beta2),
                    .keep = static_cast<float>(1 - learning_rate * adamw->weight_decay),
                    .rate = static_cast<float>(learning_rate / (1 - std::pow(adamw->beta1, t))),
                    .inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(adamw->beta2, t))),
                    .epsilon = static_cast<float>(adamw->epsilon)});
}

void RowRule::set_rates(std::span<const double> rates) {
  rates_.clear();
  adamw_.clear();
  for (const double rate : rates) add_step(rate);
}

namespace {

RowRecord record_of(const embedding::Table& table, const embedding::Rule& rule) {
  const int columns = table.columns;
  if (std::holds_alternative<RowAdaGrad>(rule)) return {.columns = columns, .first = 1};
  if (std::holds_alternative<LazyAdamW>(rule))
    return {.columns = columns, .first = columns, .second = columns, .last = 1};
  return {.columns = columns};
}

/// A rank's part of the rows that lie in memory, rounded up.
std::int64_t places_of(const embedding::Table& table, std::int64_t rows) {
  const double share = static_cast<double>(rows) / static_cast<double>(table.rows);
  return std::min(
      rows, static_cast<std::int64_t>(std::ceil(share * static_cast<double>(table.file.rows_in_memory))));
}

}  // namespace

HeldRows::HeldRows(const embedding::Table& table, std::int64_t rows, const embedding::Rule& rule, int rank,
                   const Stream& worker)
    : record_(record_of(table, rule)), count_(rows) {
  if (!table.file.directory.empty()) {
    if (rows > 0)
      file_ = std::make_unique<RowsInFile>(table, rows, places_of(table, rows), record_, rank, worker);
    return;
  }
  rows_ = Buffer::on_host(DataType::f32, rows * record_.columns);
  first_ = Buffer::on_host(DataType::f32, rows * record_.first);
  second_ = Buffer::on_host(DataType::f32, rows * record_.second);
  last_ = Buffer::on_host(DataType::i32, rows * record_.last);
}

void HeldRows::fill(const RowsInFile::Fill& fill) {
  if (file_) return file_->fill(fill);
  for (std::int64_t slot = 0; slot < count_; ++slot)
    fill(slot, {row(slot), static_cast<std::size_t>(record_.columns)});
}

RowParts HeldRows::parts(std::int64_t slot) {
  if (file_) return file_->parts(static_cast<std::int32_t>(slot));
  return {row(slot), record_.first > 0 ? first_.as<float>().data() + slot * record_.first : nullptr,
          record_.second > 0 ? second_.as<float>().data() + slot * record_.second : nullptr,
          record_.last > 0 ? last_.as<std::int32_t>().data() + slot : nullptr};
}

/// The steps that a row has not had, before `step`, without a gradient.
void HeldRows::catch_up(const RowParts& parts, std::int64_t step, const RowRule& rule) const {
  if (std::get<LazyAdamW>(rule.rule()).exact) {
    for (std::int64_t missed = *parts.last; missed < step; ++missed)
      adamw_row(parts.row, parts.first, parts.second, nullptr, rule.adamw(missed), record_.columns);
  }
  *parts.last = static_cast<std::int32_t>(step);
}

void HeldRows::bring_up_to_date(std::span<const std::int32_t> slots, const RowRule& rule) {
  if (!std::holds_alternative<LazyAdamW>(rule.rule())) return;
  for (const std::int32_t slot : slots) catch_up(parts(slot), rule.steps(), rule);
}

void HeldRows::gather(std::span<const std::int32_t> slots, float* to) {
  if (!file_) return gather_rows(rows_.as<float>().data(), slots, record_.columns, to);
  for (std::size_t i = 0; i < slots.size(); ++i, to += record_.columns) {
    if (i + rows_ahead < slots.size()) ask_for(row(slots[i + rows_ahead]), record_.columns);
    std::copy_n(row(slots[i]), record_.columns, to);
  }
}

void HeldRows::update(std::int32_t slot, const float* gradient, const RowRule& rule) {
  const auto rate = static_cast<float>(rule.rate());
  const RowParts here = parts(slot);
  if (std::holds_alternative<RowSgd>(rule.rule())) {
    sgd_row(here.row, gradient, rate, record_.columns);
  } else if (const auto* const adagrad = std::get_if<RowAdaGrad>(&rule.rule())) {
    adagrad_row(here.row, here.first, gradient, rate, static_cast<float>(adagrad->epsilon), record_.columns);
  } else {
    catch_up(here, rule.steps() - 1, rule);
    adamw_row(here.row, here.first, here.second, gradient, rule.adamw(rule.steps() - 1), record_.columns);
    *here.last = static_cast<std::int32_t>(rule.steps());
  }
}

std::vector<float> HeldRows::up_to_date(std::int32_t slot, const RowRule& rule) {
  if (!file_) {
    bring_up_to_date(std::span(&slot, 1), rule);
    return {row(slot), row(slot) + record_.columns};
  }
  std::vector<std::byte> copy(record_.bytes());
  const RowParts here = record_.parts(copy.data());
  file_->visit(slot, 1, false, [&](std::int64_t, const RowParts& there) {
    std::memcpy(copy.data(), there.row, copy.size());
  });
  if (here.last != nullptr) catch_up(here, rule.steps(), rule);
  return {here.row, here.row + record_.columns};
}

std::vector<HeldRows::Array> HeldRows::arrays() const {
  const auto row = [](const RowParts& parts) { return reinterpret_cast<std::byte*>(parts.row); };
  const auto first = [](const RowParts& parts) { return reinterpret_cast<std::byte*>(parts.first); };
  const auto second = [](const RowParts& parts) { return reinterpret_cast<std::byte*>(parts.second); };
  const auto last = [](const RowParts& parts) { return reinterpret_cast<std::byte*>(parts.last); };
  std::vector<Array> all{{"", DataType::f32, record_.columns, &HeldRows::rows_, row}};
  if (record_.last > 0) {
    all.push_back({"/exp_avg", DataType::f32, record_.columns, &HeldRows::first_, first});
    all.push_back({"/exp_avg_sq", DataType::f32, record_.columns, &HeldRows::second_, second});
    all.push_back({"/step", DataType::i32, 0, &HeldRows::last_, last});
  } else if (record_.first > 0) {
    all.push_back({"/sum", DataType::f32, 0, &HeldRows::first_, first});
  }
  return all;
}

template <class Visit>
void HeldRows::each_part(const Array& array, std::int64_t first, std::int64_t at, std::int64_t count,
                         bool changes, const Visit& visit) {
  if (count == 0) return;
  const std::int64_t width = array.width();
  const std::int64_t begin = first * width + at;  // elements of the whole array
  const std::int64_t end = begin + count;
  const std::int64_t from_row = begin / width;
  const std::int64_t rows = (end - 1) / width + 1 - from_row;
  const auto size = static_cast<std::int64_t>(size_of(array.dtype));
  file_->visit(from_row, rows, changes, [&](std::int64_t slot, const RowParts& parts) {
    const std::int64_t from = std::max(begin, slot * width);
    const std::int64_t to = std::min(end, (slot + 1) * width);
    visit(static_cast<std::size_t>((from - begin) * size), static_cast<std::size_t>((to - from) * size),
          array.in_record(parts) + (from - slot * width) * size);
  });
}

std::variant<ConstView, checkpoint::Computed> HeldRows::saved(const Array& array, std::int64_t first,
                                                              std::int64_t count) {
  const std::int64_t width = array.width();
  if (!file_) return ConstView((this->*array.memory).view().slice(first * width, count * width));
  return checkpoint::Computed{array.dtype, count * width, [this, array, first](std::int64_t at, View to) {
                                each_part(array, first, at, to.count(), false,
                                          [&](std::size_t done, std::size_t bytes, const std::byte* memory) {
                                            std::memcpy(to.bytes() + done, memory, bytes);
                                          });
                              }};
}

std::variant<View, checkpoint::Taken> HeldRows::loaded(const Array& array, std::int64_t first,
                                                       std::int64_t count) {
  const std::int64_t width = array.width();
  if (!file_) return (this->*array.memory).view().slice(first * width, count * width);
  return checkpoint::Taken{array.dtype, count * width, [this, array, first](std::int64_t at, ConstView from) {
                             each_part(array, first, at, from.count(), true,
                                       [&](std::size_t done, std::size_t bytes, std::byte* memory) {
                                         std::memcpy(memory, from.bytes() + done, bytes);
                                       });
                           }};
}

}  // namespace weft::detail
