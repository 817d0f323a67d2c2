#include "weft/torch/data_parallel.hpp"

#include <ATen/ops/from_blob.h>

#include "torch/libtorch/gradient_hooks.hpp"

namespace weft::torch {
namespace {

std::int64_t aligned_bytes(const at::Tensor& tensor) {
  return (static_cast<std::int64_t>(tensor.nbytes()) + 15) / 16 * 16;
}

}  // namespace

class DataParallel::State final : public detail::GradientHooks {
 public:
  State(Communicator comm, ::torch::nn::Module& module, const DataParallelOptions& options);
  ~State() override { unhook(); }

  GradientReducer& reducer() { return *reducer_; }
  void join(const std::function<void()>& each);

 protected:
  void begin() override { reducer_->begin_step(); }
  void ready(ParamId id) override;
  void finish(const std::vector<ParamId>& without) override;

 private:
  void broadcast_buffers();

  bool broadcasts_buffers_;
  bool finds_unused_;
  Stream compute_;
  std::shared_ptr<GradientReducer> reducer_;  // views keep it, and with it their memory
  std::vector<at::Tensor> means_;             // by parameter: views of the reducer's memory
  Buffer buffers_;                            // the bytes of all buffers, one after the other
};

DataParallel::State::State(Communicator comm, ::torch::nn::Module& module, const DataParallelOptions& options)
    : GradientHooks(std::move(comm), module, "DataParallel"),
      broadcasts_buffers_(options.broadcast_buffers),
      finds_unused_(options.unused == Unused::find) {
  if (options.unused == Unused::as_in_first_step)
    detail::refuse(this->comm(), "DataParallel", "Unused::as_in_first_step",
                   "take Unused::find: gradients of passes under no_sync() count for parameters that the "
                   "last pass does not reach");
  sync_initial_values(options.initial_values);
  detail::with_torch_errors([&] {
    reducer_ =
        std::make_shared<GradientReducer>(this->comm(), layout(),
                                          ReducerOptions{.buckets = options.buckets,
                                                         .hook = options.hook,
                                                         .wire = options.wire,
                                                         .unused = options.unused,
                                                         .uneven = options.uneven,
                                                         .count_bad_values = options.count_bad_values});
    for (int i = 0; i < layout().parameters(); ++i)
      means_.push_back(tensor_over(ParamId{i}, reducer_->gradient(ParamId{i}), reducer_));
  });
  hook();
}

// Torch made the gradient in memory of its own, which is still in the cache, or added it to the mean of the
// step before, which then was not set to none. From here on it lies in the reducer's memory; torch's is free.
void DataParallel::State::ready(ParamId id) {
  at::Tensor& gradient = parameter(id).mutable_grad();
  at::Tensor& mean = means_[index(id)];
  if (gradient.data_ptr() == mean.data_ptr()) {
    reducer_->mark_ready(id, compute_);
  } else if (gradient.strides() == mean.strides()) {
    reducer_->mark_ready(id, ConstView(detail::view(gradient, layout().dtype())), compute_);
  } else {
    const at::NoGradGuard no_graph;
    mean.copy_(gradient);
    reducer_->mark_ready(id, compute_);
  }
  gradient = mean;
}

void DataParallel::State::finish(const std::vector<ParamId>& without) {
  reducer_->finish_step(compute_);
  compute_.synchronize();
  for (const ParamId id : without) {
    if (finds_unused_ && reducer_->used(id)) parameter(id).mutable_grad() = means_[index(id)];
  }
  if (broadcasts_buffers_) broadcast_buffers();
}

// One broadcast of all of them as bytes: they are many and small.
void DataParallel::State::broadcast_buffers() {
  if (comm().size() == 1) return;
  std::vector<at::Tensor> buffers;
  std::int64_t bytes = 0;
  for (const at::Tensor& buffer : module().buffers()) {
    if (!buffer.defined() || buffer.numel() == 0) continue;
    buffers.push_back(buffer.detach());
    bytes += aligned_bytes(buffer);
  }
  if (bytes == 0) return;
  if (buffers_.count() != bytes) buffers_ = comm().allocate(DataType::u8, bytes);
  const at::NoGradGuard no_graph;
  const auto for_each = [&](const auto& move) {
    std::byte* at = buffers_.view().bytes();
    for (at::Tensor& buffer : buffers) {
      at::Tensor place = at::from_blob(at, buffer.sizes(), buffer.options());
      move(buffer, place);
      at += aligned_bytes(buffer);
    }
  };
  if (comm().rank() == 0) for_each([](at::Tensor& buffer, at::Tensor& place) { place.copy_(buffer); });
  comm().broadcast(buffers_.view(), 0, compute_);
  compute_.synchronize();
  if (comm().rank() != 0) for_each([](at::Tensor& buffer, at::Tensor& place) { buffer.copy_(place); });
}

void DataParallel::State::join(const std::function<void()>& each) {
  reducer_->join(compute_, [&] {
    for (std::size_t i = 0; i < means_.size(); ++i)
      parameter(ParamId{static_cast<std::int32_t>(i)}).mutable_grad() = means_[i];
    if (broadcasts_buffers_) broadcast_buffers();
    if (each) each();
  });
}

DataParallel::DataParallel(Communicator comm, ::torch::nn::Module& module, DataParallelOptions options)
    : state_(std::make_unique<State>(std::move(comm), module, options)) {}
DataParallel::~DataParallel() = default;
DataParallel::DataParallel(DataParallel&&) noexcept = default;

int DataParallel::rank() const {
  return state_->comm().rank();
}
int DataParallel::size() const {
  return state_->comm().size();
}

NoSync DataParallel::no_sync() {
  if (!state_->hands_over())
    detail::refuse(state_->comm(), "no_sync", "no_sync() while another one lives", "end its scope first");
  state_->hand_over(false);
  return NoSync([state = state_.get()] { state->hand_over(true); });
}

void DataParallel::join(const std::function<void()>& each) {
  detail::with_torch_errors([&] { state_->join(each); });
}

GradientReducer& DataParallel::reducer() {
  return state_->reducer();
}

}  // namespace weft::torch
