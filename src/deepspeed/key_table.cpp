// The table: key | what it may be | default | effect | in weft. Defaults and limits are those of DeepSpeed 0.19.8.

#include <array>

#include "deepspeed/keys.hpp"

namespace weft::detail {
namespace {

// clang-format off
// Cut where a compiler's limit of one literal is.
constexpr std::array<std::string_view, 3> tables{
    R"(train_batch_size | int>0 | null | sets | sequences of a step on all ranks: micro batch * accumulation * ranks
train_micro_batch_size_per_gpu | int>0 | null | sets | sequences of a micro-step on one rank
gradient_accumulation_steps | int>0 | null | sets | micro-steps: all but the last with Exchange::no_sync
managed_gradient_accumulation | bool | true | only true | your trainer counts its micro-steps
gradient_clipping | number>=0 | 1.0 | sets | ShardedOptimizerOptions::clip_norm; 0: none
communication_data_type | word fp16 bf16 fp32 | null | sets | ShardedOptions::hook = cast_hook(type), where the gradients have another
seq_parallel_communication_data_type | word fp16 bf16 fp32 | fp32 | none | weft has no sequence parallelism
gradient_allreduce_op | word mean sum | mean | only mean | gradients are averaged
prescale_gradients | bool | false | always false | the mean is taken where the sum is, in f32 or wider
gradient_predivide_factor | number | 1.0 | always 1.0 | the mean is taken where the sum is, in f32 or wider
disable_allgather | bool | false | none | DeepSpeed does not read it either
fp16 | section
fp16.enabled | bool | false | sets | Options::dtype = f16, dynamic or fixed loss scale
fp16.auto_cast | bool | false | only false | your forward says what it computes in
fp16.loss_scale | number>=0 | 0.0 | sets | 0: dynamic; else fixed: a step that overflows is skipped
fp16.initial_scale_power | int | 16 | sets | LossScalerOptions::initial = 2^power
fp16.loss_scale_window | int | 1000 | sets | LossScalerOptions::growth_interval; DeepSpeed waits one step more the first time after an overflow
fp16.hysteresis | int | 2 | sets | LossScalerOptions::hysteresis
fp16.consecutive_hysteresis | bool | false | only false | hysteresis is refilled where the scale doubles
fp16.min_loss_scale | int | 1 | sets | LossScalerOptions::minimum
fp16.fp16_master_weights_and_grads | bool | false | only false | masters are f32
bf16 | section
bf16.enabled | bool | false | sets | Options::dtype = bf16
bf16.immediate_grad_update | bool | false | none | gradients are reduced as they become ready
bf16.check_grad_overflow | bool | true | sets | NonFinite::skip_step; false: NonFinite::refuse where the norm is known
bf16.bf16_master_weights_and_grads | bool | false | only false | masters are f32, whole or split
bf16.bf16_optimizer_states | bool | false | only false | moments are f32
optimizer | section null
optimizer.type | string | null | sets | Options::optimizer: AdamW, Adam or SGD
optimizer.legacy_fusion | bool | false | none | there is one way to update
optimizer.params | section null
optimizer.params.lr | number>=0 | null | sets | learning_rate; 0.001 where it is left out
optimizer.params.betas | pair | null | sets | beta1, beta2; 0.9 and 0.999 where they are left out
optimizer.params.eps | number>=0 | null | sets | epsilon; 1e-8 where it is left out
optimizer.params.weight_decay | number>=0 | null | sets | weight_decay of all parameters; 0 where it is left out (AdamW with torch_adam: 0.01)
optimizer.params.bias_correction | bool | null | only true | moments are corrected
optimizer.params.adam_w_mode | bool | null | sets | Adam without it, or with true, is AdamW: DeepSpeed's default
optimizer.params.torch_adam | bool | null | none | but for the default of weight_decay
optimizer.params.amsgrad | bool | null | only false | weft has no AMSGrad
optimizer.params.fp32_optimizer_states | bool | null | only true | moments are f32
optimizer.params.set_grad_none | bool | null | none | gradients lie in buckets
optimizer.params.foreach | bool | null | none | there is one way to update
optimizer.params.fused | bool | null | none | there is one way to update
optimizer.params.capturable | bool | null | none | there is one way to update
optimizer.params.differentiable | bool | null | only false | there is no autograd
optimizer.params.maximize | bool | null | only false | the loss is minimized
optimizer.params.momentum | number 0..1 | null | sets | Sgd::momentum, below 1
optimizer.params.dampening | number | null | only 0 | weft's SGD has none
optimizer.params.nesterov | bool | null | only false | weft's SGD has none
scheduler | section null
scheduler.type | string | null | differs | weft has no schedulers: give ShardedOptimizer::step() the rate of each step
scheduler.params | any | null | none | as scheduler.type
zero_allow_untested_optimizer | bool | false | none | every rule is tested with every stage
zero_force_ds_cpu_optimizer | bool | true | none | the host has one optimizer, which gives the device's bits
data_types | section
data_types.grad_accum_dtype | string | null | sets | must be the type that fp16 and bf16 say: gradients accumulate in it
data_types.param_dtype | string | null | sets | must be the type that fp16 and bf16 say
data_types.buffer_dtype | string | null | none | buffers are your model's
data_types.keep_in_fp32_modules | any | "auto" | none | buffers are your model's
zero_optimization | section
zero_optimization.stage | int 0..3 | 0 | sets | ShardedOptions::stage
zero_optimization.reduce_bucket_size | int>0 | 500000000 | sets | ShardedOptions::bucket_bytes = elements * bytes of one, where the file has it
zero_optimization.allgather_bucket_size | int>=0 | 500000000 | none | parameters are gathered by reduce's buckets
zero_optimization.overlap_comm | bool | null | always true | every stage overlaps
zero_optimization.reduce_scatter | bool | true | always true | sharded gradients are always reduce-scattered
zero_optimization.contiguous_gradients | bool | true | always true | gradients always lie in buckets
zero_optimization.allgather_partitions | bool | true | always true | parameters are always all-gathered
zero_optimization.use_multi_rank_bucket_allreduce | bool | true | none | sharded gradients are always reduce-scattered
zero_optimization.round_robin_gradients | bool | false | none | every rank has a part of every bucket
zero_optimization.parameter_alignment | bool | false | none | parameters are aligned
zero_optimization.compute_grad_norm | bool | true | none | the norm is computed where clipping or scaling needs it
zero_optimization.ignore_unused_parameters | bool | true | sets | where the file has it: true is Unused::find in stages 0 and 1; stages 2 and 3 refuse unused parameters
zero_optimization.load_from_fp32_weights | bool | true | none | masters are loaded from weft's checkpoints
zero_optimization.elastic_checkpoint | bool | false | none | every checkpoint fits any number of ranks
zero_optimization.legacy_stage1 | bool | false | none | there is one stage 1
zero_optimization.sub_group_size | int>=0 | 1000000000 | none | the update goes bucket by bucket, and tile by tile (Offload::tile_bytes)
zero_optimization.stage3_prefetch_bucket_size | int>=0 | 50000000 | sets | ShardedOptions::prefetch_bytes = elements * bytes of one, where the file has it
zero_optimization.stage3_param_persistence_threshold | int>=0 | 100000 | differs | ShardedOptions::whole_below, where the file has it: it counts the elements of a unit, not of a parameter
zero_optimization.stage3_model_persistence_threshold | int>=0 | 9223372036854775807 | none | whole_below alone decides
zero_optimization.stage3_max_live_parameters | int>=0 | 1000000000 | none | a unit is released at the end of its scope; prefetch_bytes bounds the rest
zero_optimization.stage3_max_reuse_distance | int>=0 | 1000000000 | none | a unit is released at the end of its scope
zero_optimization.stage3_gather_16bit_weights_on_model_save | bool | false | none | weft-plan checkpoint export writes one file
zero_optimization.stage3_module_granularity_threshold | int | 0 | none | you name the units
zero_optimization.stage3_use_all_reduce_for_fetch_params | bool | false | none | parameters are always all-gathered
zero_optimization.stage3_allgather_sequential | bool | false | none | a unit is gathered at once)",
    R"(zero_optimization.zero_hpz_partition_size | int>=0 | 1 | differs | ShardedOptions::shard_ranks, above 1: gradients and optimizer state are sharded over so many ranks, too, not parameters alone
zero_optimization.zero_quantized_weights | bool | false | only false | parameters travel in their own type
zero_optimization.zero_quantized_nontrainable_weights | bool | false | only false | frozen parameters keep their type
zero_optimization.zero_quantized_gradients | bool | false | only false | hook_named("int8") and others, which keep the error for the next step
zero_optimization.mics_shard_size | int | -1 | differs | ShardedOptions::shard_ranks; DeepSpeed 0.19.8 refuses the key
zero_optimization.mics_hierarchical_params_gather | bool | false | none | weft chooses how it gathers
zero_optimization.zeropp_loco_param | any | null | removed | hook_named("int8") keeps the error for the next step
zero_optimization.memory_efficient_linear | bool | true | none | layers are your model's
zero_optimization.override_module_apply | bool | true | none | layers are your model's
zero_optimization.pipeline_loading_checkpoint | bool | false | none | a rank reads what it needs
zero_optimization.log_trace_cache_warnings | bool | false | none | another order than prefetched costs time alone
zero_optimization.enable_sanity_checks | bool | false | none | checks are always on
zero_optimization.save_muon_momentum_buffer_in_memory | bool | false | none | Offload::file_share says what lies in files
zero_optimization.leaf_module | section
zero_optimization.leaf_module.classes | list | ["transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock", "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock", "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock"] | none | you name the units
zero_optimization.leaf_module.names | list | [] | none | you name the units
zero_optimization.leaf_module.name_suffixes | list | [] | none | you name the units
zero_optimization.zenflow | any | null | only null | every gradient updates its parameter in its own step
zero_optimization.offload_param | section null
zero_optimization.offload_param.device | word none cpu nvme | none | sets | cpu: ShardedOptions::offload_parameters, in stage 3; nvme is refused: weft has no parameters in files
zero_optimization.offload_param.nvme_path | string | null | none | weft has no parameters in files
zero_optimization.offload_param.buffer_count | int>=0 | 5 | none | weft has no parameters in files
zero_optimization.offload_param.buffer_size | int>=0 | 100000000 | none | weft has no parameters in files
zero_optimization.offload_param.max_in_cpu | int>=0 | 1000000000 | none | weft has no parameters in files
zero_optimization.offload_param.pin_memory | bool | true | always true | memory for offload is always pinned
zero_optimization.offload_optimizer | section null
zero_optimization.offload_optimizer.device | word none cpu nvme | none | sets | cpu: Offload::share = ratio, and offload_gradients in stages 2 and 3; nvme: Offload::directory = nvme_path as well
zero_optimization.offload_optimizer.nvme_path | string | null | sets | Offload::directory
zero_optimization.offload_optimizer.buffer_count | int>=0 | 4 | none | four tiles are in memory
zero_optimization.offload_optimizer.pin_memory | bool | true | always true | memory for offload is always pinned
zero_optimization.offload_optimizer.pipeline_read | bool | false | none | the next tile is always read behind the update
zero_optimization.offload_optimizer.pipeline_write | bool | false | none | the tile before is always written behind the update
zero_optimization.offload_optimizer.fast_init | bool | false | none | there is one way to begin
zero_optimization.offload_optimizer.ratio | number 0..1 | 1.0 | sets | Offload::share
zero_optimization.offload_optimizer.super_offload | bool | false | none | the host updates behind backward where nothing needs the norm
zero_optimization.offload_optimizer.cpuadam_cores_perc | number 0..1 | 0.8 | none | one thread updates
activation_checkpointing | section
activation_checkpointing.partition_activations | bool | false | none | activations are your model's
activation_checkpointing.contiguous_memory_optimization | bool | false | none | activations are your model's
activation_checkpointing.cpu_checkpointing | bool | false | none | activations are your model's
activation_checkpointing.number_checkpoints | int | null | none | activations are your model's
activation_checkpointing.synchronize_checkpoint_boundary | bool | false | none | activations are your model's
activation_checkpointing.profile | bool | false | none | activations are your model's
checkpoint | section
checkpoint.tag_validation | word WARN IGNORE FAIL | WARN | none | ranks always compare what they save
checkpoint.load_universal | bool | false | none | every checkpoint fits any number of ranks
checkpoint.use_node_local_storage | bool | false | none | checkpoint::Saver has a folder that all ranks see
checkpoint.checkpoint_serialization | bool | true | none | files are in safetensors format
checkpoint.writer | section null
checkpoint.writer.type | string | FAST | none | there is one way to write
checkpoint.writer.io_buffer_size | int | 67108864 | none | there is one way to write
checkpoint.writer.io_buffer_double | bool | true | none | there is one way to write
checkpoint.writer.io_multiplier | int | 1 | none | there is one way to write
checkpoint.writer.show_statistics | bool | false | none | there is one way to write
checkpoint.writer.data_parallel | string | null | none | there is one way to write
checkpoint.writer.decoupled | bool | false | none | there is one way to write
checkpoint.parallel_write | section
checkpoint.parallel_write.pipeline_stage | bool | false | none | every rank writes its own part
datastates_ckpt | any | null | none | there is one way to write
pipeline | section
pipeline.stages | any | "auto" | none | pipeline::Schedule
pipeline.partition | string | best | none | pipeline::Schedule
pipeline.seed_layers | bool | false | none | pipeline::Schedule
pipeline.activation_checkpoint_interval | int | 0 | none | pipeline::Schedule
pipeline.pipe_partitioned | bool | true | none | pipeline::Schedule
pipeline.grad_partitioned | bool | true | none | pipeline::Schedule
sequence_parallel_size | int>0 | 1 | only 1 | weft has no sequence parallelism
data_parallel_size | int>0 | null | none | the communicator's size
use_data_before_expert_parallelism | bool | false | none | weft has no expert parallelism
torch_autocast | section
torch_autocast.enabled | bool | false | only false | your forward says what it computes in
torch_autocast.dtype | string | null | none | your forward says what it computes in
torch_autocast.lower_precision_safe_modules | list | null | none | your forward says what it computes in
tensor_parallel | any | null | only null | weft has no tensor parallelism
expert_parallel | any | null | only null | weft has no expert parallelism
weight_quantization | any | null | only null | parameters keep their type
data_efficiency | any | null | only null | weft reads no data
hybrid_engine | section
hybrid_engine.enabled | bool | false | only false | weft has no inference
hybrid_engine.max_out_tokens | int>0 | 512 | none | weft has no inference
hybrid_engine.inference_tp_size | int | 1 | none | weft has no inference
hybrid_engine.release_inference_cache | bool | false | none | weft has no inference
hybrid_engine.pin_parameters | bool | true | none | weft has no inference
hybrid_engine.tp_gather_partition_size | int | 8 | none | weft has no inference
hybrid_engine.enable_cuda_graph | bool | false | none | weft has no inference)",
    R"(aio | section
aio.block_size | int | 1048576 | none | Offload::tile_bytes
aio.queue_depth | int | 8 | none | four tiles are in work
aio.intra_op_parallelism | int | 1 | none | io_uring has one queue
aio.single_submit | bool | false | none | io_uring has one queue
aio.overlap_events | bool | true | none | reads and writes always overlap
aio.use_gds | bool | false | none | files are read to host memory
steps_per_print | int | null | none | your trainer prints
wall_clock_breakdown | bool | false | none | GradientReducer::account(), weft-scaling --report
memory_breakdown | bool | false | none | weft-plan memory
dump_state | bool | false | none | weft-scaling --explain
disable_python_gc | bool | false | none | there is no Python
log_level | string | null | none | WEFT_LOG
vocabulary_size | int | null | none | DeepSpeed warns where it is not a multiple of 8
dataloader_drop_last | bool | false | none | weft reads no data
comms_logger | section
comms_logger.enabled | bool | false | none | Communicator::meter(), the flight record
comms_logger.prof_all | bool | true | none | Communicator::meter()
comms_logger.prof_ops | list | [] | none | Communicator::meter()
comms_logger.verbose | bool | false | none | Communicator::meter()
comms_logger.debug | bool | false | none | Communicator::meter()
flops_profiler | section
flops_profiler.enabled | bool | false | none | weft-scaling --trace
flops_profiler.recompute_fwd_factor | number | 0.0 | none | weft-scaling --trace
flops_profiler.profile_step | int | 1 | none | weft-scaling --trace
flops_profiler.module_depth | int | -1 | none | weft-scaling --trace
flops_profiler.top_modules | int | 1 | none | weft-scaling --trace
flops_profiler.detailed | bool | true | none | weft-scaling --trace
flops_profiler.output_file | string | null | none | weft-scaling --trace
timers | section
timers.throughput | section
timers.throughput.enabled | bool | true | none | your trainer measures
timers.throughput.synchronized | bool | true | none | your trainer measures
tensorboard | section
tensorboard.enabled | bool | false | none | weft::Metrics
tensorboard.output_path | string | "" | none | weft::Metrics
tensorboard.job_name | string | DeepSpeedJobName | none | weft::Metrics
wandb | section
wandb.enabled | bool | false | none | weft::Metrics
wandb.group | string | null | none | weft::Metrics
wandb.team | string | null | none | weft::Metrics
wandb.project | string | deepspeed | none | weft::Metrics
csv_monitor | section
csv_monitor.enabled | bool | false | none | weft::Metrics
csv_monitor.output_path | string | "" | none | weft::Metrics
csv_monitor.job_name | string | DeepSpeedJobName | none | weft::Metrics
comet | section
comet.enabled | bool | false | none | weft::Metrics
comet.samples_log_interval | int | 100 | none | weft::Metrics
comet.project | string | null | none | weft::Metrics
comet.workspace | string | null | none | weft::Metrics
comet.api_key | string | null | none | weft::Metrics
comet.experiment_name | string | null | none | weft::Metrics
comet.experiment_key | string | null | none | weft::Metrics
comet.online | bool | null | none | weft::Metrics
comet.mode | string | null | none | weft::Metrics
compile | section
compile.deepcompile | bool | false | none | there is no graph to compile
compile.autoep_non_moe | bool | false | none | there is no graph to compile
compile.free_activation | bool | false | none | there is no graph to compile
compile.free_activation_threshold | int | 10485760 | none | there is no graph to compile
compile.offload_activation | bool | false | none | there is no graph to compile
compile.offload_activation_pin_memory | bool | true | none | there is no graph to compile
compile.offload_opt_states | bool | false | none | there is no graph to compile
compile.double_buffer | bool | true | none | there is no graph to compile
compile.symmetric_memory | bool | false | none | there is no graph to compile
compile.debug_log | bool | false | none | there is no graph to compile
compile.offload_parameters | bool | false | none | there is no graph to compile
compile.sync_before_reduce | bool | false | none | there is no graph to compile
compile.sync_after_reduce | bool | false | none | there is no graph to compile
compile.sync_before_allgather | bool | false | none | there is no graph to compile
compile.sync_after_allgather | bool | false | none | there is no graph to compile
compile.keep_int_input_tensors | bool | true | none | there is no graph to compile
compile.keep_all_input_tensors | bool | false | none | there is no graph to compile
compile.passes | list | null | none | there is no graph to compile
autotuning | section
autotuning.enabled | bool | false | only false | weft-scaling measures strategies
autotuning.fast | bool | true | none | weft-scaling measures strategies
autotuning.results_dir | string | autotuning_results | none | weft-scaling measures strategies
autotuning.exps_dir | string | autotuning_exps | none | weft-scaling measures strategies
autotuning.overwrite | bool | true | none | weft-scaling measures strategies
autotuning.start_profile_step | int | 3 | none | weft-scaling measures strategies
autotuning.end_profile_step | int | 5 | none | weft-scaling measures strategies
autotuning.metric | string | throughput | none | weft-scaling measures strategies
autotuning.metric_path | string | null | none | weft-scaling measures strategies
autotuning.tuner_type | string | gridsearch | none | weft-scaling measures strategies
autotuning.tuner_early_stopping | int | 5 | none | weft-scaling measures strategies
autotuning.tuner_num_trials | int | 50 | none | weft-scaling measures strategies
autotuning.arg_mappings | any | null | none | weft-scaling measures strategies
autotuning.model_info | section null
autotuning.model_info.profile | bool | false | none | weft-scaling measures strategies
autotuning.model_info.num_params | int | null | none | weft-scaling measures strategies
autotuning.model_info.hidden_size | int | null | none | weft-scaling measures strategies
autotuning.model_info.num_layers | int | null | none | weft-scaling measures strategies
autotuning.model_info_path | string | null | none | weft-scaling measures strategies
autotuning.mp_size | int | 1 | none | weft-scaling measures strategies
autotuning.max_train_batch_size | int | null | none | weft-scaling measures strategies
autotuning.min_train_batch_size | int | 1 | none | weft-scaling measures strategies
autotuning.max_train_micro_batch_size_per_gpu | int | 1024 | none | weft-scaling measures strategies
autotuning.min_train_micro_batch_size_per_gpu | int | 1 | none | weft-scaling measures strategies
autotuning.num_tuning_micro_batch_sizes | int | 3 | none | weft-scaling measures strategies
nebula | any | null | removed | checkpoint::Saver
compression_training | any | null | removed | weft compresses gradients: hook_named()
amp | any | null | removed | write fp16 or bf16
quantize_training | any | null | removed | weft has no quantized training
sparse_gradients | any | null | removed | gradients are dense
eigenvalue | any | null | removed | weft has no quantized training
sparse_attention | any | null | removed | attention is your model's
elasticity | any | null | removed | weft's checkpoints fit any number of ranks
graph_harvesting | any | null | removed | there is no graph to record
curriculum_learning | any | null | removed | weft reads no data
progressive_layer_drop | any | null | removed | layers are your model's)"};
// clang-format on

constexpr std::array others{
    OtherName{"bfloat16", "bf16", ""},
    OtherName{"zero_optimization.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size", ""},
    OtherName{"zero_optimization.param_persistence_threshold",
              "zero_optimization.stage3_param_persistence_threshold", ""},
    OtherName{"zero_optimization.model_persistence_threshold",
              "zero_optimization.stage3_model_persistence_threshold", ""},
    OtherName{"zero_optimization.max_live_parameters", "zero_optimization.stage3_max_live_parameters", ""},
    OtherName{"zero_optimization.max_reuse_distance", "zero_optimization.stage3_max_reuse_distance", ""},
    OtherName{"zero_optimization.gather_16bit_weights_on_model_save",
              "zero_optimization.stage3_gather_16bit_weights_on_model_save", ""},
    OtherName{"zero_optimization.module_granularity_threshold",
              "zero_optimization.stage3_module_granularity_threshold", ""},
    OtherName{"zero_optimization.use_all_reduce_for_fetch_params",
              "zero_optimization.stage3_use_all_reduce_for_fetch_params", ""},
    OtherName{"zero_optimization.allgather_sequential", "zero_optimization.stage3_allgather_sequential", ""},
    OtherName{"zero_optimization.stage3_gather_fp16_weights_on_model_save",
              "zero_optimization.stage3_gather_16bit_weights_on_model_save",
              "write stage3_gather_16bit_weights_on_model_save"},
    OtherName{"zero_optimization.cpu_offload", "zero_optimization.offload_optimizer.device",
              R"(write offload_optimizer: {"device": "cpu"})"},
    OtherName{"zero_optimization.cpu_offload_param", "zero_optimization.offload_param.device",
              R"(write offload_param: {"device": "cpu"})"},
    OtherName{"zero_optimization.cpu_offload_use_pin_memory",
              "zero_optimization.offload_optimizer.pin_memory",
              "it does nothing: memory for offload is always pinned"},
    OtherName{"allgather_size", "zero_optimization.allgather_bucket_size",
              "write zero_optimization.allgather_bucket_size"},
};

}  // namespace

std::span<const std::string_view> key_tables() {
  return tables;
}

std::span<const OtherName> other_names() {
  return others;
}

}  // namespace weft::detail
