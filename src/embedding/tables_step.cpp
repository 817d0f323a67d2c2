// Gradients: this rank's samples are summed by row, the sums travel to the rows' owners, and these go on in the order of samples (sample_sum.hpp).

#include <algorithm>
#include <cmath>

#include "embedding/sample_sum.hpp"
#include "embedding/sharded_tables_state.hpp"
#include "weft/core/error.hpp"

namespace weft::embedding {
namespace {

using detail::BatchExchange;
using detail::PartOf;
using detail::SampleRange;
using detail::SampleSum;
using detail::WantedRows;

/// Calls visit(sample, times) for each sample that uses a row, in their order.
template <class Visit>
void each_use(const WantedRows& wanted, std::int32_t place, const Visit& visit) {
  const auto p = static_cast<std::size_t>(place);
  for (std::int32_t at = wanted.first_use[p]; at < wanted.first_use[p + 1];) {
    const std::int32_t sample = wanted.uses[static_cast<std::size_t>(at)];
    int times = 0;
    for (; at < wanted.first_use[p + 1] && wanted.uses[static_cast<std::size_t>(at)] == sample; ++at) ++times;
    visit(sample, times);
  }
}

}  // namespace

void ShardedTables::State::step(std::span<const ConstView> gradients, const Stream& compute,
                                std::optional<double> learning_rate, double scale) {
  const auto turn = users_.enter("step");
  const ErrorContext here{rank_, "ShardedTables::step", static_cast<std::uint64_t>(steps_ + 1)};
  if (looked_up_ == nullptr)
    throw Error(ErrorKind::usage, "step() without a look_up() before it",
                "each step trains the rows of one look_up()", here);
  if (gradients.size() != tables_.size())
    throw Error(ErrorKind::usage,
                text("gradients of ", gradients.size(), " tables, and there are ", tables_.size()),
                "give one view for each table", here);
  const double rate = learning_rate.value_or(rule_.learning_rate());
  if (!(rate >= 0 && std::isfinite(rate)))
    throw Error(ErrorKind::usage, text("a learning rate of ", rate), "it is finite and 0 or more", here);
  if (!std::isfinite(scale)) throw Error(ErrorKind::usage, text("a scale of ", scale), "it is finite", here);
  const Batch batch = looked_up_;
  for (std::size_t t = 0; t < tables_.size(); ++t) check_memory(*batch, "the gradient", t, gradients[t]);
  looked_up_.reset();
  batch->one_part = std::ranges::all_of(batch->samples, &SampleRange::is_one_part);
  if (!batch->one_part) describe_parts(*batch);
  const PartOf last_sent = batch->sent_gradients(ranks_ - 1);
  const PartOf last_received = batch->received_gradients(ranks_ - 1);
  const auto sums = rows_in_.of(comm_, DataType::f32, last_sent.first + last_sent.count);
  const auto arrived = rows_out_.of(comm_, DataType::f32, last_received.first + last_received.count);

  wire_.wait(compute.record());
  wire_.run([this, batch, sums, views = std::vector<ConstView>(gradients.begin(), gradients.end())] {
    sum_gradients(*batch, views, *sums);
  });
  Stream(compute).wait(wire_.record());  // only then may gradients be overwritten
  traffic_.bytes_sent += detail::exchange_parts(
      comm_, sums->view(), [&](int rank) { return batch->sent_gradients(rank); }, arrived->view(),
      [&](int rank) { return batch->received_gradients(rank); }, wire_);
  wire_.run([this, batch, sums, arrived, rate, scale] {
    rule_.add_step(rate);
    update(*batch, *sums, *arrived, scale);
    if (any_file_) end_reading(true);
  });
  batch->done = wire_.record();
  ++steps_;
}

/// How many parts each row's sum is, here and at those who send: a word for each row and each part, and a wait for all ranks' sizes.
void ShardedTables::State::describe_parts(BatchExchange& batch) {
  const SampleRange& mine = batch.samples[static_cast<std::size_t>(rank_)];
  std::vector<std::int32_t> words;
  std::vector<std::int32_t> samples;
  BatchExchange::Parts& sent = batch.sent_parts;
  BatchExchange::Parts& received = batch.received_parts;
  const auto sizes_out = batch.sizes_memory[0].of(comm_, DataType::i64, 2 * ranks_);
  const auto sizes_in = batch.sizes_memory[1].of(comm_, DataType::i64, 2 * ranks_);
  sent.first.assign(1, 0);
  sent.number.assign(1, 0);
  counter_.begin(0, &mine);
  for (int rank = 0; rank < ranks_; ++rank) {
    samples.clear();
    std::int64_t numbers = 0;
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      const WantedRows& wanted = batch.wanted[t];
      const auto r = static_cast<std::size_t>(rank);
      for (std::int32_t place = wanted.first_of_owner[r]; place < wanted.first_of_owner[r + 1]; ++place) {
        each_use(wanted, place, [&](std::int32_t sample, int) { counter_.push(mine.first + sample); });
        const auto parts = counter_.finish().samples;
        words.push_back(static_cast<std::int32_t>(parts.size()));
        for (const std::int64_t sample : parts) samples.push_back(static_cast<std::int32_t>(sample));
        numbers += static_cast<std::int64_t>(parts.size()) * columns_[t];
      }
    }
    words.insert(words.end(), samples.begin(), samples.end());
    sent.first.push_back(static_cast<std::int64_t>(words.size()));
    sent.number.push_back(sent.number.back() + numbers);
    sizes_out->as<std::int64_t>()[static_cast<std::size_t>(2 * rank)] =
        static_cast<std::int64_t>(samples.size());
    sizes_out->as<std::int64_t>()[static_cast<std::size_t>(2 * rank) + 1] = numbers;
  }
  sent.words = batch.parts_memory[0].of(comm_, DataType::i32, static_cast<std::int64_t>(words.size()));
  std::ranges::copy(words, sent.words->as<std::int32_t>().begin());
  comm_.all_to_all(sizes_out->view().slice(0, 2 * ranks_), sizes_in->view().slice(0, 2 * ranks_), wire_)
      .wait();
  traffic_.bytes_sent += 2 * (ranks_ - 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
  received.first.assign(1, 0);
  received.number.assign(1, 0);
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    received.first.push_back(received.first[r] + batch.asked_layout.rows_of(rank) +
                             sizes_in->as<std::int64_t>()[2 * r]);
    received.number.push_back(received.number[r] + sizes_in->as<std::int64_t>()[2 * r + 1]);
  }
  received.words = batch.parts_memory[1].of(comm_, DataType::i32, received.first.back());
  const auto range = [](const BatchExchange::Parts& parts, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return PartOf{parts.first[r], parts.first[r + 1] - parts.first[r]};
  };
  traffic_.bytes_sent += detail::exchange_parts(
      comm_, sent.words->view(), [&](int rank) { return range(sent, rank); }, received.words->view(),
      [&](int rank) { return range(received, rank); }, wire_);
}

