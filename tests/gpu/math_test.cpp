// On a card: the arithmetic of the example models beside the host's, and gradients of whole models.

#include "weft-scaling/gpt/math/math.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "weft-scaling/gpt/data/random.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"

namespace weft::examples {
namespace {

/// The same memory on the host and on the device.
class Twin {
 public:
  Twin(Math<double>& device, std::int64_t count, std::uint64_t seed)
      : device_(device), host(static_cast<std::size_t>(count)), buffer_(device.allocate(count)) {
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = random_normal(seed, 0, i);
    device.put(host, there());
  }
  double* here() { return host.data(); }
  double* there() { return static_cast<double*>(buffer_.view().data()); }
  void expect_equal(const char* what) {
    std::vector<double> got(host.size());
    device_.get(there(), got);
    for (std::size_t i = 0; i < host.size(); ++i)
      ASSERT_NEAR(got[i], host[i], 1e-10 * (1 + std::abs(host[i]))) << what << " at " << i;
  }

 private:
  Math<double>& device_;

 public:
  std::vector<double> host;

 private:
  Buffer buffer_;
};

class OnDevice : public testing::Test {
 protected:
  Stream stream_{Device::cuda(0)};
  std::unique_ptr<Math<double>> device_ = make_cuda_math<double>(stream_);
  Math<double>& host_ = host_math<double>();

