// Where an optimizer's state lies.

#include <algorithm>

#include "core/elementwise.hpp"
#include "zero/sharded_optimizer_state.hpp"

namespace weft::zero {
namespace {

/// Where the parts of buckets begin, and where the last ends.
std::vector<std::int64_t> bounds_of(ShardedParams::State& params) {
  std::vector<std::int64_t> bounds{params.state_elements()};
  for (const Bucket& bucket : params.buckets()) bounds.push_back(params.part(bucket).state_at);
  std::ranges::sort(bounds);
  return bounds;
}

}  // namespace

void ShardedOptimizer::State::place(double share) {
  bounds_ = bounds_of(params_);
  split_ = split_by(share);
  arrays_ = arrays_of(split_);
  if (split_.on_host() > 0) offloaded_ = offloaded_of(split_);
  load();
}

detail::StateSplit ShardedOptimizer::State::split_by(double share) const {
  return {bounds_, share, static_cast<std::int64_t>(Buffer::alignment / size_of(kind_.dtype))};
}

detail::StateArrays ShardedOptimizer::State::arrays_of(const detail::StateSplit& split) const {
  return detail::StateArrays::make(kind_, split.on_device(), [&](DataType dtype, std::int64_t count) {
    return Buffer::on(params_.comm().device(), dtype, count);
  });
}

std::unique_ptr<detail::OffloadedState> ShardedOptimizer::State::offloaded_of(
    const detail::StateSplit& split) const {
  return std::make_unique<detail::OffloadedState>(params_.comm().device(), kind_, split.on_host(),
                                                  options_.offload.tile_bytes);
}

// Split: what is loaded in bf16 has no lower half.
void ShardedOptimizer::State::load() {
  Stream stream(params_.comm().device());
  for (const Bucket& bucket : params_.buckets()) {
    const auto part = params_.part(bucket);
    for (const auto& piece : split_.pieces(part.state_at, part.state_at + part.parameters.count())) {
      const View parameters = part.parameters.slice(piece.begin - part.state_at, piece.count);
      if (piece.on_host) {
        offloaded_->load(piece.at, parameters);
      } else if (kind_.kept == detail::Master::f32) {
        detail::cast(arrays_.master.view().slice(piece.at, piece.count), parameters, stream);
      }
    }
  }
  stream.synchronize();
}

// For as long as this takes there is both what was and what will be.
void ShardedOptimizer::State::offload(double share) {
  expect_share(share);
  if (!landed_.empty())
    throw Error(ErrorKind::usage, "state is offloaded within a step", "call step() first",
                {params_.comm().rank(), "offload", static_cast<std::uint64_t>(steps_ + 1)});
  if (offloaded_) offloaded_->synchronize();
  detail::StateSplit split = split_by(share);
  detail::StateArrays arrays = arrays_of(split);
  auto offloaded = split.on_host() > 0 ? offloaded_of(split) : nullptr;
  const Stream on_host;
  Stream on_device(params_.comm().device());
  for (const Bucket& bucket : params_.buckets()) {
    const auto part = params_.part(bucket);
    for (const auto& was : split_.pieces(part.state_at, part.state_at + part.parameters.count())) {
      detail::StateArrays& from = was.on_host ? offloaded_->arrays() : arrays_;
      for (const auto& is : split.pieces(was.begin, was.begin + was.count)) {
        detail::StateArrays& to = is.on_host ? offloaded->arrays() : arrays;
        to.take(is.at, from, was.at + is.begin - was.begin, is.count,
                was.on_host && is.on_host ? on_host : on_device);
        if (is.on_host)
          offloaded->take(is.at, part.parameters.slice(is.begin - part.state_at, is.count), on_device);
      }
    }
  }
  on_device.synchronize();
  split_ = std::move(split);
  arrays_ = std::move(arrays);
  offloaded_ = std::move(offloaded);
  listen();
}

void ShardedOptimizer::State::listen() {
  if (!offloaded_) return params_.reducer().on_reduced(nullptr);
  params_.reducer().on_reduced(
      [this](const Bucket& bucket, const Event& reduced) { landed(bucket, reduced); });
}

void ShardedOptimizer::State::expect_share(double share) {
  if (!(share >= 0 && share <= 1))
    throw Error(ErrorKind::usage, text("offload.share is ", share), "it is 0 (none) to 1 (all)");
}

}  // namespace weft::zero