void ShardedTables::State::sum_gradients(const BatchExchange& batch, std::span<const ConstView> gradients,
                                         Buffer& sums) {
  const SampleRange& mine = batch.samples[static_cast<std::size_t>(rank_)];
  for (int rank = 0; rank < ranks_; ++rank) {
    float* to = sums.as<float>().data() + batch.sent_gradients(rank).first;
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      const WantedRows& wanted = batch.wanted[t];
      const int columns = columns_[t];
      const float* const from = gradients[t].as<const float>().data();
      const std::vector<std::int64_t>& offsets = batch.offsets[t];
      SampleSum& sum = step_memory_.sum;
      sum.begin(columns, &mine);
      const auto scaled = [&](std::int32_t sample, int times, float* room) {
        auto factor = static_cast<float>(times);
        if (tables_[t].pooling == Pooling::mean)
          factor /= static_cast<float>(offsets[static_cast<std::size_t>(sample) + 1] -
                                       offsets[static_cast<std::size_t>(sample)]);
        detail::scale_row(room, from + static_cast<std::ptrdiff_t>(sample) * columns, factor, columns);
      };
      const auto r = static_cast<std::size_t>(rank);
      for (std::int32_t place = wanted.first_of_owner[r]; place < wanted.first_of_owner[r + 1]; ++place) {
        const auto p = static_cast<std::size_t>(place);
        if (wanted.uses[static_cast<std::size_t>(wanted.first_use[p])] ==
            wanted.uses[static_cast<std::size_t>(wanted.first_use[p + 1]) - 1]) {
          each_use(wanted, place, [&](std::int32_t sample, int times) { scaled(sample, times, to); });
          to += columns;
          continue;
        }
        each_use(wanted, place, [&](std::int32_t sample, int times) {
          scaled(sample, times, sum.push(mine.first + sample));
        });
        const SampleSum::Parts parts = sum.finish();
        const auto numbers = static_cast<std::ptrdiff_t>(parts.samples.size()) * columns;
        std::copy_n(parts.values, numbers, to);
        to += numbers;
      }
    }
  }
}

