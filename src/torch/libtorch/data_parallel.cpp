#include "weft/torch/data_parallel.hpp"

#include "torch/libtorch/gradient_hooks.hpp"
#include "torch/libtorch/gradient_memory.hpp"

namespace weft::torch {

class DataParallel::State final : public detail::GradientHooks {
 public:
  State(Communicator comm, ::torch::nn::Module& module, const DataParallelOptions& options);
  ~State() override { unhook(); }

  GradientReducer& reducer() { return reducing_->reducer; }
  void join(const std::function<void()>& each);

 protected:
  void begin() override {
    to_fill_.clear();
    reducer().begin_step();
  }
  void ready(ParamId id, detail::Holders holders) override;
  void finish(const std::vector<ParamId>& without) override;

 private:
  /// What views of means keep. The reducer goes first: it waits for what is on the wire.
  struct Reducing {
    std::vector<at::Tensor>
        in_place;  // gradients of this pass: other ranks may write to them until it is finished
    GradientReducer reducer;
  };

  bool reduces_in_place(const DataParallelOptions& options);
  BucketChoice buckets(const DataParallelOptions& options) const;

  bool broadcasts_buffers_;
  bool finds_unused_;
  Stream compute_;
  std::optional<detail::GradientMemory> memory_;
  std::shared_ptr<Reducing> reducing_;
  std::vector<at::Tensor> means_;  // by parameter: views of the reducer's memory
  std::vector<ParamId> to_fill_;   // in this pass: gradients of the program's own, which get the means
};

DataParallel::State::State(Communicator comm, ::torch::nn::Module& module, const DataParallelOptions& options)
    : GradientHooks(std::move(comm), module, "DataParallel"),
      broadcasts_buffers_(options.broadcast_buffers),
      finds_unused_(options.unused == Unused::find) {
  if (options.unused == Unused::as_in_first_step)
    detail::refuse(this->comm(), "DataParallel", "Unused::as_in_first_step",
                   "take Unused::find: gradients of passes under no_sync() count for parameters that the "
                   "last pass does not reach");
  this->buffers().sync_initial_values(options.initial_values);
  if (reduces_in_place(options)) memory_.emplace(this->comm(), layout());
  detail::with_torch_errors([&] {
    reducing_ = std::make_shared<Reducing>(
        Reducing{{},
                 GradientReducer(this->comm(), layout(),
                                 ReducerOptions{.buckets = buckets(options),
                                                .hook = options.hook,
                                                .wire = options.wire,
                                                .unused = options.unused,
                                                .uneven = options.uneven,
                                                .count_bad_values = options.count_bad_values})});
    for (int i = 0; i < layout().parameters(); ++i)
      means_.push_back(tensor_over(ParamId{i}, reducer().gradient(ParamId{i}), reducing_));
  });
  hook();
}

bool DataParallel::State::reduces_in_place(const DataParallelOptions& options) {
  const bool anywhere = !options.hook || options.hook->reduces_anywhere();
  return options.gradients_in_place && anywhere && comm().topology().nodes() == 1;
}

// As the reducer's own within a node, but that large gradients are alone.
BucketChoice DataParallel::State::buckets(const DataParallelOptions& options) const {
  if (!memory_ || !std::holds_alternative<PlannedBuckets>(options.buckets)) return options.buckets;
  return plan_buckets(layout(), std::size_t{1} << 20, detail::GradientMemory::large);
}

// Torch made the gradient in memory of its own, which is still in the cache, or added it to the mean of the
// step before, which then was not set to none. It stays there if ranks reach it; else it goes to the reducer's
// memory, and torch's is free. Memory that the program has given `.grad`, or holds, stays in use and gets the mean.
void DataParallel::State::ready(ParamId id, detail::Holders holders) {
  at::Tensor& gradient = parameter(id).mutable_grad();
  at::Tensor& mean = means_[index(id)];
  if (gradient.data_ptr() == mean.data_ptr()) return reducer().mark_ready(id, compute_);
  if (gradient.strides() != mean.strides()) {
    const at::NoGradGuard no_graph;
    mean.copy_(gradient);
    reducer().mark_ready(id, compute_);
  } else {
    const View values = detail::view(gradient, layout().dtype());
    if (holders.alone && memory_ && memory_->holds(gradient)) {
      reducing_->in_place.push_back(gradient);
      if (reducer().mark_ready_in_place(id, values, compute_).data() == values.data()) return;
    } else {
      reducer().mark_ready(id, ConstView(values), compute_);
    }
  }
  if (holders.kept) {
    to_fill_.push_back(id);
  } else {
    gradient = mean;
  }
}

void DataParallel::State::finish(const std::vector<ParamId>& without) {
  reducer().finish_step(compute_);
  compute_.synchronize();
  reducing_->in_place.clear();
  const at::NoGradGuard no_graph;
  for (const ParamId id : to_fill_) parameter(id).mutable_grad().copy_(means_[index(id)]);
  for (const ParamId id : without) {
    if (finds_unused_ && reducer().used(id)) parameter(id).mutable_grad() = means_[index(id)];
  }
  if (broadcasts_buffers_) buffers().broadcast(compute_);
}

void DataParallel::State::join(const std::function<void()>& each) {
  reducer().join(compute_, [&] {
    for (std::size_t i = 0; i < means_.size(); ++i) {
      const ParamId id{static_cast<std::int32_t>(i)};
      at::Tensor& gradient = parameter(id).mutable_grad();
      if (gradient.defined() && gradient.data_ptr() == means_[i].data_ptr()) continue;
      if (is_held(id)) {
        const at::NoGradGuard no_graph;
        gradient.copy_(means_[i]);
      } else {
        gradient = means_[i];
      }
    }
    if (broadcasts_buffers_) buffers().broadcast(compute_);
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
