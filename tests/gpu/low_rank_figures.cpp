// What a card makes of PowerSGD, a JSON object a line. Ratios of one interleaved run; medians.
//   gpu_low_rank_figures               its kernels beside a copy of the same bytes
//   gpu_low_rank_figures powersgd R B  the hook of rank R on the gradients of GPT-2 XL's matrices, on one rank
//                                      where WEFT_DEVICE says; with its 48 blocks they are 1.56 billion elements,
//                                      with B = 1 0.11 billion. bench/peers/torch_powersgd.py runs it beside
//                                      PyTorch's hook

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "compression/power_sgd/low_rank.hpp"
#include "compression/power_sgd/low_rank_jobs.hpp"
#include "gpu/timing.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using namespace weft::detail;
using namespace weft::test;
constexpr std::int64_t shrink = measures ? 1 : 32;
using Clock = std::chrono::steady_clock;

/// Matrices as a transformer's feed-forward layers have them, far more than the caches hold.
class Matrices {
 public:
  static constexpr std::int64_t rows = 1600 / shrink;
  static constexpr std::int64_t columns = 6400 / shrink;
  static constexpr std::int64_t elements = rows * columns;
  static constexpr std::int64_t count = 16;

  explicit Matrices(int rank)
      : rank_(rank), factors_(on_device(count * 4 * factor())), sums_(on_device(sums())) {
    fill_with_noise(part(values_, 0, elements), stream_);
    for (std::int64_t i = 1; i < count; ++i)
      copy(part(values_, i, elements), part(values_, 0, elements), stream_);
    fill_with_noise(factors_.view(), stream_);
  }
  Stream& stream() { return stream_; }
  void copy_all() { copy(copied_.view(), values_.view(), stream_); }
  /// All in one list, or each in one of its own.
  std::vector<LowRankJobs> lists(Side product, bool together) {
    std::vector<LowRankJobs> lists;
    RecycledVector<LowRankJob> jobs;
    for (std::int64_t i = 0; i < count; ++i) {
      jobs.push_back(job(product, i));
      if (together && i + 1 < count) continue;
      lists.push_back(make_recycled<const RecycledVector<LowRankJob>>(std::move(jobs)));
      jobs.clear();
    }
    return lists;
  }

 private:
  static constexpr std::int64_t scales = rows * blocks_of(columns);

  static Buffer on_device(std::int64_t size) { return Buffer::on(Device::cuda(0), DataType::f32, size); }
  static View part(Buffer& buffer, std::int64_t i, std::int64_t size) {
    return buffer.view().slice(i * size, size);
  }
  static float* floats(Buffer& buffer, std::int64_t i, std::int64_t size) {
    return static_cast<float*>(part(buffer, i, size).data());
  }
  std::int64_t factor() const { return rank_ * std::max(rows, columns); }
  std::int64_t sums() const { return count * scratch_elements(rows, columns, rank_); }
  LowRankJob job(Side product, std::int64_t i) {
    // 16-bit steps: half as many floats.
    return {.product = product,
            .rank = rank_,
            .matrix = {rows,
                       columns,
                       floats(values_, i, elements),
                       {floats(kept_, i, elements / 2), floats(kept_scales_, i, scales)},
                       {floats(next_, i, elements / 2), floats(next_scales_, i, scales)}},
            .basis = floats(factors_, 4 * i, factor()),
            .mine = floats(factors_, 4 * i + 1, factor()),
            .mean = floats(factors_, 4 * i + 2, factor()),
            .next_basis = floats(factors_, 4 * i + 3, factor()),
            .sums = floats(sums_, i, sums() / count)};
  }

  int rank_;
  Stream stream_{Device::cuda(0)};
  Buffer values_ = on_device(count * elements);
  Buffer copied_ = on_device(count * elements);
  Buffer kept_ = on_device(count * elements / 2);
  Buffer next_ = on_device(count * elements / 2);
  Buffer kept_scales_ = on_device(count * scales);
  Buffer next_scales_ = on_device(count * scales);
  Buffer factors_;
  Buffer sums_;
};

