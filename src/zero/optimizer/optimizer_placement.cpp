// Where an optimizer's state lies: on the device, in host memory or in a file, and how it moves.
//
// offload() makes the new split and its memory, copies masters and moments piece by piece from the old places
// to the new ones, and then drops the old memory. Both exist meanwhile.

#include <algorithm>

#include "core/memory/elementwise.hpp"
#include "zero/optimizer/sharded_optimizer_state.hpp"

namespace weft::zero {
namespace {

/// Where the buckets' parts begin in the state, and where the last one ends.
std::vector<std::int64_t> bounds_of(ShardedParams::State& params) {
  std::vector<std::int64_t> bounds{params.state_elements()};
  for (const Bucket& bucket : params.buckets()) bounds.push_back(params.part(bucket).state_at);
  std::ranges::sort(bounds);
  return bounds;
}

using Piece = detail::StateSplit::Piece;

/// Access to masters and moments in all places.
struct Places {
  detail::StateArrays& on_device;
  detail::OffloadedState* offloaded;

  void visit(const Piece& piece, bool changes, const detail::OffloadedState::Visitor& visitor) const {
    if (piece.offloaded) return offloaded->visit(piece.at, piece.count, changes, visitor);
    visitor(0, piece.count, on_device.views(piece.at, piece.count));
  }
};

/// Copies masters and moments of a piece. Visited memory is valid only during the visit, so each copy is
/// waited for.
void move(const Places& was, const Piece& from, const Places& is, const Piece& to, const Stream& on_device) {
  Stream stream = from.offloaded && to.offloaded ? Stream() : on_device;
  was.visit(from, false, [&](std::int64_t at, std::int64_t count, const detail::StateViews& source) {
    is.visit({to.begin + at, count, to.offloaded, to.at + at}, true,
             [&](std::int64_t done, std::int64_t some, const detail::StateViews& target) {
               target.copy_from(source.slice(done, some), stream);
               stream.synchronize();
             });
  });
}

}  // namespace

void ShardedOptimizer::State::place() {
  bounds_ = bounds_of(params_);
  split_ = split_by(options_.offload.share.value_or(1), options_.offload.file_share);
  arrays_ = arrays_of(split_);
  if (split_.offloaded() > 0) offloaded_ = offloaded_of(split_);
  load();
}

detail::StateSplit ShardedOptimizer::State::split_by(double share, double file_share) const {
  const bool has_file = !options_.offload.directory.empty() && !kind_.is_empty();
  return {bounds_, share, has_file ? file_share : 0,
          static_cast<std::int64_t>(Buffer::alignment / size_of(kind_.dtype))};
}

detail::StateArrays ShardedOptimizer::State::arrays_of(const detail::StateSplit& split) const {
  return detail::StateArrays::make(kind_, split.on_device(), [&](DataType dtype, std::int64_t count) {
    return Buffer::on(params_.comm().device(), dtype, count);
  });
}

std::unique_ptr<detail::OffloadedState> ShardedOptimizer::State::offloaded_of(
    const detail::StateSplit& split) const {
  const int rank = params_.comm().rank();
  try {
    return std::make_unique<detail::OffloadedState>(params_.comm().device(), kind_, split, options_.offload,
                                                    rank);
  } catch (const Error& error) {
    throw error.in({rank, "offload"});
  }
}

// A split master keeps its zeros: parameters loaded in bf16 have no lower half.
void ShardedOptimizer::State::load() {
  Stream stream(params_.comm().device());
  for (const Bucket& bucket : params_.buckets()) {
    const auto part = params_.part(bucket);
    for (const auto& piece : split_.pieces(part.state_at, part.state_at + part.parameters.count())) {
      const View parameters = part.parameters.slice(piece.begin - part.state_at, piece.count);
      if (piece.offloaded) {
        offloaded_->load(piece.at, parameters);
      } else if (kind_.kept == detail::Master::f32) {
        detail::cast(arrays_.master.view().slice(piece.at, piece.count), parameters, stream);
      }
    }
  }
  stream.synchronize();
  if (offloaded_) offloaded_->synchronize();
}

// A master whose rounding is the parameter's value knows more than that, and stays. A split master's upper half is the
// parameter. On a device all masters are taken anew.
void ShardedOptimizer::State::take_parameters(const Stream& compute) {
  if (offloaded_)
    throw Error(ErrorKind::usage, "take_parameters where optimizer state is offloaded",
                "change parameters before the optimizer is made, or load a checkpoint",
                {params_.comm().rank(), "take_parameters"});
  settle(compute, "take_parameters");
  before_change();
  if (kind_.kept != detail::Master::f32) return;
  for (const Bucket& bucket : params_.buckets()) {
    const auto part = params_.part(bucket);
    const std::int64_t count = part.parameters.count();
    const View master = arrays_.views(part.state_at, count).master;
    if (!params_.comm().device().is_host()) {
      detail::cast(master, part.parameters, compute);
      continue;
    }
    Buffer rounded = Buffer::on_host(kind_.dtype, count, Contents::any);
    Buffer taken = Buffer::on_host(DataType::f32, count, Contents::any);
    detail::on_host::cast(rounded.view(), master);
    detail::on_host::cast(taken.view(), part.parameters);
    const auto* const before = reinterpret_cast<const std::uint16_t*>(rounded.view().bytes());
    const auto* const now = reinterpret_cast<const std::uint16_t*>(part.parameters.bytes());
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      if (before[i] != now[i]) master.as<float>()[i] = taken.as<float>()[i];
    }
  }
}

