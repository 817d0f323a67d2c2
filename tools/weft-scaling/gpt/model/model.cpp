#include "weft-scaling/gpt/model/model.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include "weft-scaling/gpt/data/random.hpp"
#include "weft/core/error.hpp"

namespace weft::examples {

namespace {

double wave(const ParameterInfo& info, std::int64_t i) {
  const std::int64_t width = info.shape.back();
  const std::int64_t column = i % width;
  const double pair = static_cast<double>(column / 2 * 2) / static_cast<double>(width);
  const double angle = static_cast<double>(i / width) * std::pow(1000.0, -pair);
  return std::numbers::sqrt2 * (column % 2 == 0 ? std::sin(angle) : std::cos(angle));
}

double initial_value(const ParameterInfo& info, std::uint64_t seed, int parameter, std::int64_t i) {
  const Initial& initial = info.initial;
  switch (initial.shape) {
    case Initial::Shape::constant:
      break;
    case Initial::Shape::normal:
      return initial.deviation *
             random_normal(seed, static_cast<std::uint64_t>(parameter), static_cast<std::uint64_t>(i));
    case Initial::Shape::waves:
      return initial.deviation * wave(info, i);
  }
  return initial.mean;
}

}  // namespace

template <class Real>
int ParameterTable<Real>::add(std::string name, std::vector<std::int64_t> shape, const Initial& initial) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  infos_.push_back({std::move(name), std::move(shape), count, initial});
  return static_cast<int>(infos_.size()) - 1;
}

template <class Real>
void ParameterTable<Real>::bind(const View& flat, std::span<const std::int64_t> offsets) {
  if (flat.device() != math_.device() || flat.dtype() != data_type_of<Real>) {
    throw Error(ErrorKind::usage, text(flat.dtype(), " parameters on ", flat.device(), " for a model of ",
                                       data_type_of<Real>, " on ", math_.device()));
  }
  if (offsets.size() != infos_.size()) {
    throw Error(ErrorKind::usage, text(offsets.size(), " offsets for ", infos_.size(), " parameters"));
  }
  std::vector<Real*> values;
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] > flat.count() - infos_[i].count) {
      throw Error(ErrorKind::usage,
                  text("parameter ", infos_[i].name, " of ", infos_[i].count, " elements at offset ",
                       offsets[i], " of a buffer of ", flat.count(), " elements"));
    }
    values.push_back(static_cast<Real*>(flat.data()) + offsets[i]);
  }
  values_ = std::move(values);
}

template <class Real>
void ParameterTable<Real>::place(int parameter, Real* values) {
  values_.resize(infos_.size());
  values_[static_cast<std::size_t>(parameter)] = values;
}

template <class Real>
void Model<Real>::initialize(std::uint64_t seed) {
  if (!table_.bound()) throw Error(ErrorKind::usage, "initialize before bind", "bind the parameters first");
  for (int p = 0; p < static_cast<int>(parameters().size()); ++p) {
    const std::vector<Real> values = initial_values<Real>(parameters()[static_cast<std::size_t>(p)], p, seed);
    math().put(values, table_[p]);
  }
}

template <class Real>
std::vector<Real> initial_values(const ParameterInfo& info, int parameter, std::uint64_t seed) {
  std::vector<Real> values(static_cast<std::size_t>(info.count));
  for (std::int64_t i = 0; i < info.count; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<Real>(initial_value(info, seed, parameter, i));
  return values;
}

template <class Real>
double Model<Real>::forward(Batch batch) {
  if (!table_.bound() && source_ == nullptr)
    throw Error(ErrorKind::usage, "forward before bind", "bind the parameters first");
  if (batch.empty() || std::ssize(batch) > sequences_) {
    throw Error(ErrorKind::usage,
                text("a batch of ", batch.size(), " sequences for a model that takes 1 to ", sequences_));
  }
  for (const Sequence& sequence : batch) {
    if (std::ssize(sequence) != sequence_bytes_) {
      throw Error(ErrorKind::usage,
                  text("a sequence of ", sequence.size(), " bytes for a model that takes ", sequence_bytes_));
    }
  }
  forwarded_ = false;
  const double loss = run_forward(batch);
  forwarded_ = true;
  return loss;
}

template <class Real>
void Model<Real>::backward(GradientSink<Real>& sink) {
  if (!forwarded_) {
    throw Error(ErrorKind::usage, "backward without a forward pass before it",
                "call forward once per backward");
  }
  forwarded_ = false;
  run_backward(sink);
}

std::int64_t total_count(std::span<const ParameterInfo> parameters) {
  std::int64_t total = 0;
  for (const ParameterInfo& info : parameters) total += info.count;
  return total;
}

std::vector<std::int64_t> packed_offsets(std::span<const ParameterInfo> parameters) {
  std::vector<std::int64_t> offsets;
  std::int64_t next = 0;
  for (const ParameterInfo& info : parameters) {
    offsets.push_back(next);
    next += info.count;
  }
  return offsets;
}

template std::vector<float> initial_values(const ParameterInfo&, int, std::uint64_t);
template std::vector<double> initial_values(const ParameterInfo&, int, std::uint64_t);
template class ParameterTable<float>;
template class ParameterTable<double>;
template class Model<float>;
template class Model<double>;

}  // namespace weft::examples