void bandwidth(int rank, bool together) {
  Matrices matrices(rank);
  Stream& stream = matrices.stream();
  const auto for_lists = [&](Side product, auto function) {
    return [lists = matrices.lists(product, together), &stream, function] {
      for (const LowRankJobs& jobs : lists) function(jobs, stream);
    };
  };
  const auto multiply_all = [](const LowRankJobs& jobs, const Stream& on) { multiply(jobs, on); };
  struct Kernel {
    const char* name;
    double bytes_an_element;  // 0: what it works on is small, and its time is what counts
    std::function<void()> work;
    std::vector<double> seconds{};
  };
  std::vector<Kernel> kernels{
      {"copy", 8, [&] { matrices.copy_all(); }},
      {"project", 6, for_lists(Side::left, multiply_all)},
      {"project_transposed", 6, for_lists(Side::right, multiply_all)},
      {"rebuild", 12, for_lists(Side::right, [](const auto& jobs, const auto& on) { rebuild(jobs, on); })},
      {"keep_residuals", 8,
       for_lists(Side::right, [](const auto& jobs, const auto& on) { keep_residuals(jobs, on); })},
      {"expand", 4,
       for_lists(Side::right,
                 [](const auto& jobs, const auto& on) {
                   RecycledVector<LowRankPart> parts;
                   for (const LowRankJob& job : *jobs) parts.push_back({job, 0, Matrices::elements});
                   expand(std::move(parts), on);
                 })},
      {"orthonormalize left", 0,
       for_lists(Side::left, [](const auto& jobs, const auto& on) { orthonormalize(jobs, on); })},
      {"start_next right", 0,
       for_lists(Side::right, [](const auto& jobs, const auto& on) { start_next(jobs, on); })},
  };
  for (int round = 0; round < (measures ? 11 : 1); ++round) {
    for (Kernel& kernel : kernels) kernel.seconds.push_back(device_seconds(stream, kernel.work));
  }
  constexpr double elements = static_cast<double>(Matrices::count * Matrices::elements);
  const double copied = kernels.front().bytes_an_element * elements / median(kernels.front().seconds);
  for (const Kernel& kernel : kernels) {
    const double seconds = median(kernel.seconds);
    const double rate = kernel.bytes_an_element * elements / seconds;
    std::cout << "{\"figure\": \"low rank\", \"kernel\": \"" << kernel.name << "\", \"rank\": " << rank
              << ", \"matrices_a_launch\": " << (together ? Matrices::count : 1)
              << ", \"us_a_matrix\": " << seconds * 1e6 / static_cast<double>(Matrices::count);
    if (rate > 0) std::cout << ", \"GB_per_s\": " << rate * 1e-9 << ", \"of_copy\": " << rate / copied;
    std::cout << "}\n";
  }
}

/// The parameters of GPT-2 XL, with its smallest ones left out that are no matrices: 1.56 billion.
ParamLayout model(int blocks) {
  std::vector<ParamSpec> parameters;
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    rows /= shrink;
    columns /= shrink;
    parameters.push_back({name, rows * columns, nullptr, {rows, columns}});
  };
  add("tokens", 50'257, 1600);
  add("positions", 1024, 1600);
  for (int i = 0; i < blocks; ++i) {
    add(text("attention ", i), 4800, 1600);
    add(text("out ", i), 1600, 1600);
    add(text("wide ", i), 6400, 1600);
    add(text("narrow ", i), 1600, 6400);
  }
  return ParamLayout(DataType::f32, parameters);
}

void power_sgd_step(int rank, int blocks) {
  Communicator comm = connect(World::from_environment());
  const ParamLayout layout = model(blocks);
  const auto hook = power_sgd({.rank = rank, .start_step = 0});
  GradientReducer reducer(comm, layout, {.buckets = BucketBytes{std::size_t{25} << 20}, .hook = hook});
  Stream compute(comm.device());
  Buffer noise = Buffer::on(comm.device(), DataType::f32, layout.count(ParamId{0}));
  fill_with_noise(noise.view(), compute);
  std::vector<double> seconds;
  constexpr int warm_up = 3;
  for (int step = 0; step < warm_up + (measures ? 11 : 1); ++step) {
    reducer.begin_step();
    for (int i = 0; i < layout.parameters(); ++i)
      copy(reducer.gradient(ParamId{i}), noise.view().slice(0, layout.count(ParamId{i})), compute);
    compute.synchronize();
    const auto begin = Clock::now();
    for (int i = layout.parameters() - 1; i >= 0; --i) reducer.mark_ready(ParamId{i}, compute);
    reducer.finish_step(compute);
    compute.synchronize();
    if (step >= warm_up) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  if (comm.rank() != 0) return;
  std::cout << "{\"figure\": \"powersgd\", \"device\": \"" << comm.device()
            << "\", \"ranks\": " << comm.size() << ", \"rank\": " << rank << ", \"blocks\": " << blocks
            << ", \"parameters\": " << layout.size() << ", \"step_ms\": " << median(seconds) * 1e3 << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool is_step = !arguments.empty() && arguments[0] == "powersgd";
  try {
    if (arguments.empty()) {
      for (const int rank : {1, 2, 4}) {
        for (const bool together : {true, false}) bandwidth(rank, together);
      }
    } else if (is_step && arguments.size() == 3) {
      power_sgd_step(std::stoi(arguments[1]), std::stoi(arguments[2]));
    } else {
      std::cerr << "usage: gpu_low_rank_figures [powersgd RANK BLOCKS]\n";
      return 42;
    }
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return exit_code(error.kind());
  } catch (const std::logic_error&) {  // of std::stoi
    std::cerr << "gpu_low_rank_figures: RANK and BLOCKS are numbers\n";
    return 42;
  }
}