  Twin twin(std::int64_t count, std::uint64_t seed) { return {*device_, count, seed}; }
};

TEST_F(OnDevice, ProductsOfEveryOrientationAndBatch) {
  for (const Op op_a : {Op::plain, Op::transposed}) {
    for (const Op op_b : {Op::plain, Op::transposed}) {
      constexpr int m = 17, n = 5, k = 33, count = 3;
      Twin a = twin(m * k * count, 1), b = twin(n * k * count, 2), c = twin(m * n * count, 3);
      Product<double> product{.op_a = op_a,
                              .op_b = op_b,
                              .m = m,
                              .n = n,
                              .k = k,
                              .alpha = 0.5,
                              .a = a.here(),
                              .lda = op_a == Op::plain ? k : m,
                              .b = b.here(),
                              .ldb = op_b == Op::plain ? n : k,
                              .beta = 2,
                              .c = c.here(),
                              .ldc = n,
                              .count = count,
                              .stride_a = m * k,
                              .stride_b = n * k,
                              .stride_c = m * n};
      host_.product(product);
      product.a = a.there();
      product.b = b.there();
      product.c = c.there();
      device_->product(product);
      c.expect_equal("product");
    }
  }
}

TEST_F(OnDevice, RowsNormsAndActivations) {
  for (const auto& [rows, width] : {std::pair{1, 1}, {7, 33}, {100, 384}, {513, 1000}}) {
    const std::int64_t n = std::int64_t{rows} * width;
    Twin x = twin(n, 1), y = twin(n, 2), row = twin(width, 3), bias = twin(width, 4), sum = twin(width, 5);
    Twin normal = twin(n, 6), scale = twin(rows, 7), through = twin(n, 8), dx = twin(n, 9);
    const auto both = [&](auto call) {
      call(host_, [](Twin& twin) { return twin.here(); });
      call(*device_, [](Twin& twin) { return twin.there(); });
    };
    both([&](auto& math, auto at) {
      math.add_row(at(row), at(y), rows, width);
      math.sum_rows(at(x), at(sum), rows, width);
      math.norm(at(x), at(row), at(bias), at(normal), at(scale), at(y), rows, width);
      math.norm_input(at(x), at(row), at(normal), at(scale), at(through), at(dx), rows, width);
      math.add(at(dx), at(through), n);
    });
    sum.expect_equal("sum_rows");
    y.expect_equal("norm");
    dx.expect_equal("norm_input");
    through.expect_equal("add");
    both([&](auto& math, auto at) {
      math.norm_gain(at(x), at(normal), at(sum), rows, width);
      math.gelu(at(x), at(y), n);
      math.multiply(at(x), at(dx), n);
      math.relu(at(through), n);
      math.relu_backward(at(through), at(normal), n);
      math.copy_row(at(row), at(scale), rows / width, width);
    });
    for (Twin* one : {&sum, &x, &y, &dx, &through, &normal, &scale}) one->expect_equal("activation");
  }
}

TEST_F(OnDevice, SoftmaxAndCrossEntropy) {
  constexpr int context = 37, matrices = 5;
  Twin scores = twin(context * context * matrices, 1), gradient = twin(context * context * matrices, 2);
  host_.causal_softmax(scores.here(), context, matrices);
  device_->causal_softmax(scores.there(), context, matrices);
  scores.expect_equal("causal_softmax");
  host_.causal_softmax_backward(scores.here(), gradient.here(), context, matrices);
  device_->causal_softmax_backward(scores.there(), gradient.there(), context, matrices);
  gradient.expect_equal("causal_softmax_backward");

  constexpr int rows = 300, classes = 256, stride = 300;
  Twin logits = twin(rows * stride, 3);
  std::vector<std::uint8_t> targets(rows);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<std::uint8_t>(i * 7);
  Buffer there = Buffer::on(device_->device(), DataType::u8, rows);
  device_->put_bytes(targets, there);
  const double loss = host_.cross_entropy(logits.here(), targets.data(), rows, classes, stride, 2 * rows);
  EXPECT_NEAR(device_->cross_entropy(logits.there(), static_cast<const std::uint8_t*>(there.view().data()),
                                     rows, classes, stride, 2 * rows),
              loss, 1e-12);
  logits.expect_equal("cross_entropy");
}

/// Parameters after some steps of training on a made-up text, by loss.
std::vector<double> train(const ModelSpec& spec, Math<double>& math, Stream& stream) {
  class Sink final : public GradientSink<double> {
   public:
    Sink(double* flat, std::vector<std::int64_t> offsets) : flat_(flat), offsets_(std::move(offsets)) {}
    double* target(int parameter) override { return flat_ + offsets_[static_cast<std::size_t>(parameter)]; }
    void ready(int) override {}

   private:
    double* flat_;
    std::vector<std::int64_t> offsets_;
  };
  const auto model = make_model<double>(spec, math);
  const std::int64_t count = total_count(model->parameters());
  Buffer parameters = math.allocate(count);
  Buffer gradients = math.allocate(count);
  const auto offsets = packed_offsets(model->parameters());
  model->bind(parameters.view(), offsets);
  model->initialize(3);
  // Gradient descent, on the host: what is looked at is the model.
  const auto descend = [&] {
    std::vector<double> values(static_cast<std::size_t>(count));
    std::vector<double> slopes(values.size());
    math.get(static_cast<const double*>(parameters.view().data()), values);
    math.get(static_cast<const double*>(gradients.view().data()), slopes);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.1 * slopes[i];
    math.put(values, static_cast<double*>(parameters.view().data()));
  };
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < 5000; ++i) bytes.push_back(static_cast<std::uint8_t>(97 + i * i % 23));
  const Text text(std::move(bytes), spec.sequence_bytes(), "a made-up text");
  std::vector<Sequence> batch(static_cast<std::size_t>(spec.sequences));
  std::vector<double> losses;
  Sink sink(static_cast<double*>(gradients.view().data()), offsets);
  for (int step = 0; step < 5; ++step) {
    text.training(1, step, 0, batch);
    losses.push_back(model->forward(batch));
    model->backward(sink);
    descend();
  }
  stream.synchronize();
  return losses;
}

TEST_F(OnDevice, ModelsTrainAsOnTheHostAndTwiceAlike) {
  const ModelSpec mlp{.name = "mlp",
                      .kind = ModelKind::mlp,
                      .layers = 3,
                      .width = 256,
                      .context = 256,
                      .sequences = 8,
                      .optimizer = {}};
  for (const ModelSpec& spec : {model_spec("gpt-tiny"), mlp}) {
    Stream host;
    const auto expected = train(spec, host_, host);
    const auto got = train(spec, *device_, stream_);
    for (std::size_t step = 0; step < expected.size(); ++step)
      EXPECT_NEAR(got[step], expected[step], 1e-8) << spec.name;
    EXPECT_EQ(train(spec, *device_, stream_), got) << spec.name << ": another run has other bits";
  }
}

}  // namespace
}  // namespace weft::examples
