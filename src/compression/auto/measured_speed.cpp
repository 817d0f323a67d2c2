#include "compression/auto/measured_speed.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>

#include "compression/codecs/cuda/block_coding.hpp"
#include "compression/power_sgd/low_rank_jobs.hpp"
#include "compression/power_sgd/power_sgd_tensors.hpp"
#include "core/base/round_up.hpp"
#include "core/cuda/timing.hpp"
#include "core/memory/elementwise.hpp"
#include "weft/compression/codec.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {
namespace {

constexpr std::int64_t most_elements(Device device) {
  return std::int64_t{1} << (device.is_host() ? 20 : 24);
}

double median_of_tries(const std::function<double()>& seconds_of_a_try) {
  (void)seconds_of_a_try();  // warms up: touches memory for the first time
  std::array<double, 5> tries{};
  for (double& seconds : tries) seconds = seconds_of_a_try();
  std::ranges::sort(tries);
  return tries[tries.size() / 2];
}

double host_seconds(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Work on a stream of its own, and what it takes.
class Bench {
 public:
  explicit Bench(Device device) : stream_(device) {
    if (!device.is_host()) marks_ = std::make_shared<cuda::TimedMarks>(device.index());
  }

  const Stream& stream() const { return stream_; }
  Device device() const { return stream_.device(); }
  /// @param work submits to the stream
  double seconds(const std::function<void()>& work) {
    return median_of_tries([&] { return marks_ ? device_seconds(work) : host_seconds(work); });
  }
  /// Random numbers, the same in every run, in memory of the device.
  Buffer drawn(std::int64_t count) {
    Buffer values = Buffer::on_host(DataType::f32, count);
    draw(values.as<float>(), 1);
    if (device().is_host()) return values;
    Buffer on_device = Buffer::on(device(), DataType::f32, count);
    copy(on_device.view(), values.view(), stream_);
    stream_.synchronize();
    return on_device;
  }
  Buffer zeros(DataType dtype, std::int64_t count) const { return Buffer::on(device(), dtype, count); }

 private:
  double device_seconds(const std::function<void()>& work) {
    const auto begin = marks_->take(stream_);
    work();
    const auto end = marks_->take(stream_);
    stream_.synchronize();
    const double seconds = marks_->seconds_between(begin, end);
    marks_->give_back(begin);
    marks_->give_back(end);
    return seconds;
  }

  Stream stream_;
  std::shared_ptr<cuda::TimedMarks> marks_;  // of a device
};

std::optional<MatrixShape> largest_matrix(const ParamLayout& layout, int rank, Device device) {
  const PowerSgdOptions options{.rank = rank};
  std::optional<MatrixShape> largest;
  for (int i = 0; i < layout.parameters(); ++i) {
    const MatrixShape shape = matrix_shape(layout, ParamId{i});
    if (is_compressible(shape, options) && (!largest || shape.elements() > largest->elements()))
      largest = shape;
  }
  if (largest)
    largest->rows = std::clamp(most_elements(device) / largest->columns, std::int64_t{1}, largest->rows);
  return largest;
}

float* floats(Buffer& buffer) {
  return static_cast<float*>(buffer.view().data());
}

// Both products and the rebuilding pass work on one matrix, whose residual is kept in 16 bits, as in training.
void measure_low_rank(CodingSpeed& speed, const MatrixShape& shape, int rank, Bench& bench) {
  constexpr std::int64_t bytes_of_residual = 2;
  const std::int64_t count = shape.elements();
  const std::int64_t scales = shape.rows * blocks_of(shape.columns);
  Buffer values = bench.drawn(count);
  std::array<Buffer, 2> residual{bench.zeros(DataType::u8, bytes_of_residual * count),
                                 bench.zeros(DataType::u8, bytes_of_residual * count)};
  std::array<Buffer, 2> scale{bench.zeros(DataType::f32, scales), bench.zeros(DataType::f32, scales)};
  for (Buffer& one : scale) fill(one.view(), 1, bench.stream());
  Buffer left = bench.drawn(rank * shape.rows);
  Buffer right = bench.drawn(rank * shape.columns);
  Buffer made_left = bench.zeros(DataType::f32, left.count());
  Buffer made_right = bench.zeros(DataType::f32, right.count());
  Buffer sums = bench.zeros(DataType::f32, scratch_elements(shape.rows, shape.columns, rank));
  const LowRankJob to_left{.product = Side::left,
                           .rank = rank,
                           .matrix = {shape.rows,
                                      shape.columns,
                                      floats(values),
                                      {residual[0].view().data(), floats(scale[0])},
                                      {residual[1].view().data(), floats(scale[1])}},
                           .basis = floats(right),
                           .mine = floats(made_left),
                           .mean = floats(left)};
  LowRankJob to_right = to_left;
  to_right.product = Side::right;
  to_right.basis = floats(left);
  to_right.mine = floats(made_right);
  to_right.mean = floats(right);
  to_right.sums = sums.count() > 0 ? floats(sums) : nullptr;
  const auto jobs = [](auto... all) {
    return make_recycled<const RecycledVector<LowRankJob>>(RecycledVector<LowRankJob>{all...});
  };
  const LowRankJobs first = jobs(to_left);
  const LowRankJobs second = jobs(to_right);
  const LowRankJobs both = jobs(to_left, to_right);
  const double passes = bench.seconds([&] {
    multiply(first, bench.stream());
    multiply(second, bench.stream());
    rebuild(second, bench.stream());
  });
  speed.matrix = passes / static_cast<double>(count);
  speed.factor = bench.seconds([&] { orthonormalize(both, bench.stream()); }) /
                 static_cast<double>(shape.factor_elements(rank));
}

/// The work of a rank on a bucket on the host. It decodes its part from every rank, in all as much as one
/// bucket.
double bf16_on_host(Buffer& values, Bench& bench) {
  const std::int64_t count = values.count();
  const auto codec = bf16_codec();
  Buffer sums = bench.zeros(DataType::f32, count);
  Buffer memory = bench.zeros(DataType::u8, codec->encoded_bytes(count));
  const std::span encoded(memory.view().bytes(), memory.size_bytes());
  return bench.seconds([&] {
    codec->encode(encoded, values.as<float>(), {});
    codec->decode(sums.as<float>(), encoded, {}, Into::add);
    codec->decode(values.as<float>(), encoded, {});
  });
}

/// The same on a device: the kernels of one of `ranks` ranks (hooks/blockwise_hook.cpp). Uninitialised memory
/// stands for the encoded parts of other ranks.
double bf16_on_device(Buffer& values, int ranks, Bench& bench) {
  const auto codec = bf16_codec();
  const std::int64_t blocks = ceil_div(values.count(), block_elements);
  const BlockCoding coding{.form = block_form(*codec).value(),
                           .own = {},
                           .means = {},
                           .gradient = floats(values),
                           .count = values.count(),
                           .part = ceil_div(blocks, ranks) * block_elements,
                           .ranks = ranks};
  const std::int64_t bytes = ranks * (part_header_bytes + coding.part_bytes());
  Buffer out = bench.zeros(DataType::u8, bytes);
  Buffer in = bench.zeros(DataType::u8, bytes);
  NonFiniteGuard guard(bench.device());
  const auto kernels = cuda::block_code_kernels();
  const cuda::Place place = cuda::place_of(bench.stream());
  Stream stream = bench.stream();
  return bench.seconds([&] {
    stream.run([&] {
      kernels->encode_parts(coding, out.view().bytes(), place);
      kernels->sum_mine(coding, in.view().bytes(), out.view().bytes(), nullptr, guard.flag(), place);
      kernels->decode_means(coding, in.view().bytes(), place);
    });
  });
}

}  // namespace

CodingSpeed measure_coding(const ParamLayout& layout, int rank, const Communicator& comm) {
  Bench bench(comm.device());
  CodingSpeed speed;
  const std::int64_t count = std::min(layout.size(), most_elements(bench.device()));
  Buffer values = bench.drawn(count);
  {
    Buffer copies = bench.zeros(DataType::f32, count);
    const double there_and_back = bench.seconds([&] {
      copy(copies.view(), values.view(), bench.stream());
      copy(values.view(), copies.view(), bench.stream());
    });
    speed.copying = there_and_back / static_cast<double>(count);
  }
  const double coded =
      bench.device().is_host() ? bf16_on_host(values, bench) : bf16_on_device(values, comm.size(), bench);
  speed.bf16 = coded / static_cast<double>(count);
  if (const auto shape = largest_matrix(layout, rank, bench.device()))
    measure_low_rank(speed, *shape, rank, bench);
  return speed;
}

std::vector<LinkModel::Sample> measure_link(Communicator& comm, const ParamLayout& layout) {
  constexpr std::int64_t few = 16;
  const std::int64_t many = std::clamp(layout.size(), 2 * few, most_elements(comm.device()));
  Buffer buffer = comm.allocate(DataType::f32, many);
  const Stream stream(comm.device());
  std::vector<LinkModel::Sample> samples;
  for (const std::int64_t count : {few, (few + many) / 2, many}) {
    const View data = buffer.view().slice(0, count);
    const double seconds = median_of_tries(
        [&] { return host_seconds([&] { comm.all_reduce(data, ReduceOp::sum, stream).wait(); }); });
    samples.push_back({static_cast<double>(count) * sizeof(float), std::max(seconds, 1e-9)});
  }
  return samples;
}

}  // namespace weft::detail
