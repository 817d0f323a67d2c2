// From a Config to weft's options, and what weft does not have.

#include <array>
#include <cmath>
#include <limits>

#include "core/base/strings.hpp"
#include "deepspeed/resolving.hpp"
#include "weft/core/error.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft::deepspeed {
namespace {

using namespace weft::detail;

constexpr std::string_view zero_section = "zero_optimization.";

class Translator {
 public:
  explicit Translator(const Config& config) : config_(config), settings_(config) {}

  Options translated() {
    refuse_others();
    options_.train_batch_size = settings_.integer("train_batch_size");
    options_.train_micro_batch_size_per_gpu = settings_.integer("train_micro_batch_size_per_gpu");
    options_.gradient_accumulation_steps = settings_.integer("gradient_accumulation_steps");
    precision();
    sharding();
    ranks_of_a_shard();
    offload();
    if (settings_.number("gradient_clipping") > 0)
      options_.stepping.clip_norm = settings_.number("gradient_clipping");
    if (config_.find("optimizer.type") != nullptr) options_.optimizer = optimizer_rule(config_);
    return std::move(options_);
  }

 private:
  static std::string of_zero(std::string_view name) { return text(zero_section, name); }

  void refuse_others() const {
    for (const Setting& setting : config_.settings) {
      const Key& key = *find_key(setting.key);
      if (key.effect == KeyEffect::only && setting.origin == Origin::file && setting.value != "null" &&
          !same_json(setting.value, key.same))
        settings_.refuse(setting.key, text("is ", setting.value),
                         text("weft has ", key.same, " alone: ", key.in_weft));
    }
  }

  void precision() {
    if (settings_.boolean("fp16.enabled")) options_.dtype = DataType::f16;
    if (settings_.boolean("bf16.enabled")) options_.dtype = DataType::bf16;
    for (const char* const key : {"data_types.grad_accum_dtype", "data_types.param_dtype"}) {
      if (settings_.is_null(key)) continue;
      const DataType wanted = type_named(key);
      if (wanted != options_.dtype)
        settings_.refuse(key, text("is ", name(wanted), ", and fp16 and bf16 say ", name(options_.dtype)),
                         "parameters and gradients have one type in weft, with f32 masters beside 16 bits");
    }
    if (!settings_.is_null("communication_data_type")) {
      const DataType sent = type_named("communication_data_type");
      if (sent != options_.dtype) options_.sharding.hook = cast_hook(sent);
    }
    if (options_.dtype == DataType::f16) options_.stepping.loss_scale = loss_scale();
    if (options_.dtype == DataType::bf16 && settings_.boolean("bf16.check_grad_overflow"))
      options_.stepping.non_finite = zero::NonFinite::skip_step;
  }

  /// DeepSpeed's names of types, and torch's.
  DataType type_named(const char* key) const {
    const std::string word = settings_.word(key);
    constexpr std::array<std::pair<std::string_view, DataType>, 8> names{{{"fp32", DataType::f32},
                                                                          {"float32", DataType::f32},
                                                                          {"float", DataType::f32},
                                                                          {"fp16", DataType::f16},
                                                                          {"float16", DataType::f16},
                                                                          {"half", DataType::f16},
                                                                          {"bf16", DataType::bf16},
                                                                          {"bfloat16", DataType::bf16}}};
    for (const auto& [known, type] : names) {
      if (word == known || word == text("torch.", known)) return type;
    }
    settings_.refuse(key, text("is ", json_string(word)), "it is fp32, fp16 or bf16");
  }

  zero::LossScalerOptions loss_scale() const {
    if (const double fixed = settings_.number("fp16.loss_scale"); fixed > 0)
      return {.initial = fixed,
              .minimum = fixed,
              .growth_interval = std::numeric_limits<std::int64_t>::max(),
              .hysteresis = std::numeric_limits<int>::max()};
    const std::int64_t power = settings_.integer("fp16.initial_scale_power");
    const std::int64_t overflows = settings_.integer("fp16.hysteresis");
    if (power < -126 || power > 127)
      settings_.refuse("fp16.initial_scale_power", text("is ", power), "it is from -126 to 127");
    if (overflows < 1 || overflows > 1'000'000)
      settings_.refuse("fp16.hysteresis", text("is ", overflows), "it is from 1 to 1000000");
    const double initial = std::ldexp(1.0, static_cast<int>(power));
    const auto minimum = static_cast<double>(settings_.integer("fp16.min_loss_scale"));
    if (initial < minimum)
      settings_.refuse("fp16.min_loss_scale", text("is ", minimum),
                       text("it is at most 2^initial_scale_power, which is ", initial));
    return {.initial = initial,
            .minimum = minimum,
            .growth_interval = settings_.integer("fp16.loss_scale_window"),
            .hysteresis = static_cast<int>(overflows)};
  }

