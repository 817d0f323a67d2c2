#include "compression/power_sgd/power_sgd_work.hpp"

#include <algorithm>
#include <map>

#include "core/base/round_up.hpp"

namespace weft::detail {
namespace {

constexpr int left = static_cast<int>(Side::left);
constexpr int right = static_cast<int>(Side::right);

constexpr std::int64_t line_floats = Buffer::alignment / sizeof(float);

float* floats(const View& view, std::int64_t at) {
  if (view.empty()) return nullptr;
  return static_cast<float*>(view.data()) + at;
}

}  // namespace

PowerSgdWork::PowerSgdWork(const BucketPlan& plan, GradientSpace gradients, PowerSgdTensors& tensors,
                           Communicator& comm)
    : gradients_(std::move(gradients)), tensors_(tensors), buckets_(plan.buckets().size()) {
  for (const Bucket& bucket : plan.buckets()) begins_.push_back(bucket.begin);
  assign_parameters(plan);
  find_places(comm);
}

// Assigns each parameter to a bucket and counts elements. Views follow in find_places(), which
// knows the totals.
void PowerSgdWork::assign_parameters(const BucketPlan& plan) {
  const ParamLayout& layout = plan.layout();
  std::map<ParamId, Piece> handled;
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    const Bucket& bucket = plan.buckets()[number];
    BucketWork& work = buckets_[number];
    for (const ParamId id : bucket.params) {
      const auto [found, is_first] = handled.try_emplace(id);
      Piece& piece = found->second;
      if (is_first) {
        piece.bucket = number;
        piece.parameter = layout.offset(id);
        if (const auto* tensor = tensors_.find(id)) {
          piece.factor =
              Factor{tensor, {work.factor_elements[left], work.factor_elements[right]}, work.sums_elements};
          work.factors.push_back(*piece.factor);
          work.factor_elements[left] += tensor->rank * tensor->shape.rows;
          work.factor_elements[right] += tensor->rank * tensor->shape.columns;
          if (!gradients_.device().is_host())
            work.sums_elements += scratch_elements(tensor->shape.rows, tensor->shape.columns, tensor->rank);
        } else {
          work.whole.push_back(gradients_.slice(layout.offset(id), layout.count(id)));
          work.whole_begins.push_back(layout.offset(id));
          work.whole_elements += layout.count(id);
        }
      }
      Piece part = piece;
      part.begin = std::max(bucket.begin, layout.offset(id));
      part.end = std::min(bucket.end, layout.offset(id) + layout.count(id));
      work.pieces.push_back(part);
    }
  }
}

void PowerSgdWork::find_places(Communicator& comm) {
  std::int64_t sent = 0;
  std::int64_t mine = 0;
  std::int64_t sums = 0;
  const auto either = [](const BucketWork& work) {
    return std::max(work.elements(Side::left), work.elements(Side::right));
  };
  for (const BucketWork& work : buckets_) {
    sent += round_up(work.whole_elements + either(work), line_floats) +
            round_up(work.elements(Side::right), line_floats);
    mine += round_up(either(work), line_floats);
    sums += round_up(work.sums_elements, line_floats);
  }
  sent_ = comm.allocate(DataType::f32, sent);
  mine_ = Buffer::on(comm.device(), DataType::f32, mine);
  sums_ = Buffer::on(comm.device(), DataType::f32, sums);
  sent = mine = sums = 0;
  const auto take = [](Buffer& buffer, std::int64_t& at, std::int64_t count) {
    const View view = buffer.view().slice(at, count);
    at += round_up(count, line_floats);
    return view;
  };
  for (BucketWork& work : buckets_) {
    work.first = take(sent_, sent, work.whole_elements + either(work));
    work.second = take(sent_, sent, work.elements(Side::right));
    work.mine = take(mine_, mine, either(work));
    work.sums = take(sums_, sums, work.sums_elements);
  }
  std::map<std::int64_t, View> sent_whole;  // by begin of a whole gradient in the flat space
  for (BucketWork& work : buckets_) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < work.whole.size(); ++i) {
      sent_whole[work.whole_begins[i]] = work.first.slice(at, work.whole[i].count());
      at += work.whole[i].count();
    }
  }
  for (BucketWork& work : buckets_) {
    for (Piece& piece : work.pieces) {
      if (piece.factor) continue;
      const View all = sent_whole.at(piece.parameter);
      piece.travels = all.slice(piece.begin - piece.parameter, piece.end - piece.begin);
    }
  }
}

std::size_t PowerSgdWork::number(const Bucket& bucket) const {
  return static_cast<std::size_t>(std::ranges::find(begins_, bucket.begin) - begins_.begin());
}

LowRankJob PowerSgdWork::job(const Factor& factor, const LowRankRound& round) const {
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

LowRankJobs PowerSgdWork::jobs(const BucketWork& work, const LowRankRound& round) const {
  RecycledVector<LowRankJob> jobs;
  jobs.reserve(work.factors.size());
  for (const Factor& factor : work.factors) jobs.push_back(job(factor, round));
  return make_recycled<const RecycledVector<LowRankJob>>(std::move(jobs));
}

}  // namespace weft::detail
