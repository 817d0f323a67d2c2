#include "embedding/held_rows.hpp"

#include <cmath>

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

HeldRows::HeldRows(const embedding::Table& table, std::int64_t rows, const embedding::Rule& rule)
    : columns_(table.columns), rows_(Buffer::on_host(DataType::f32, rows * table.columns)) {
  if (std::holds_alternative<RowAdaGrad>(rule)) first_ = Buffer::on_host(DataType::f32, rows);
  if (std::holds_alternative<LazyAdamW>(rule)) {
    first_ = Buffer::on_host(DataType::f32, rows * columns_);
    second_ = Buffer::on_host(DataType::f32, rows * columns_);
    last_ = Buffer::on_host(DataType::i32, rows);
  }
}

std::int64_t HeldRows::bytes() const {
  return static_cast<std::int64_t>(rows_.size_bytes() + first_.size_bytes() + second_.size_bytes() +
                                   last_.size_bytes());
}

/// The steps [last, step) of a row, without a gradient.
void HeldRows::catch_up(std::int32_t slot, std::int64_t step, const RowRule& rule) {
  std::int32_t& last = last_.as<std::int32_t>()[static_cast<std::size_t>(slot)];
  if (std::get<LazyAdamW>(rule.rule()).exact) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(slot) * columns_;
    for (std::int64_t missed = last; missed < step; ++missed)
      adamw_row(row(slot), first_.as<float>().data() + at, second_.as<float>().data() + at, nullptr,
                rule.adamw(missed), columns_);
  }
  last = static_cast<std::int32_t>(step);
}

void HeldRows::bring_up_to_date(std::span<const std::int32_t> slots, const RowRule& rule) {
  if (!std::holds_alternative<LazyAdamW>(rule.rule())) return;
  for (const std::int32_t slot : slots) catch_up(slot, rule.steps(), rule);
}

void HeldRows::update(std::int32_t slot, const float* gradient, const RowRule& rule) {
  const auto rate = static_cast<float>(rule.rate());
  if (std::holds_alternative<RowSgd>(rule.rule())) {
    sgd_row(row(slot), gradient, rate, columns_);
  } else if (const auto* const adagrad = std::get_if<RowAdaGrad>(&rule.rule())) {
    adagrad_row(row(slot), first_.as<float>().data() + slot, gradient, rate,
                static_cast<float>(adagrad->epsilon), columns_);
  } else {
    catch_up(slot, rule.steps() - 1, rule);
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(slot) * columns_;
    adamw_row(row(slot), first_.as<float>().data() + at, second_.as<float>().data() + at, gradient,
              rule.adamw(rule.steps() - 1), columns_);
    last_.as<std::int32_t>()[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(rule.steps());
  }
}

std::vector<HeldRows::Array> HeldRows::arrays() {
  std::vector<Array> all{{"", rows_.view(), columns_}};
  if (second_.count() > 0 || last_.count() > 0) {
    all.push_back({"/exp_avg", first_.view(), columns_});
    all.push_back({"/exp_avg_sq", second_.view(), columns_});
    all.push_back({"/step", last_.view(), 0});
  } else if (first_.count() > 0) {
    all.push_back({"/sum", first_.view(), 0});
  }
  return all;
}

}  // namespace weft::detail
