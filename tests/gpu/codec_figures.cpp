// What a GPU makes of codecs by blocks, beside a copy of the same bytes: a JSON object a line, medians of interleaved rounds. On noise: zeros
// may take another way through a kernel.

#include <chrono>
#include <iostream>
#include <string>

#include "compression/codecs/cuda/block_coding.hpp"
#include "gpu/timing.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using namespace weft::test;
using detail::BlockFormat;

constexpr std::int64_t n = measures ? 1 << 26 : 1 << 12;
constexpr int ranks = 2;
constexpr std::int64_t part = n / ranks;

struct Kernel {
  std::string name;
  double bytes;
  std::function<void()> work;
  std::vector<double> rates{};
};

class Codecs {
 public:
  Codecs() {
    fill_with_noise(noise_.view(), stream_);
    copy(gradient_.view(), noise_.view(), stream_);
    stream_.synchronize();
    std::vector<float> lost(static_cast<std::size_t>(n));
    copy(View(std::span(lost)), noise_.view(), stream_);
    stream_.synchronize();
    std::vector<std::uint8_t> in_16_bits(static_cast<std::size_t>(detail::bytes_of(BlockFormat::i16, n)));
    detail::block_kernel().encode(BlockFormat::i16, Rounding::nearest,
                                  reinterpret_cast<std::byte*>(in_16_bits.data()), lost.data(), n, {});
    const auto bytes = static_cast<std::int64_t>(in_16_bits.size());
    copy(View(errors_.view().bytes(), bytes, DataType::u8, Device::cuda(0)), ConstView(std::span(in_16_bits)),
         stream_);
    stream_.synchronize();
  }

  Stream& stream() { return stream_; }
  std::vector<Kernel> kernels() {
    std::vector<Kernel> result{{"copy", 8.0 * n, [this] { copy(copied_.view(), noise_.view(), stream_); }}};
    result.push_back(
        {"check f32", 4.0 * n, [this] {
           stream_.run([this] { kernels_->check(noise_.view(), bad(), detail::cuda::place_of(stream_)); });
         }});
    constexpr std::pair<BlockFormat, const char*> formats[] = {
        {BlockFormat::f16, "fp16"},      {BlockFormat::bf16, "bf16"}, {BlockFormat::e4m3, "fp8 e4m3"},
        {BlockFormat::e5m2, "fp8 e5m2"}, {BlockFormat::i8, "int8"},   {BlockFormat::i4, "int4"},
        {BlockFormat::e2m1, "fp4"}};
    for (const auto& [format, name] : formats) {
      for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
        const std::string how = std::string(name) + (rounding == Rounding::stochastic ? ", stochastic" : "");
        const double code = coded(format);
        result.push_back({"encode " + how, (4 + code) * n, encoded(format, rounding, Errors::none)});
        result.push_back({"sum_mine " + how, (ranks * code + code + 4) * part, summed(format, rounding)});
        if (rounding == Rounding::stochastic) continue;
        result.push_back({"decode " + how, (4 + code) * n, decoded(format)});
        // What is lost stays in the gradients, and is kept of the parts that travel.
        result.push_back({"encode " + how + ", errors in 16 bits",
                          (4 + 2 + code + 4 + 2.0 * (ranks - 1) / ranks) * n,
                          encoded(format, rounding, Errors::in_16_bits)});
        result.push_back({"encode " + how + ", errors in f32",
                          (4 + 4 + code + 4 + 4.0 * (ranks - 1) / ranks) * n,
                          encoded(format, rounding, Errors::f32)});
      }
    }
    return result;
  }

 private:
  enum class Errors { none, in_16_bits, f32 };

  static Buffer on_device(std::int64_t count) { return Buffer::on(Device::cuda(0), DataType::f32, count); }
  static double coded(BlockFormat format) { return static_cast<double>(detail::bytes_of(format, n)) / n; }
  std::int32_t* bad() { return static_cast<std::int32_t*>(bad_.view().data()); }

  detail::BlockCoding coding(BlockFormat format, Rounding rounding, Errors errors) {
    detail::BlockCoding result{.form = {.format = format, .rounding = rounding},
                               .own = {},
                               .means = {},
                               .gradient = static_cast<float*>(gradient_.view().data()),
                               .count = n,
                               .part = part,
                               .ranks = ranks};
    if (errors == Errors::none) return result;
    result.errors = (errors == Errors::f32 ? noise_ : errors_).view().bytes();
    result.kept = kept_.view().bytes();
    result.are_f32 = errors == Errors::f32;
    return result;
  }
  std::function<void()> encoded(BlockFormat format, Rounding rounding, Errors errors) {
    return [this, of = coding(format, rounding, errors)] {
      stream_.run(
          [&] { kernels_->encode_parts(of, codes_.view().bytes(), detail::cuda::place_of(stream_)); });
    };
  }
  std::function<void()> decoded(BlockFormat format) {
    return [this, of = coding(format, Rounding::nearest, Errors::none)]() mutable {
      of.gradient = static_cast<float*>(copied_.view().data());
      stream_.run(
          [&] { kernels_->decode_means(of, codes_.view().bytes(), detail::cuda::place_of(stream_)); });
    };
  }
  std::function<void()> summed(BlockFormat format, Rounding rounding) {
    return [this, of = coding(format, rounding, Errors::none)]() mutable {
      of.gradient = static_cast<float*>(copied_.view().data());
      stream_.run([&] {
        kernels_->sum_mine(of, codes_.view().bytes(), means_.view().bytes(),
                           static_cast<float*>(copied_.view().data()), bad(),
                           detail::cuda::place_of(stream_));
      });
    };
  }

  std::shared_ptr<detail::cuda::BlockCodecKernels> kernels_ = detail::cuda::block_code_kernels();
  Stream stream_{Device::cuda(0)};
  Buffer noise_ = on_device(n), gradient_ = on_device(n), copied_ = on_device(n), errors_ = on_device(n),
         kept_ = on_device(n), codes_ = on_device(n), means_ = on_device(n);
  Buffer bad_ = Buffer::on(Device::cuda(0), DataType::i32, 1);
};

}  // namespace

int main() {
  try {
    Codecs codecs;
    std::vector<Kernel> kernels = codecs.kernels();
    for (int round = 0; round < (measures ? 7 : 1); ++round) {
      for (Kernel& kernel : kernels)
        kernel.rates.push_back(kernel.bytes /
                               device_seconds(codecs.stream(), kernel.work, measures ? 10 : 1));
    }
    const double copied = median(kernels.front().rates);
    for (const Kernel& kernel : kernels) {
      const double rate = median(kernel.rates);
      std::cout << "{\"figure\": \"codec\", \"kernel\": \"" << kernel.name
                << "\", \"GB_per_s\": " << rate * 1e-9 << ", \"of_copy\": " << rate / copied << "}\n";
    }
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return exit_code(error.kind());
  }
}
