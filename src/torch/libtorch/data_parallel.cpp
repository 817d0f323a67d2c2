#include "weft/torch/data_parallel.hpp"

#include "torch/libtorch/gradient_hooks.hpp"

namespace weft::torch {

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
  bool broadcasts_buffers_;
  bool finds_unused_;
  Stream compute_;
  std::shared_ptr<GradientReducer> reducer_;  // views keep it, and with it their memory
  std::vector<at::Tensor> means_;             // by parameter: views of the reducer's memory
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
  if (broadcasts_buffers_) broadcast_buffers(compute_);
}

void DataParallel::State::join(const std::function<void()>& each) {
  reducer_->join(compute_, [&] {
    for (std::size_t i = 0; i < means_.size(); ++i)
      parameter(ParamId{static_cast<std::int32_t>(i)}).mutable_grad() = means_[i];
    if (broadcasts_buffers_) broadcast_buffers(compute_);
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
  return state_->no_sync();
}

void DataParallel::join(const std::function<void()>& each) {
  detail::with_torch_errors([&] { state_->join(each); });
}

GradientReducer& DataParallel::reducer() {
  return state_->reducer();
}

}  // namespace weft::torch
