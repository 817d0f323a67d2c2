#include "compression/power_sgd_lots.hpp"

#include <algorithm>
#include <map>

#include "core/round_up.hpp"

namespace weft::detail {
namespace {

constexpr int left = static_cast<int>(Side::left);
constexpr int right = static_cast<int>(Side::right);

constexpr std::int64_t line = Buffer::alignment / sizeof(float);

float* floats(const View& view, std::int64_t at) {
  if (view.empty()) return nullptr;
  return static_cast<float*>(view.data()) + at;
}

}  // namespace

PowerSgdLots::PowerSgdLots(const BucketPlan& plan, GradientSpace gradients, PowerSgdTensors& tensors,
                           Communicator& comm)
    : gradients_(std::move(gradients)), tensors_(tensors), lots_(plan.buckets().size()) {
  for (const Bucket& bucket : plan.buckets()) begins_.push_back(bucket.begin);
  share_out(plan);
  find_places(comm);
}

// First where each parameter travels, in elements: views follow when it is known how much there is.
void PowerSgdLots::share_out(const BucketPlan& plan) {
  const ParamLayout& layout = plan.layout();
  std::map<ParamId, Piece> dealt_with;
  for (std::size_t number = 0; number < lots_.size(); ++number) {
    const Bucket& bucket = plan.buckets()[number];
    Lot& lot = lots_[number];
    for (const ParamId id : bucket.params) {
      const auto [found, is_first] = dealt_with.try_emplace(id);
      Piece& piece = found->second;
      if (is_first) {
        piece.lot = number;
        piece.parameter = layout.offset(id);
        if (const auto* tensor = tensors_.find(id)) {
          piece.factor =
              Factor{tensor, {lot.factor_elements[left], lot.factor_elements[right]}, lot.sums_elements};
          lot.factors.push_back(*piece.factor);
          lot.factor_elements[left] += tensor->rank * tensor->shape.rows;
          lot.factor_elements[right] += tensor->rank * tensor->shape.columns;
          if (!gradients_.device().is_host())
            lot.sums_elements += scratch_elements(tensor->shape.rows, tensor->shape.columns, tensor->rank);
        } else {
          lot.whole.push_back(gradients_.slice(layout.offset(id), layout.count(id)));
          lot.whole_begins.push_back(layout.offset(id));
          lot.whole_elements += layout.count(id);
        }
      }
      Piece part = piece;
      part.begin = std::max(bucket.begin, layout.offset(id));
      part.end = std::min(bucket.end, layout.offset(id) + layout.count(id));
      lot.pieces.push_back(part);
    }
  }
}

void PowerSgdLots::find_places(Communicator& comm) {
  std::int64_t sent = 0;
  std::int64_t mine = 0;
  std::int64_t sums = 0;
  const auto either = [](const Lot& lot) {
    return std::max(lot.elements(Side::left), lot.elements(Side::right));
  };
  for (const Lot& lot : lots_) {
    sent += round_up(lot.whole_elements + either(lot), line) + round_up(lot.elements(Side::right), line);
    mine += round_up(either(lot), line);
    sums += round_up(lot.sums_elements, line);
  }
  sent_ = comm.allocate(DataType::f32, sent);
  mine_ = Buffer::on(comm.device(), DataType::f32, mine);
  sums_ = Buffer::on(comm.device(), DataType::f32, sums);
  sent = mine = sums = 0;
  const auto take = [](Buffer& buffer, std::int64_t& at, std::int64_t count) {
    const View view = buffer.view().slice(at, count);
    at += round_up(count, line);
    return view;
  };
  for (Lot& lot : lots_) {
    lot.first = take(sent_, sent, lot.whole_elements + either(lot));
    lot.second = take(sent_, sent, lot.elements(Side::right));
    lot.mine = take(mine_, mine, either(lot));
    lot.sums = take(sums_, sums, lot.sums_elements);
  }
  std::map<std::int64_t, View> travelling;  // by where a whole gradient begins in the flat space
  for (Lot& lot : lots_) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < lot.whole.size(); ++i) {
      travelling[lot.whole_begins[i]] = lot.first.slice(at, lot.whole[i].count());
      at += lot.whole[i].count();
    }
  }
  for (Lot& lot : lots_) {
    for (Piece& piece : lot.pieces) {
      if (piece.factor) continue;
      const View all = travelling.at(piece.parameter);
      piece.travels = all.slice(piece.begin - piece.parameter, piece.end - piece.begin);
    }
  }
}

std::size_t PowerSgdLots::number(const Bucket& bucket) const {
  return static_cast<std::size_t>(std::ranges::find(begins_, bucket.begin) - begins_.begin());
}

LowRankJob PowerSgdLots::job(const Factor& factor, const LowRankRound& round) const {
  const PowerSgdTensors::Tensor& tensor = *factor.tensor;
  const std::int64_t made = factor.at[static_cast<int>(round.product)];
  const std::int64_t given = factor.at[round.product == Side::left ? right : left];
  return {.product = round.product,
          .rank = tensor.rank,
          .matrix = {tensor.shape.rows, tensor.shape.columns,
                     floats(gradients_.slice(tensor.offset, tensor.shape.elements()), 0),
                     tensors_.residual(tensor, round.place), tensors_.residual(tensor, 1 - round.place)},
          .basis = round.basis.empty() ? tensors_.basis(tensor, round.place) : floats(round.basis, given),
          .mine = floats(round.mine, made),
          .mean = floats(round.mean, made),
          .next_basis = tensors_.basis(tensor, 1 - round.place),
          .sums = floats(round.sums, factor.sums_at),
          .seed = PowerSgdTensors::seed(tensor, round.step)};
}

LowRankJobs PowerSgdLots::jobs(const Lot& lot, const LowRankRound& round) const {
  RecycledVector<LowRankJob> jobs;
  jobs.reserve(lot.factors.size());
  for (const Factor& factor : lot.factors) jobs.push_back(job(factor, round));
  return make_recycled<const RecycledVector<LowRankJob>>(std::move(jobs));
}

}  // namespace weft::detail
