#include "embedding_twin.hpp"

#include <cmath>
#include <random>

namespace weft::test {

using embedding::LazyAdamW;
using embedding::Pooling;
using embedding::RowAdaGrad;
using embedding::RowSgd;

OwnedBags OwnedBags::part(std::int64_t first, std::int64_t count) const {
  OwnedBags result;
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    for (std::int64_t at = offsets[static_cast<std::size_t>(sample)];
         at < offsets[static_cast<std::size_t>(sample) + 1]; ++at)
      result.indices.push_back(indices[static_cast<std::size_t>(at)]);
    result.offsets.push_back(static_cast<std::int64_t>(result.indices.size()));
  }
  return result;
}

std::vector<OwnedBags> drawn_batch(const std::vector<Table>& tables, std::int64_t samples,
                                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<OwnedBags> all;
  for (const Table& table : tables) {
    OwnedBags bags;
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      for (std::uint64_t i = random() % 5; i > 0; --i) {
        const auto range = static_cast<std::uint64_t>(
            random() % 2 == 0 ? table.rows : std::max<std::int64_t>(1, table.rows / 20));
        bags.indices.push_back(static_cast<std::int64_t>(random() % range));
      }
      bags.offsets.push_back(static_cast<std::int64_t>(bags.indices.size()));
    }
    all.push_back(std::move(bags));
  }
  return all;
}

float initial_value(int table, std::int64_t row, int column) {
  return std::sin(static_cast<float>(table * 31 + row * 7 + column * 3));
}

float target(int table, std::int64_t sample, int column) {
  return std::cos(static_cast<float>(table * 5 + sample * 11 + column));
}

EmbeddingTwin::EmbeddingTwin(std::vector<Table> tables, const embedding::Rule& rule)
    : tables_(std::move(tables)), rule_(rule) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    rows.emplace_back();
    for (std::int64_t row = 0; row < tables_[t].rows; ++row) {
      for (int column = 0; column < tables_[t].columns; ++column)
        rows[t].push_back(initial_value(static_cast<int>(t), row, column));
    }
    first_.emplace_back(rows[t].size());
    second_.emplace_back(rows[t].size());
  }
}

std::vector<std::vector<float>> EmbeddingTwin::pooled(const std::vector<OwnedBags>& bags) const {
  std::vector<std::vector<float>> all;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    std::vector<float> out;
    for (std::size_t sample = 0; sample + 1 < bags[t].offsets.size(); ++sample) {
      const std::int64_t begin = bags[t].offsets[sample];
      const std::int64_t end = bags[t].offsets[sample + 1];
      for (int column = 0; column < tables_[t].columns; ++column) {
        const auto value_at = [&](std::int64_t at) {
          return rows[t][static_cast<std::size_t>(
              bags[t].indices[static_cast<std::size_t>(at)] * tables_[t].columns + column)];
        };
        float sum = begin == end ? 0 : value_at(begin);
        for (std::int64_t at = begin + 1; at < end; ++at) sum += value_at(at);
        if (tables_[t].pooling == Pooling::mean && begin < end) sum /= static_cast<float>(end - begin);
        out.push_back(sum);
      }
    }
    all.push_back(std::move(out));
  }
  return all;
}

/// A block is the sum of its halves, those without the row left out.
std::optional<EmbeddingTwin::Row> EmbeddingTwin::block_sum(const std::map<std::int64_t, Row>& samples,
                                                           std::int64_t begin, int height) {
  if (height == 0) {
    const auto here = samples.find(begin);
    return here == samples.end() ? std::nullopt : std::optional(here->second);
  }
  auto left = block_sum(samples, begin, height - 1);
  const auto right = block_sum(samples, begin + (std::int64_t{1} << (height - 1)), height - 1);
  if (!left) return right;
  if (!right) return left;
  for (std::size_t i = 0; i < left->size(); ++i) (*left)[i] += (*right)[i];
  return left;
}