void ShardedTables::State::update(const BatchExchange& batch, const Buffer& sums, const Buffer& arrived,
                                  double scale) {
  auto& [sum, contributions, next_values, next_words, next_samples, first_samples] = step_memory_;
  next_values.clear();
  next_words.clear();
  next_samples.clear();
  first_samples.clear();
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool own = rank == rank_;
    const BatchExchange::Parts& parts = own ? batch.sent_parts : batch.received_parts;
    next_values.push_back((own ? sums : arrived).as<const float>().data() +
                          (own ? batch.sent_gradients(rank) : batch.received_gradients(rank)).first);
    first_samples.push_back(static_cast<std::int32_t>(batch.samples[static_cast<std::size_t>(rank)].first));
    if (batch.one_part) continue;
    next_words.push_back(parts.words->as<const std::int32_t>().data() +
                         parts.first[static_cast<std::size_t>(rank)]);
    next_samples.push_back(next_words.back() + batch.asked_layout.rows_of(rank));
  }
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const int columns = columns_[t];
    contributions.clear();
    std::vector<detail::DigitSort::Item>& items = update_sort_.items();
    items.clear();
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      for (const std::int32_t slot : batch.asked_slots(rank, t, rank_)) {
        StepMemory::Contribution one{next_values[r], &first_samples[r], 1};
        if (!batch.one_part) {
          one = {next_values[r], next_samples[r], *next_words[r]++};
          next_samples[r] += one.parts;
        }
        next_values[r] += static_cast<std::ptrdiff_t>(one.parts) * columns;
        items.push_back({static_cast<std::uint64_t>(slot), static_cast<std::int32_t>(contributions.size())});
        contributions.push_back(one);
      }
    }
    update_sort_.sort(static_cast<std::uint64_t>(std::max<std::int64_t>(1, places_[t].rows_of(rank_)) - 1));
    sum.begin(columns, nullptr);
    for (std::size_t i = 0; i < items.size();) {
      const std::uint64_t slot = items[i].key;
      if (const std::size_t next = i + detail::rows_ahead; next < items.size())
        detail::ask_for(held_[t].row(static_cast<std::int64_t>(items[next].key)), columns);
      for (; i < items.size() && items[i].key == slot; ++i) {
        const StepMemory::Contribution& one = contributions[static_cast<std::size_t>(items[i].value)];
        for (std::int32_t part = 0; part < one.parts; ++part)
          std::copy_n(one.values + static_cast<std::ptrdiff_t>(part) * columns, columns,
                      sum.push(one.samples[part]));
      }
      float* const gradient = sum.finish().values;
      if (scale != 1) detail::scale_row(gradient, gradient, static_cast<float>(scale), columns);
      held_[t].update(static_cast<std::int32_t>(slot), gradient, rule_);
    }
  }
}

}  // namespace weft::embedding
