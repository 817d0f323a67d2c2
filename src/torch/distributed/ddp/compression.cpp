#include <algorithm>

#include "torch/distributed/ddp/model.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/tensors.hpp"

namespace weft::distributed {
namespace {

constexpr const char* call_name = "compress";

/// At least one dimension.
std::vector<std::int64_t> shape_of(const at::Tensor& parameter) {
  if (parameter.dim() == 0) return {1};
  return parameter.sizes().vec();
}

void expect_dense_floats(const at::Tensor& buffer) {
  expect_dense(call_name, buffer);
  if (!buffer.is_cpu())
    refuse(call_name, text("gradients on ", buffer.device().str(), ": codes are made in memory of the host"),
           "train it without compress()");
  if (!c10::isFloatingType(buffer.scalar_type()))
    refuse(call_name, text("gradients of ", c10::toString(buffer.scalar_type())),
           "train it without compress()");
}

}  // namespace

Compression::Compression(std::shared_ptr<Group> group, CompressionOptions options,
                         const Parameters& parameters)
    : group_(std::move(group)), options_(std::move(options)) {
  try {
    if (options_.is_power_sgd()) {
      options_.make_power_sgd({});  // throws for wrong values
    } else {
      options_.make_codec_hook(0);
    }
  } catch (...) {
    std::rethrow_exception(group_->as_torch_error(std::current_exception()));
  }
  for (const auto& [name, parameter] : parameters) {
    names_[parameter.unsafeGetTensorImpl()] = name;
    if (options_.is_power_sgd() && options_.shrinks(name, shape_of(parameter)))
      matrices_[name] = shape_of(parameter);
  }
  for (const std::string& whole : options_.power_sgd.whole) {
    const auto has_name = [&](const auto& one) { return one.first == whole; };
    if (std::ranges::none_of(parameters, has_name))
      refuse(call_name, text("whole names '", whole, "', which no parameter is called"),
             "give names as named_parameters() has them");
  }
  if (options_.is_power_sgd() && matrices_.empty())
    refuse(call_name,
           text("PowerSGD of rank ", options_.power_sgd.rank, " makes no parameter smaller by ",
                options_.power_sgd.min_rate),
           "use a smaller rank or min_rate; a model without matrices needs another codec");
}

c10::intrusive_ptr<c10::ivalue::Future> Compression::reduce(const c10d::GradBucket& bucket) {
  const at::Tensor& buffer = bucket.getBuffer();
  expect_dense_floats(buffer);
  auto work = c10::make_intrusive<TorchWork>(
      group_, Call{c10d::OpType::ALLREDUCE, "weft:compressed_all_reduce", {buffer}, {{buffer}}});
  if (buffer.numel() == 0) {
    work->step([](const Issue&) {});
  } else {
    work->step([one = this->bucket(bucket), buffer](const Issue& issue) { one->reduce(buffer, issue); });
  }
  group_->start(work);
  return work->getFuture()->then(
      [](c10::ivalue::Future& done) { return c10::IValue(done.value().toTensorVector().front()); },
      c10::TensorType::get());
}

// DDP hands its buckets over in their order. So those before a bucket with other parameters are of the new
// buckets, and those from it on are of the old ones.
std::shared_ptr<CompressedBucket> Compression::bucket(const c10d::GradBucket& bucket) {
  BucketIdentity identity{bucket.getIndex(), {}};
  for (const at::Tensor& parameter : bucket.getParameters())
    identity.parameters.push_back(parameter.unsafeGetTensorImpl());
  const std::lock_guard lock(mutex_);
  const std::size_t index = identity.index;
  if (index <= last_index_) ++step_;
  last_index_ = index;
  if (index < buckets_.size() && buckets_[index] && buckets_[index]->identity() == identity)
    return buckets_[index];
  drop_from(index);
  auto made = make(std::move(identity), bucket);
  buckets_.resize(index + 1);
  buckets_[index] = made;
  return made;
}

void Compression::drop_from(std::size_t index) {
  try {
    for (std::size_t i = index; i < buckets_.size(); ++i) {
      if (buckets_[i]) keep(*buckets_[i]);
    }
  } catch (...) {
    std::rethrow_exception(group_->as_torch_error(std::current_exception()));
  }
  buckets_.resize(std::min(buckets_.size(), index));
}

std::shared_ptr<CompressedBucket> Compression::make(BucketIdentity identity, const c10d::GradBucket& bucket) {
  std::vector<ParamSpec> parameters;
  for (const at::Tensor& parameter : bucket.getParameters()) {
    if (parameter.numel() == 0) continue;
    const auto name = names_.find(parameter.unsafeGetTensorImpl());
    if (name == names_.end())
      refuse(call_name, "a bucket with a parameter that the model did not have", "call compress() again");
    parameters.push_back({name->second, parameter.numel(), nullptr, shape_of(parameter)});
  }
  std::shared_ptr<CompressedBucket> made;
  group_->in_order([&](Communicator& comm) {
    if (!thread_) thread_ = comm.progress_stream();
    made = std::make_shared<CompressedBucket>(options_, std::move(identity), parameters, bucket.getBuffer(),
                                              comm, step_ - 1, take_kept(parameters),
                                              thread_->is_inline() ? Stream() : *thread_);
  });
  return made;
}

std::optional<PowerSgdState> Compression::take_kept(const std::vector<ParamSpec>& parameters) {
  std::optional<PowerSgdState> state;
  for (const ParamSpec& one : parameters) {
    const auto kept = kept_.find(one.name);
    if (kept == kept_.end()) continue;
    KeptTensor& saved = kept->second;
    if (!state) state = PowerSgdState{saved.steps, saved.left_bases, {}};
    if (state->left_bases != saved.left_bases)
      throw Error(ErrorKind::usage,
                  text("a bucket with ", one.name, ", whose basis is of the other side than that of ",
                       state->tensors.front().name),
                  "after steps with NaN in some buckets, keep the bucket sizes of the run that saved it");
    state->steps = std::min(state->steps, saved.steps);
    state->tensors.push_back(std::move(saved.tensor));
    kept_.erase(kept);
  }
  return state;
}

void Compression::keep(CompressedBucket& bucket) {
  const std::optional<PowerSgdState> state = bucket.state();
  if (!state) return;
  for (const PowerSgdState::Tensor& one : state->tensors)
    kept_[one.name] = {one, state->steps, state->left_bases};
}

void Compression::expect_power_sgd(const char* call) const {
  if (!options_.is_power_sgd())
    refuse(call, text("the residuals of ", options_.codec, " cannot be saved"),
           "they begin at zero after a restart; PowerSGD's state can be saved");
}

std::vector<KeptTensor> Compression::state() {
  expect_power_sgd("state_dict");
  const std::lock_guard lock(mutex_);
  auto all = kept_;
  try {
    for (const auto& bucket : buckets_) {
      const auto state = bucket ? bucket->state() : std::nullopt;
      if (!state) continue;
      for (const PowerSgdState::Tensor& one : state->tensors)
        all[one.name] = {one, state->steps, state->left_bases};
    }
  } catch (...) {
    std::rethrow_exception(group_->as_torch_error(std::current_exception()));
  }
  std::vector<KeptTensor> tensors;
  for (auto& [name, one] : all) tensors.push_back(std::move(one));
  return tensors;
}

void Compression::load_state(std::vector<KeptTensor> state) {
  constexpr const char* call = "load_state_dict";
  expect_power_sgd(call);
  std::map<std::string, KeptTensor> kept;
  for (KeptTensor& one : state) {
    const std::string name = one.tensor.name;
    const auto matrix = matrices_.find(name);
    if (matrix == matrices_.end())
      refuse(call, text(name, " is compressed there and not here"), "load the state of the same model");
    if (matrix->second != one.tensor.shape)
      refuse(call, text(name, " has another shape there"), "load the state of the same model");
    kept[name] = std::move(one);
  }
  for (const auto& [name, shape] : matrices_) {
    if (!kept.empty() && !kept.contains(name))
      refuse(call, text(name, " is compressed here and not there"), "load the state of the same model");
  }
  const std::lock_guard lock(mutex_);
  buckets_.clear();
  kept_ = std::move(kept);
}

}  // namespace weft::distributed
