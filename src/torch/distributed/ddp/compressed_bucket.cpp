#include "torch/distributed/ddp/compressed_bucket.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "core/base/round_up.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "gradient/plan/shape_text.hpp"
#include "torch/distributed/tensor_memory.hpp"
#include "torch/distributed/tensors.hpp"
#include "weft/core/buffer.hpp"

namespace weft::distributed {
namespace {

constexpr const char* operation = "compressed all_reduce";
constexpr std::int64_t line = Buffer::alignment / sizeof(float);

/// Without this check, ranks with other codecs would take each other's bytes for gradients.
void agree_on(Communicator& comm, const std::vector<ParamSpec>& parameters, const at::Tensor& buffer,
              const std::string& how) {
  std::vector<std::string> lines;
  for (const ParamSpec& one : parameters)
    lines.push_back(
        text(one.name, ", ", detail::shape_text(one.shape), " of ", c10::toString(buffer.scalar_type())));
  detail::agree_on(comm, lines,
                   {"ranks have different buckets", "build the same model on every rank", operation});
  detail::agree_on(comm, how,
                   {"ranks compress a bucket in different ways",
                    "give compress() the same codec, options and state on every rank", operation});
}

}  // namespace

CompressedBucket::CompressedBucket(const CompressionOptions& options, BucketIdentity identity,
                                   const std::vector<ParamSpec>& parameters, const at::Tensor& buffer,
                                   Communicator& comm, std::uint64_t steps_before,
                                   const std::optional<PowerSgdState>& given, Stream wire)
    : identity_(std::move(identity)), wire_(std::move(wire)) {
  const bool has_matrix =
      options.is_power_sgd() && std::ranges::any_of(parameters, [&](const ParamSpec& one) {
        return options.shrinks(one.name, one.shape);
      });
  if (has_matrix) {
    hook_ = power_sgd_ = options.make_power_sgd(parameters);
  } else if (options.is_power_sgd()) {
    hook_ = all_reduce_hook();  // vectors and small matrices alone, which PowerSGD sends as they are
  } else {
    hook_ = options.make_codec_hook(steps_before);
  }
  agree_on(comm, parameters, buffer,
           text("has ", hook_->name(), given ? text(" and a state of step ", given->steps) : ""));
  make_plan(parameters, has_matrix);
  choose_memory(buffer, comm);
  hook_->planned(*plan_, space(parameters), comm);
  if (given && power_sgd_) power_sgd_->load_state(*given);
}

void CompressedBucket::make_plan(const std::vector<ParamSpec>& parameters, bool by_parameter) {
  std::vector<ParamSpec> specs = parameters;
  if (!by_parameter) {
    const auto add = [](std::int64_t sum, const ParamSpec& one) { return sum + one.count; };
    specs = {{"bucket", std::accumulate(specs.begin(), specs.end(), std::int64_t{0}, add)}};
  }
  ParamLayout layout(DataType::f32, std::move(specs));
  Bucket bucket{0, layout.size(), {}};
  for (int i = 0; i < layout.parameters(); ++i) bucket.params.push_back(ParamId{i});
  plan_.emplace(std::move(layout), std::vector{std::move(bucket)});
}

// Holding DDP's tensor keeps its memory, which costs nothing as long as DDP keeps it, too.
void CompressedBucket::choose_memory(const at::Tensor& buffer, Communicator& comm) {
  if (buffer.scalar_type() == at::kFloat && buffer.numel() % line == 0) {
    memory_ = buffer;
    return;
  }
  const std::int64_t count = detail::round_up(buffer.numel(), line);
  auto own = std::make_shared<Buffer>(comm.allocate(DataType::f32, count));
  memory_ = at::from_blob(
      own->view().data(), {count}, [own](void*) {}, at::TensorOptions().dtype(at::kFloat));
}

GradientSpace CompressedBucket::space(const std::vector<ParamSpec>& parameters) const {
  const View memory = view_of(memory_);
  if (!power_sgd_) return memory;
  std::vector<GradientSpace::Place> places;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t begin = plan_->layout().offsets()[i];
    places.push_back({begin, begin + parameters[i].count, at});
    at += parameters[i].count;
  }
  return {memory, std::move(places)};
}

void CompressedBucket::reduce(const at::Tensor& buffer, const Issue& issue) {
  const bool moves = buffer.const_data_ptr() != memory_.const_data_ptr();
  const at::Tensor inside = moves ? memory_.narrow(0, 0, buffer.numel()) : memory_;
  if (moves) wire_.run([buffer, inside] { copy_elements(inside, buffer); });
  try {
    hook_->reduce(plan_->buckets().front(), view_of(memory_), issue.comm, wire_, wire_);
  } catch (...) {
    issue.add(Work(wire_.record(), operation, ++number_));  // what is under way keeps the memory
    throw;
  }
  if (moves) wire_.run([buffer, inside] { copy_elements(buffer, inside); });
  issue.add(Work(wire_.record(), operation, ++number_));
}

std::optional<PowerSgdState> CompressedBucket::state() {
  if (!power_sgd_) return std::nullopt;
  return power_sgd_->state();
}

}  // namespace weft::distributed