  std::size_t bytes_of(std::string_view name) const {
    const auto elements = static_cast<std::size_t>(settings_.integer(of_zero(name)));
    if (elements > (std::size_t{1} << 40))
      settings_.refuse(of_zero(name), text("is ", elements), "weft's is at most 2^40 elements");
    return elements * size_of(options_.dtype);
  }

  void sharding() {
    zero::ShardedOptions& to = options_.sharding;
    to.stage = static_cast<int>(settings_.integer(of_zero("stage")));
    if (settings_.in_file(of_zero("reduce_bucket_size"))) to.bucket_bytes = bytes_of("reduce_bucket_size");
    if (settings_.in_file(of_zero("ignore_unused_parameters")) &&
        settings_.boolean(of_zero("ignore_unused_parameters")) && to.stage < 2)
      to.unused = Unused::find;
    if (to.stage < 3) return;
    if (settings_.in_file(of_zero("stage3_prefetch_bucket_size")))
      to.prefetch_bytes = bytes_of("stage3_prefetch_bucket_size");
    if (settings_.in_file(of_zero("stage3_param_persistence_threshold")))
      to.whole_below = settings_.integer(of_zero("stage3_param_persistence_threshold"));
  }

  /// hpZ and MiCS, of stage 3.
  void ranks_of_a_shard() {
    const std::int64_t mics = settings_.integer(of_zero("mics_shard_size"));
    const std::int64_t hpz = settings_.integer(of_zero("zero_hpz_partition_size"));
    if (mics > 0 && hpz > 1)
      settings_.refuse(of_zero("mics_shard_size"), "and zero_hpz_partition_size are both given", "give one");
    const std::int64_t ranks = mics > 0 ? mics : hpz > 1 ? hpz : 0;
    if (ranks == 0) return;
    const std::string key = of_zero(mics > 0 ? "mics_shard_size" : "zero_hpz_partition_size");
    if (options_.sharding.stage != 3)
      settings_.refuse(key, text("is ", ranks, " in stage ", options_.sharding.stage),
                       "it belongs to stage 3");
    if (config_.ranks % ranks != 0)
      settings_.refuse(key, text("is ", ranks, ", which does not divide the ", config_.ranks, " ranks"));
    options_.sharding.shard_ranks = static_cast<int>(ranks);
  }

  void offload() {
    const std::string param = settings_.word(of_zero("offload_param.device"));
    const int stage = options_.sharding.stage;
    if (param == "nvme")
      settings_.refuse(of_zero("offload_param.device"), "is nvme",
                       "weft has no parameters in files; say cpu");
    if (param == "cpu" && stage != 3)
      settings_.refuse(of_zero("offload_param.device"), text("is cpu in stage ", stage),
                       "it belongs to stage 3");
    options_.sharding.offload_parameters = param == "cpu";
    const std::string state = settings_.word(of_zero("offload_optimizer.device"));
    if (state == "none") return;
    if (stage == 0)
      settings_.refuse(of_zero("offload_optimizer.device"), text("is ", state, " in stage 0"),
                       "it belongs to stages 1 to 3");
    zero::Offload& to = options_.stepping.offload;
    to.share = settings_.number(of_zero("offload_optimizer.ratio"));
    // With all of its state the host updates all of its shard, whose gradients are then of use there alone.
    options_.sharding.offload_gradients = stage >= 2 && to.share == 1.0;
    if (state != "nvme") return;
    if (settings_.is_null(of_zero("offload_optimizer.nvme_path")))
      settings_.refuse(of_zero("offload_optimizer.device"), "is nvme without nvme_path",
                       "name a folder on a local disk");
    to.directory = settings_.word(of_zero("offload_optimizer.nvme_path"));
  }

  const Config& config_;
  Settings settings_;
  Options options_;
};

}  // namespace

Options options(const Config& config) {
  return Translator(config).translated();
}

}  // namespace weft::deepspeed
