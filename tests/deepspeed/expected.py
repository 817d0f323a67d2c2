#!/usr/bin/env python3
"""What DeepSpeed's own parser makes of each file in cases/, as expected.json. Run by hand, after a change of cases/ or for a
newer DeepSpeed; the tests read the results and need no DeepSpeed.

    python3 -m venv /tmp/ds && /tmp/ds/bin/pip install wheel setuptools torch && \\
      DS_BUILD_OPS=0 DS_ACCELERATOR=cpu /tmp/ds/bin/pip install --no-build-isolation deepspeed==0.19.8
    /tmp/ds/bin/python tests/deepspeed/expected.py

The first line of a case says for how many ranks: "# ranks: 8". Only the process's idea of its world is replaced: no rank is started."""

import json
import logging
import os
import pathlib
import re
import sys

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed  # noqa: E402
from deepspeed import comm  # noqa: E402
from deepspeed.runtime.config import DeepSpeedConfig  # noqa: E402

CASES = pathlib.Path(__file__).parent / "cases"
TOP = ("train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps managed_gradient_accumulation steps_per_print dump_state "
       "disable_python_gc disable_allgather prescale_gradients gradient_predivide_factor gradient_allreduce_op gradient_clipping "
       "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer wall_clock_breakdown memory_breakdown dataloader_drop_last log_level").split()
DEPRECATED = ("cpu_offload", "cpu_offload_param", "cpu_offload_use_pin_memory", "stage3_gather_fp16_weights_on_model_save")
DTYPES = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}


def flat(prefix, value, into):
    """Sections become paths; a section that is left out stays null."""
    if isinstance(value, dict):
        for name, inner in value.items():
            flat(f"{prefix}.{name}", inner, into)
    else:
        into[prefix] = value


def values_of(config):
    values = {name: getattr(config, name) for name in TOP}
    for name in ("communication_data_type", "seq_parallel_communication_data_type"):
        value = getattr(config, name)
        values[name] = None if value is None else DTYPES[str(value)]
    values["use_data_before_expert_parallelism"] = config.use_data_before_expert_parallel_
    zero = config.zero_config.model_dump(by_alias=True)
    flat("zero_optimization", {name: value for name, value in zero.items() if name not in DEPRECATED}, values)
    flat("fp16", config.float16_config.model_dump(), values)
    flat("bf16", config.bfloat16_config.model_dump(), values)
    if config.optimizer_name is not None:
        values["optimizer.type"] = config.optimizer_name
        values["optimizer.legacy_fusion"] = config.optimizer_legacy_fusion
        flat("optimizer.params", config.optimizer_params, values)
    if config.scheduler_name is not None:
        values["scheduler.type"] = config.scheduler_name
        values["scheduler.params"] = config.scheduler_params
    values["data_types.grad_accum_dtype"] = config.grad_accum_dtype
    values["data_types.param_dtype"] = config.param_dtype
    values["data_types.buffer_dtype"] = config.buffer_dtype
    values["data_types.keep_in_fp32_modules"] = config.keep_in_fp32_modules
    values["torch_autocast.enabled"] = config.torch_autocast_enabled
    flat("activation_checkpointing", vars(config.activation_checkpointing_config), values)
    flat("flops_profiler", vars(config.flops_profiler_config), values)
    flat("hybrid_engine", config.hybrid_engine.model_dump(), values)
    flat("compile", config.compile_config.model_dump(), values)
    flat("timers.throughput", config.timers_config.model_dump(), values)
    for name in ("tensorboard", "wandb", "csv_monitor", "comet"):
        flat(name, getattr(config.monitor_config, name).model_dump(), values)
    if config.comms_config.comms_logger_enabled:  # the section is there
        flat("comms_logger", vars(config.comms_config.comms_logger), values)
    flat("pipeline", config.pipeline, values)
    flat("aio", config.aio_config, values)
    tuning = vars(config.autotuning_config)
    flat("autotuning", {name: tuning[name] for name in tuning if name not in ("start_step", "end_step")}, values)
    values["checkpoint.tag_validation"] = config.checkpoint_config["tag_validation"]
    values["checkpoint.checkpoint_serialization"] = config.checkpoint_config["checkpoint_serialization"]
    flat("checkpoint.writer", config.checkpoint_config["writer"], values)
    values["checkpoint.load_universal"] = config.load_universal_checkpoint
    values["checkpoint.use_node_local_storage"] = config.use_node_local_storage
    values["checkpoint.parallel_write.pipeline_stage"] = config.checkpoint_parallel_write_pipeline
    return values


def resolved(case):
    ranks = int(re.match(r"# ranks: (\d+)", case.read_text()).group(1))
    comm.get_world_size = lambda *_, **__: ranks
    try:
        return {"ranks": ranks, "values": values_of(DeepSpeedConfig(str(case)))}
    except Exception as error:  # whatever it is: DeepSpeed refuses the file
        return {"ranks": ranks, "refused": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def without_defaults(told, defaults):
    """Only what differs from the first case, and the keys that it has not got."""
    if "values" not in told:
        return told
    values = told["values"]
    told["values"] = {name: value for name, value in values.items() if name not in defaults or value != defaults[name]}
    told["without"] = [name for name in defaults if name not in values]
    return told


def main():
    logging.disable(logging.CRITICAL)
    comm.get_rank = lambda *_, **__: 0
    cases = {case.stem: resolved(case) for case in sorted(CASES.glob("*.json"))}
    defaults = dict(next(iter(cases.values()))["values"])
    told = {"deepspeed": deepspeed.__version__, "defaults": defaults,
            "cases": {name: without_defaults(one, defaults) for name, one in cases.items()}}
    (CASES.parent / "expected.json").write_text(json.dumps(told, indent=1, ensure_ascii=False, default=str) + "\n")
    refused = sum("refused" in one for one in cases.values())
    print(f"DeepSpeed {deepspeed.__version__}: {len(cases) - refused} resolved, {refused} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
