// What a GPU makes of it, a JSON object a line; ratios of one interleaved run, medians.
//   gpu_figures bandwidth    kernels beside a copy of the same bytes
//   gpu_figures overhead     what an operation costs the thread that issues it, beside ncclAllReduce itself: one of several ranks

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iostream>

#include "collectives/nccl/nccl_communicator.hpp"
#include "compression/codecs/cuda/block_coding.hpp"
#include "core/memory/elementwise.hpp"
#include "gpu/timing.hpp"
#include "weft/weft.hpp"
#include "zero/optimizer/gradient_norm.hpp"
#include "zero/plan/step_factors.hpp"
#include "zero/update/update_cuda.hpp"

namespace {

using namespace weft;
using namespace weft::test;
using Clock = std::chrono::steady_clock;

/// The norm of all gradients of a model of GPT-2 XL's size, on the host's clock, beside the time of its read at a copy's bandwidth.
void norm(double copied) {
  constexpr std::int64_t n = measures ? 1'500'000'000 : 1 << 14;
  Stream stream(Device::cuda(0));
  constexpr std::int64_t bucket = 25 << 18;  // of 25 MiB
  const Buffer gradients = Buffer::on(Device::cuda(0), DataType::f32, n);
  detail::GradientNorm norm(self(), true);
  std::vector<double> seconds;
  for (int round = 0; round < (measures ? 12 : 1); ++round) {
    stream.synchronize();
    const auto begin = Clock::now();
    for (std::int64_t at = 0; at < n; at += bucket)
      norm.add(gradients.view().slice(at, std::min(bucket, n - at)), stream);
    norm.finish(stream);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  const double read = static_cast<double>(n) * 4 / copied;
  std::cout << "{\"figure\": \"norm\", \"elements\": " << n << ", \"seconds\": " << median(seconds)
            << ", \"read_seconds\": " << read << ", \"of_read\": " << median(seconds) / read << "}\n";
}

void bandwidth() {
  constexpr std::int64_t n = measures ? 1 << 28 : 1 << 14;  // elements: far more than the caches
  Stream stream(Device::cuda(0));
  Buffer a = Buffer::on(Device::cuda(0), DataType::f32, n);
  Buffer b = Buffer::on(Device::cuda(0), DataType::f32, n);
  const View halves(b.view().data(), n, DataType::bf16, Device::cuda(0));
  constexpr std::int64_t block = 1024;
  Buffer sums = Buffer::on(Device::cuda(0), DataType::f64, n / block);
  Buffer sum = Buffer::on(Device::cuda(0), DataType::i64, detail::ExactSum::places_count + 1);
  const auto of_steps = detail::cuda::update_kernels();
  const auto norm_of = [&](ConstView gradients) {
    stream.run([&, all = std::array{gradients}] {
      of_steps->add_squares(sum.view(), all, detail::cuda::place_of(stream));
    });
  };
  Buffer counts = Buffer::on(Device::cuda(0), DataType::i64, 2);
  RecycledVector<ConstView> pieces;
  for (std::int64_t i = 0; i < 64; ++i) pieces.push_back(a.view().slice(i * (n / 64), n / 64));

  // Codes of this rank and another one, as in an exchange between two.
  const auto coding = detail::cuda::block_code_kernels();
  const auto coding_of = [&](detail::BlockFormat format) {
    return detail::BlockCoding{.form = {.format = format},
                               .own = {},
                               .means = {},
                               .gradient = static_cast<float*>(a.view().data()),
                               .count = n / 4,
                               .part = n / 8,
                               .ranks = 2};
  };
  const auto encoded = [&](detail::BlockFormat format) {
    stream.run(
        [&] { coding->encode_parts(coding_of(format), b.view().bytes(), detail::cuda::place_of(stream)); });
  };
  const auto decoded = [&](detail::BlockFormat format) {
    stream.run(
        [&] { coding->decode_means(coding_of(format), b.view().bytes(), detail::cuda::place_of(stream)); });
  };
  using detail::BlockFormat;

  // A quarter of the elements each: gradients, parameters and two moments.
  const auto adamw = detail::factors(zero::AdamW{}, 3, 1e-3, 1);
  const auto update = [&](detail::cuda::Arithmetic arithmetic) {
    const std::int64_t part = n / 4;
    const detail::StepArrays arrays{.gradient = a.view().data(),
                                    .parameters = a.view().slice(part, part).data(),
                                    .first = static_cast<float*>(b.view().data()),
                                    .second = static_cast<float*>(b.view().slice(part, part).data()),
                                    .count = part};
    stream.run([&] { of_steps->update(arrays, adamw, detail::cuda::place_of(stream), arithmetic); });
  };

  RecycledVector<ConstView> odd_pieces;
  for (std::int64_t i = 0; i < 64; ++i) odd_pieces.push_back(a.view().slice(i * (n / 64) + 1, n / 64 - 2));
  const std::int64_t odd_count = n - 128;

  struct Kernel {
    const char* name;
    double bytes_an_element;
    std::function<void()> work;
    std::vector<double> rates{};
  };
  std::vector<Kernel> kernels{
      {"copy", 8, [&] { copy(b.view(), a.view(), stream); }},
      {"divide f32", 8, [&] { detail::divide(a.view(), 3, stream); }},
      {"divide bf16", 4, [&] { detail::divide(halves, 3, stream); }},
      {"scale f32", 8, [&] { detail::scale(a.view(), 0.5, stream); }},
      {"cast f32 to bf16", 6, [&] { detail::cast(halves, a.view(), stream); }},
      {"cast bf16 to f32", 6, [&] { detail::cast(a.view(), halves, stream); }},
      {"pack f32", 8, [&] { detail::pack(b.view(), pieces, stream); }},
      {"pack f32, not aligned", 8, [&] { detail::pack(b.view().slice(0, odd_count), odd_pieces, stream); }},
      {"fill f32", 4, [&] { detail::fill(a.view(), 1, stream); }},
      {"add f32", 12, [&] { detail::add(a.view(), b.view(), stream); }},
      {"count bad values f32", 4, [&] { detail::count_bad(counts.view(), a.view(), stream); }},
      {"squares by 1024 f32", 4, [&] { detail::square_sums(sums.view(), a.view(), block, stream); }},
      {"AdamW f32", 28.0 / 4, [&] { update(detail::cuda::Arithmetic::f64); }},
      {"AdamW f32, in pairs of f32", 28.0 / 4, [&] { update(detail::cuda::Arithmetic::pairs); }},
      {"encode fp16", 6.0 / 4, [&] { encoded(BlockFormat::f16); }},  // a quarter of the elements
      {"decode fp16", 6.0 / 4, [&] { decoded(BlockFormat::f16); }},
      {"encode int8", 5.0 / 4, [&] { encoded(BlockFormat::i8); }},
      {"decode int8", 5.0 / 4, [&] { decoded(BlockFormat::i8); }},
      {"exact squares f32", 4, [&] { norm_of(a.view()); }},
      {"exact squares bf16", 2, [&] { norm_of(halves); }},
  };
  for (int round = 0; round < (measures ? 11 : 1); ++round) {
    for (Kernel& kernel : kernels)
      kernel.rates.push_back(static_cast<double>(n) * kernel.bytes_an_element /
                             device_seconds(stream, kernel.work, 10));
  }
  const double copied = median(kernels.front().rates);
  for (const Kernel& kernel : kernels) {
    const double rate = median(kernel.rates);
    std::cout << "{\"figure\": \"bandwidth\", \"kernel\": \"" << kernel.name
              << "\", \"GB_per_s\": " << rate * 1e-9 << ", \"of_copy\": " << rate / copied << "}\n";
  }
  norm(copied);
}

// On one rank NCCL returns before it joins a group (2.28.9: enqueue.cc:2570), which shows nothing of what others pay.
void overhead() {
  using namespace detail::nccl;
  const auto world = World::from_environment();
  auto comm = connect(world);
  if (comm.size() < 2) throw Error(ErrorKind::usage, "overhead on one rank", "start two: WEFT_SIZE=2");
  const auto api = Api::load(world.environment().value(env::nccl_library));
  UniqueId id{};
  if (comm.rank() == 0) id = detail::nccl::Communicator::make_id(*api);
  comm.broadcast(View(static_cast<void*>(id.internal), sizeof(id.internal), DataType::u8), 0, weft::Stream())
      .wait();
  const auto cuda = detail::cuda::runtime();
  const detail::cuda::Current current(*cuda, comm.device().index());
  detail::nccl::Communicator bare(api, id, comm.rank(), comm.size(),
                                  {.enter = [&] { cuda->make_current(comm.device().index()); }},
                                  Deadline::in(std::chrono::seconds(60)));
  weft::Stream stream(comm.device());
  Buffer data = comm.allocate(DataType::f32, 256);
  void* raw = data.view().data();
  const auto native = native_handle(stream);
  constexpr int calls = measures ? 200 : 5;
  const auto per_call = [&](const std::function<void()>& call) {
    stream.synchronize();
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
  };
  const auto nccl_alone = [&] {
    if (api->AllReduce(raw, raw, 256, Type::f32, Op::sum, bare.raw(), native) != Result::success)
      throw Error(ErrorKind::system, "ncclAllReduce failed");
  };
  nccl_alone();  // connects the ranks
  const auto event = cuda->make_event(comm.device().index(), false);
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> records;
  for (int round = 0; round < (measures ? 21 : 2); ++round) {
    ours.push_back(per_call([&] { comm.all_reduce(data.view(), ReduceOp::sum, stream); }));
    theirs.push_back(per_call(nccl_alone));
    records.push_back(per_call([&] { cuda->record(event, native); }));  // which weft adds to each
  }
  cuda->destroy(event);
  stream.synchronize();
  if (comm.rank() != 0) return;
  std::cout << "{\"figure\": \"overhead\", \"ranks\": " << comm.size()
            << ", \"weft_us\": " << median(ours) * 1e6 << ", \"nccl_us\": " << median(theirs) * 1e6
            << ", \"difference_us\": " << (median(ours) - median(theirs)) * 1e6
            << ", \"event_record_us\": " << median(records) * 1e6 << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  if (what != "bandwidth" && what != "overhead") {
    std::cerr << "usage: gpu_figures bandwidth | overhead\n";
    return 42;
  }
  try {
    what == "bandwidth" ? bandwidth() : overhead();
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return exit_code(error.kind());
  }
}