void EmbeddingTwin::step(const std::vector<OwnedBags>& bags, const std::vector<std::vector<float>>& gradients,
                         float scale) {
  ++steps_;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const auto columns = static_cast<std::size_t>(tables_[t].columns);
    std::map<std::int64_t, std::map<std::int64_t, int>> times;  // of row and sample
    for (std::size_t sample = 0; sample + 1 < bags[t].offsets.size(); ++sample) {
      for (std::int64_t at = bags[t].offsets[sample]; at < bags[t].offsets[sample + 1]; ++at)
        ++times[bags[t].indices[static_cast<std::size_t>(at)]][static_cast<std::int64_t>(sample)];
    }
    for (std::int64_t row = 0; row < tables_[t].rows; ++row) {
      std::map<std::int64_t, Row> samples;
      for (const auto& [sample, count] : times[row]) {
        auto factor = static_cast<float>(count);
        const auto s = static_cast<std::size_t>(sample);
        if (tables_[t].pooling == Pooling::mean)
          factor /= static_cast<float>(bags[t].offsets[s + 1] - bags[t].offsets[s]);
        Row leaf;
        for (std::size_t c = 0; c < columns; ++c) leaf.push_back(factor * gradients[t][s * columns + c]);
        samples[sample] = std::move(leaf);
      }
      auto gradient = block_sum(samples, 0, 8);
      if (gradient && scale != 1) {
        for (float& one : *gradient) one *= scale;
      }
      update(t, row, gradient ? &*gradient : nullptr);
    }
  }
}

void EmbeddingTwin::update(std::size_t table, std::int64_t row, const Row* gradient) {
  const auto columns = static_cast<std::size_t>(tables_[table].columns);
  float* const p = rows[table].data() + static_cast<std::size_t>(row) * columns;
  float* const m = first_[table].data() + static_cast<std::size_t>(row) * columns;
  float* const v = second_[table].data() + static_cast<std::size_t>(row) * columns;
  if (const auto* const sgd = std::get_if<RowSgd>(&rule_)) {
    for (std::size_t c = 0; gradient != nullptr && c < columns; ++c)
      p[c] -= static_cast<float>(sgd->learning_rate) * (*gradient)[c];
  } else if (const auto* const adagrad = std::get_if<RowAdaGrad>(&rule_)) {
    if (gradient == nullptr) return;
    // Sixteen sums, then halves, as row_loops.cpp has it: the order is part of the definition.
    std::vector<float> squares(16);
    for (std::size_t c = 0; c < columns; ++c) squares[c % 16] += (*gradient)[c] * (*gradient)[c];
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) squares[i] += squares[i + half];
    }
    m[0] += squares[0] / static_cast<float>(columns);
    const float factor =
        static_cast<float>(adagrad->learning_rate) / (std::sqrt(m[0]) + static_cast<float>(adagrad->epsilon));
    for (std::size_t c = 0; c < columns; ++c) p[c] -= factor * (*gradient)[c];
  } else {  // on the whole table, in every step, unless it is not exact
    const auto& adamw = std::get<LazyAdamW>(rule_);
    if (gradient == nullptr && !adamw.exact) return;
    const auto t = static_cast<double>(steps_);
    const auto keep = static_cast<float>(1 - adamw.learning_rate * adamw.weight_decay);
    const auto rate = static_cast<float>(adamw.learning_rate / (1 - std::pow(adamw.beta1, t)));
    const auto inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(adamw.beta2, t)));
    for (std::size_t c = 0; c < columns; ++c) {
      const float g = gradient == nullptr ? 0 : (*gradient)[c];
      m[c] = static_cast<float>(adamw.beta1) * m[c] + static_cast<float>(1 - adamw.beta1) * g;
      v[c] = static_cast<float>(adamw.beta2) * v[c] + static_cast<float>(1 - adamw.beta2) * (g * g);
      p[c] = keep * p[c] - rate * m[c] / (std::sqrt(v[c]) * inverse_root + static_cast<float>(adamw.epsilon));
    }
  }
}

void EmbeddingTwin::train(const std::vector<OwnedBags>& bags, float scale) {
  std::vector<std::vector<float>> gradients = pooled(bags);
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    for (std::size_t i = 0; i < gradients[t].size(); ++i) {
      const auto columns = static_cast<std::size_t>(tables_[t].columns);
      gradients[t][i] -=
          target(static_cast<int>(t), static_cast<std::int64_t>(i / columns), static_cast<int>(i % columns));
    }
  }
  step(bags, gradients, scale);
}

}  // namespace weft::test
