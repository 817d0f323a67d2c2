"""compress(): gradients of a DistributedDataParallel travel in one of weft's codecs."""

import difflib as _difflib

import torch as _torch
from torch.nn.parallel import DistributedDataParallel as _DistributedDataParallel

from . import _C


def _options_of_a_codec(parameter, has_seed, is_cast):
    """What compress() takes for it, with what holds where it is not given; None: must be given."""
    return {**({"residual": "nothing", "start_step": 0} if is_cast else {"residual": "sixteen_bits", "start_step": 100}),
            **({parameter: "nearest" if parameter == "rounding" else None} if parameter else {}), **({"seed": 0} if has_seed else {})}


_OF_CORE = _C.codecs()
_CODECS = {name: _options_of_a_codec(*row) for name, row in _OF_CORE.items()}
_CODECS["powersgd"] = {"rank": 1, "start_step": 100, "min_rate": 2.0, "warm_start": True, "residual": "sixteen_bits", "form": "two_sided", "seed": 0,
                       "whole": ()}
_WORDS = {"residual": ("nothing", "sixteen_bits", "f32"), "rounding": ("nearest", "stochastic"), "form": ("two_sided", "alternating")}
_WHOLE_NUMBERS = ("rank", "seed", "start_step")
_NUMBERS = ("fraction", "min_rate")
# What may stand behind a colon, as in weft's command lines.
_IN_NAME = {name: (parameter,) for name, (parameter, _, _) in _OF_CORE.items() if parameter} | {"powersgd": ("rank", "form")}


def _refuse(problem, advice):
    raise ValueError(f"weft: compress: {problem}; {advice}")


def _allowed(name, names):
    near = _difflib.get_close_matches(name, names, 1)
    return (f"did you mean {near[0]}? " if near else "") + "allowed are " + ", ".join(names)


def _from_name(codec):
    """"top-k:0.01" -> "top-k", {"fraction": 0.01}"""
    kind, *parts = codec.split(":")
    if kind not in _CODECS:
        _refuse(f"no codec is named '{codec}'", _allowed(kind, list(_CODECS)))
    options = _IN_NAME.get(kind, ())
    if len(parts) > len(options):
        _refuse(f"'{codec}' has {len(parts)} parameters", f"{kind} takes {len(options)} of them: give options as keywords")
    given = {}
    for option, part in zip(options, parts):
        try:
            given[option] = int(part) if option in _WHOLE_NUMBERS else float(part) if option in _NUMBERS else part
        except ValueError:
            _refuse(f"'{codec}': '{part}' is no {option}", f"give a number, as {kind}:{'4' if option == 'rank' else '0.01'}")
    return kind, given


def _checked(option, value):
    if option in _WORDS:
        if value not in _WORDS[option]:
            _refuse(f"{option}={value!r}", _allowed(str(value), _WORDS[option]))
    elif option == "warm_start":
        if not isinstance(value, bool):
            _refuse(f"warm_start={value!r}", "give True or False")
    elif option == "whole":
        if isinstance(value, str) or not all(isinstance(name, str) for name in value):
            _refuse(f"whole={value!r}", "give a list of parameters' names")
        value = list(value)
    elif option in _WHOLE_NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < (1 << 31 if option == "rank" else 1 << 63):
            _refuse(f"{option}={value!r}", "give a whole number, which is not negative")
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        _refuse(f"{option}={value!r}", "give a number")
    return value


def _options(codec, given):
    if not isinstance(codec, str):
        raise TypeError(f"weft: compress: a codec is named by a string, not by {type(codec).__name__}")
    kind, named = _from_name(codec)
    takes = _CODECS[kind]
    for option in given:
        if option not in takes:
            _refuse(f"{kind} has no option '{option}'", _allowed(option, list(takes)))
        if option in named:
            _refuse(f"'{codec}' and {option}={given[option]!r}", "say it once")
    options = {option: _checked(option, value) for option, value in {**takes, **named, **given}.items() if value is not None}
    for option in takes:
        if option not in options:
            _refuse(f"{kind} without a {option}", f"give one, as {option}=0.01")
    return kind, options


def weft_backend(group, call):
    """The backend object of a group of weft for tensors of the host."""
    try:
        backend = group._get_backend(_torch.device("cpu"))
    except RuntimeError:
        backend = None
    if not isinstance(backend, _C.Backend):
        found = "none" if backend is None else backend.name()
        raise TypeError(f"weft: {call}: the process group's backend for the host is {found}, not weft; use init_process_group(\"weft\"), or hand over a "
                        "group of new_group(backend=\"weft\")")
    return backend


class Compression:
    """What compress() gives. PowerSGD's state can be saved, on each rank, for residuals differ: between steps, with torch.save() for instance."""

    def __init__(self, codec, options, core):
        self.codec = codec
        self.options = options
        self._core = core

    def __repr__(self):
        return f"Compression({self.codec!r}, {', '.join(f'{name}={value!r}' for name, value in self.options.items())})"

    def state_dict(self) -> dict:
        """Bases and residuals by parameter. ValueError for another codec than PowerSGD: residuals of codecs begin at zero after a restart."""
        return {"codec": self.codec, "tensors": self._core.state()}

    def load_state_dict(self, state: dict) -> None:
        """All ranks load what they saved together, between steps. ValueError for the state of another model."""
        if not isinstance(state, dict) or state.get("codec") != self.codec or not isinstance(state.get("tensors"), dict):
            raise ValueError(f"weft: load_state_dict: this is no state of {self.codec}; give what state_dict() gave")
        try:
            self._core.load_state(state["tensors"])
        except (KeyError, RuntimeError) as error:
            raise ValueError(f"weft: load_state_dict: a parameter's state is not whole ({error}); give what state_dict() gave") from error


def _weft_compressed(state, bucket):
    return state._core.reduce(bucket)


def compress(model, codec: str, **options) -> Compression:
    """Lets the gradients of `model`, a DistributedDataParallel over weft, travel in a codec: one line before the first step, on every rank.

        weft.torch.compress(model, "powersgd", rank=4)

    codec: powersgd, or one of docs/compression.md's codecs. docs/pytorch.md has the options of each. ValueError says what is allowed; a
    model or a process group of others is a TypeError.
    """
    if not isinstance(model, _DistributedDataParallel):
        raise TypeError(f"weft: compress: a {type(model).__name__}; wrap the model in torch.nn.parallel.DistributedDataParallel first")
    kind, options = _options(codec, options)
    backend = weft_backend(model.process_group, "compress")
    parameters = [(name, parameter) for name, parameter in model.module.named_parameters()
                  if parameter.requires_grad and name not in model.parameters_to_ignore]
    for name, parameter in parameters:
        if parameter.device.type != "cpu" or not parameter.dtype.is_floating_point:
            _refuse(f"{name} is of {parameter.dtype} on {parameter.device}", "gradients of the host in floating point can be compressed")
    compression = Compression(kind, options, _C.compression(backend, kind, options, parameters))
    model.register_comm_hook(compression, _weft_compressed)
    return compression