void ShardedOptimizer::State::offload(double share, std::optional<double> file_share) {
  expect_shares(share, file_share.value_or(0));
  if (file_share.value_or(0) > 0 && options_.offload.directory.empty())
    throw Error(ErrorKind::usage, text("a file_share of ", *file_share, " and no folder for a file"),
                "make the optimizer with offload.directory");
  expect_between_steps("offload");
  expect_not_offloaded(share > 0);
  before_change();
  if (offloaded_) offloaded_->synchronize();
  const double filed = file_share.value_or(options_.offload.file_share);
  detail::StateSplit split = split_by(share, filed);
  detail::StateArrays arrays = arrays_of(split);
  auto offloaded = split.offloaded() > 0 ? offloaded_of(split) : nullptr;
  const Stream stream(params_.comm().device());
  for (const Bucket& bucket : params_.buckets()) {
    const auto part = params_.part(bucket);
    for (const Piece& was : split_.pieces(part.state_at, part.state_at + part.parameters.count())) {
      for (const Piece& is : split.pieces(was.begin, was.begin + was.count)) {
        const Piece from{is.begin, is.count, was.offloaded, was.at + is.begin - was.begin};
        move({arrays_, offloaded_.get()}, from, {arrays, offloaded.get()}, is, stream);
        if (is.offloaded)
          offloaded->copy_parameters(is.at, part.parameters.slice(is.begin - part.state_at, is.count),
                                     stream);
      }
    }
  }
  Stream(stream).synchronize();
  if (offloaded) offloaded->synchronize();
  options_.offload.file_share = filed;
  split_ = std::move(split);
  arrays_ = std::move(arrays);
  offloaded_ = std::move(offloaded);
  listen();
}

void ShardedOptimizer::State::listen() {
  if (!offloaded_) return params_.reducer().on_reduced(nullptr);
  params_.reducer().on_reduced(
      [this](const Bucket& bucket, const Event& reduced) { on_reduced(bucket, reduced); });
}

void ShardedOptimizer::State::expect_not_offloaded(bool offloads) const {
  if (tensors_ && (offloads || params_.has_gradients_on_host()))
    throw Error(ErrorKind::usage, "offloaded state or gradients of a rule that needs whole tensors",
                "Muon, LAMB and LARS update what lies on the device: leave the state and the gradients "
                "there, or take "
                "AdamW, Adam or SGD",
                {params_.comm().rank(), "offload"});
}

void ShardedOptimizer::State::expect_shares(double share, double file_share) {
  const auto expect = [](const char* name, double value, const char* all) {
    if (!(value >= 0 && value <= 1))
      throw Error(ErrorKind::usage, text("offload.", name, " is ", value),
                  text("it is 0 (none) to 1 (", all, ")"));
  };
  expect("share", share, "all");
  expect("file_share", file_share, "all that is offloaded");
}

}  // namespace weft::zero
