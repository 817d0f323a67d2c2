"""Parameters, gradients and optimizer state sharded over the ranks (ZeRO), with weft's optimizer."""

import collections
import ctypes

from . import _library
from ._communicator import Communicator, _Handle, _number
from ._errors import Error, UsageError
from ._memory import NAMES, SIZES, memory
from ._reducer import _UNUSED, _hook, _layout, _OfParameters, _parameters, _word

_Pointer, _byref = ctypes.c_void_p, ctypes.byref
_RULES = {"adamw": 0, "adam": 1, "sgd": 2, "lamb": 3, "lars": 4, "muon": 5}
_OPTIONS_OF = {"adamw": {"beta1", "beta2", "epsilon"}, "adam": {"beta1", "beta2", "epsilon"}, "sgd": {"momentum"}, "lamb": {"beta1", "beta2", "epsilon"},
               "lars": {"momentum", "trust_coefficient"}, "muon": {"momentum", "beta1", "beta2", "epsilon"}}
_INITIAL_VALUES = {"compare": 0, "from rank 0": 1}
_OWN_RATE = -1.0

#: What a step did. skipped: nothing has changed, because gradients had NaN or infinite values; norm: of the means before clipping, None where it was not
#: needed.
StepResult = collections.namedtuple("StepResult", ["skipped", "norm"])


class Gathered:
    """Units of a Zero that are whole on this rank until the end of the `with` block, or until release(): gathered["weight"] is a memoryview of the
    parameter's shape, which numpy.asarray() takes. Read it; the step writes it.

    WRONG: reading a view after release(). Its memory is there, and may have another unit's values.
    """

    def __init__(self, zero, units):
        self._zero, self._units = zero, units

    def __getitem__(self, parameter):
        zero = self._zero
        handle, number = zero._mine("gather"), zero._number_of(parameter)
        unit = zero._unit_of[number]
        if unit not in self._units:
            words = "what gather() gave was released" if not self._units else f"gathered are {', '.join(map(str, self._units))}"
            raise UsageError(f"weft: parameter {zero.names[number]} is in unit {unit}, and {words}; gather its unit, and release it after the last use")
        return zero._seen_at(zero._lib.zero_parameter(handle, number), number)

    def release(self) -> None:
        """A second call does nothing."""
        units, self._units = self._units, []
        for unit in units:
            self._zero._must(self._zero._lib.zero_release(self._zero._mine("release"), unit))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.release()
        except Error:
            if kind is None:  # else what left the block says more
                raise


class Zero(_OfParameters):
    """A model whose optimizer state (stage 1), gradients (2) and parameters (3) are sharded over the ranks; in stage 0 nothing is. One loop for all stages:

        zero = weft.Zero(comm, parameters, stage=2)          # a dict of arrays by name, in the order of forward
        zero.set_optimizer("adamw", learning_rate=3e-4, weight_decay=0.1)
        for batch in data:
            zero.begin()
            with zero.gather() as whole:                     # of every unit; or of one after the other: gather(0), gather(1), ...
                ...                                          # forward reads numpy.asarray(whole["weight"])
                numpy.asarray(zero.gradient("weight"))[:] = ...
                zero.ready("weight")                         # it leaves while the rest of backward runs
            zero.step()

    WRONG: ready(i) before backward wrote gradient(i). WRONG: writing a view of gradient(i) after ready(i): it is on the wire, and from stage 2 on another
    gradient's memory.

    parameters: a dict of arrays by name, or a list of arrays, of one type: the initial values, which are copied. The arrays are not written, and need not
    stay. stage: 0 to 3. units: the first parameter of each unit, by name or number, from the first parameter on; default: one unit of all. A unit is what is
    gathered at once, such as a layer.
    hook, hook_start_step, bucket_bytes, unused, count_bad_values, micro_batches: as Reducer's; `unused` in stages 0 and 1.
    bucket_ring_bytes: stages 2 and 3: memory for gradients before they are reduced; default: an eighth of them.
    frozen: parameters without gradient, by name or number. shard_ranks: sharded over so many consecutive ranks; 0: all.
    held_units: stage 3: units that are gathered at the same time. prefetch_bytes: stage 3; default: the largest unit's. whole_below: stage 3: units of
    fewer elements stay whole.
    initial_values: "compare": the first step raises MismatchError, on every rank, where ranks have other values; "from rank 0": all get rank 0's.

    Everything is collective but what says a value: all ranks call the same, in the same order. One thread at a time uses it.
    """

    def __init__(self, comm: Communicator, parameters, stage, units=None, hook=None, hook_start_step=None, bucket_bytes=None, bucket_ring_bytes=None,
                 frozen=(), unused="refuse", count_bad_values=False, micro_batches=0, shard_ranks=0, held_units=1, prefetch_bytes=None, whole_below=0,
                 initial_values="compare"):
        self._handle = None
        lib = self._lib = comm._lib
        self._check_device(comm)
        found = _parameters(parameters, False)
        self._named(found)
        firsts = None if units is None else [self._number_of(one) for one in units]
        ices = [self._number_of(one) for one in frozen]
        hook, hook_start_step = _hook(hook, hook_start_step)
        options = _library.ZeroOptions(
            size=ctypes.sizeof(_library.ZeroOptions), stage=_number(stage, "stage"), hook=hook, hook_start_step=hook_start_step,
            bucket_bytes=_number(bucket_bytes or 0, "bucket_bytes"), bucket_ring_bytes=_number(bucket_ring_bytes or 0, "bucket_ring_bytes"),
            units=(ctypes.c_int * len(firsts))(*firsts) if firsts else None, units_count=len(firsts or ()),
            frozen=(ctypes.c_int * len(ices))(*ices) if ices else None, frozen_count=len(ices), unused=_word(_UNUSED, unused, "unused"),
            count_bad_values=bool(count_bad_values), micro_batches=_number(micro_batches, "micro_batches"), shard_ranks=_number(shard_ranks, "shard_ranks"),
            held_units=_number(held_units, "held_units"), prefetch_bytes=_number(prefetch_bytes or 0, "prefetch_bytes"),
            whole_below=_number(whole_below, "whole_below"), initial_values=_word(_INITIAL_VALUES, initial_values, "initial_values"))
        layout, made = _layout(lib, found), _Pointer()
        with comm._lock:
            lib.must(lib.zero_create(comm._open_handle("Zero"), layout.value, options, _byref(made)))
            self._set(comm, [], _Handle(made, lib.zero_free))
            for number, (_, of_one, _) in enumerate(found):
                lib.must(lib.zero_load(made, number, of_one[0], _library.HOST))
        self._shapes, self._views, self._has_optimizer = [shape for _, _, shape in found], {}, False
        self.stage = int(stage)
        self._unit_of = [self._asked(lib.zero_unit_of(made, number)) for number in range(len(found))]

    def __repr__(self):
        return f"<weft.Zero of {len(self.names)} parameters, stage {self.stage}{'' if self._handle is not None else ', closed'}>"

    def set_optimizer(self, rule="adamw", learning_rate=None, weight_decay=None, beta1=None, beta2=None, epsilon=None, momentum=None, trust_coefficient=None,
                      clip_norm=None, loss_scale=False, skip_non_finite=False, split_masters=False, decay_matrices=False) -> None:
        """The optimizer, once. What is None is the rule's default.

        rule: "adamw", "adam", "sgd", "lamb", "lars", "muon"; beta1, beta2 and epsilon are of all but SGD and LARS, momentum of SGD, LARS and Muon,
        trust_coefficient of LARS. clip_norm: the norm of all means is at most this. loss_scale: dynamic loss scaling. skip_non_finite: a step with NaN or
        infinite gradients is skipped, and no error. split_masters: of bfloat16 parameters only what they lack is kept. decay_matrices: biases and gains of
        norms do not decay.
        """
        lib, handle = self._lib, self._mine("set_optimizer")
        options = _library.OptimizerOptions(size=ctypes.sizeof(_library.OptimizerOptions))
        options.rule = _word(_RULES, rule, "rule")
        self._must(lib.optimizer_defaults(options.rule, options))
        given = {"learning_rate": learning_rate, "weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "momentum": momentum,
                 "trust_coefficient": trust_coefficient}
        for name, value in given.items():
            if value is None:
                continue
            if name not in {"learning_rate", "weight_decay"} | _OPTIONS_OF[rule]:
                raise UsageError(f"weft: set_optimizer: {rule} has no {name}; it has learning_rate, weight_decay, {', '.join(sorted(_OPTIONS_OF[rule]))}")
            setattr(options, name, _number(value, name, float))
        if clip_norm is not None:
            options.clip_norm = _number(clip_norm, "clip_norm", float)
            if not options.clip_norm > 0:
                raise UsageError(f"weft: set_optimizer: a clip_norm of {clip_norm}; give a number above 0, or None")
        options.loss_scale, options.skip_non_finite, options.split_masters = bool(loss_scale), bool(skip_non_finite), bool(split_masters)
        options.decay_matrices = bool(decay_matrices)
        if self._has_optimizer:
            raise UsageError("weft: set_optimizer: an optimizer was set before; set one, or make another Zero")
        self._must(lib.zero_set_optimizer(handle, options))
        self._has_optimizer = True

    # ---- A step

    def begin(self, exchange=True) -> None:
        """Begins a step. exchange=False: a micro-step, which finish() ends. step() ends the last one, and takes the mean of all of them."""
        self._must(self._lib.zero_begin_step(self._mine("begin"), 0 if exchange else 1))

    def gather(self, unit=None) -> Gathered:
        """The unit's parameters whole, for a `with` block; without a number those of every unit, which stage 3 has memory for as held_units says. Blocks."""
        handle, units = self._mine("gather"), self.units
        if unit is not None and not 0 <= _number(unit, "unit") < units:
            raise UsageError(f"weft: gather: a unit {unit}; there are {units}, from 0")
        gathered = Gathered(self, [])
        try:
            for one in range(units) if unit is None else [int(unit)]:
                self._must(self._lib.zero_gather(handle, one, self._stream.value))
                gathered._units.append(one)
            self._wait()
        except BaseException:
            gathered.release()
            raise
        return gathered

    def accumulating(self) -> bool:
        """Whether backward must add to the gradients that are there, and not overwrite them."""
        return self._asked(self._lib.zero_accumulating(self._mine("accumulating"))) == 1

    def gradient(self, parameter):
        """Where backward writes the gradient of a parameter, by name or number, in this step, until ready(): a memoryview of its shape. Of float16 and
        bfloat16 it is of 16-bit integers."""
        handle, number = self._mine("gradient"), self._number_of(parameter)
        return self._seen_at(self._lib.zero_gradient(handle, number, self._stream.value), number)

    def ready(self, parameter, gradient=None) -> None:
        """The gradient of a parameter is complete: in gradient(parameter), or in `gradient`, which is copied there, and refused while
        accumulating()."""
        handle, number = self._mine("ready"), self._number_of(parameter)
        if gradient is not None:
            address, count, kind, _holder = memory(gradient, False, "gradient")
            self._check_gradient(number, count, kind)
            if self.accumulating():
                raise UsageError(f"weft: ready: `gradient` of {self.names[number]} in a step that adds to the micro-step before; add it to "
                                 "gradient(parameter), and call ready(parameter)")
            place = self._lib.zero_gradient(handle, number, self._stream.value)
            self._asked(-1 if not place else 0)
            ctypes.memmove(place, address, count * SIZES[kind])
        self._must(self._lib.zero_ready(handle, number, self._stream.value))

    def poll(self) -> None:
        """Progresses communication, where no thread of weft does. Worth a call between two layers of backward."""
        self._must(self._lib.zero_poll(self._mine("poll")))

    def finish(self) -> None:
        """Ends a micro-step that began with exchange=False. step() ends the last one."""
        self._must(self._lib.zero_finish_step(self._mine("finish"), self._stream.value))
        self._wait()

    def step(self, learning_rate=None) -> StepResult:
        """Ends the step: every rank updates its shard by the means. learning_rate: of this step; default: that of the optimizer. Blocks."""
        handle, rate = self._mine("step"), _OWN_RATE
        if not self._has_optimizer:
            raise UsageError("weft: step: no optimizer was set; call set_optimizer() once, before the first step")
        if learning_rate is not None:
            rate = _number(learning_rate, "learning_rate", float)
            if not rate >= 0:
                raise UsageError(f"weft: step: a learning rate of {learning_rate}; give a number of 0 or more, or None")
        result = _library.StepResult(size=ctypes.sizeof(_library.StepResult))
        self._must(self._lib.zero_step(handle, self._stream.value, rate, result))
        self._wait()
        return StepResult(result.skipped == 1, result.norm if result.has_norm else None)

    # ---- What it is

    def whole(self, parameter, out=None):
        """A copy of a whole parameter, by name or number: in `out`, an array of as many elements of its type, or in a new memoryview of its shape, which is
        returned. Every rank calls it, between steps; blocks."""
        handle, number = self._mine("whole"), self._number_of(parameter)
        if out is None:
            of_two = SIZES[self._kind] == 2
            one = memoryview(bytearray(self._counts[number] * SIZES[self._kind])).cast("H" if of_two else "d" if NAMES[self._kind] == "float64" else "f",
                                                                                      self._shapes[number] or (1,))
            self._must(self._lib.zero_whole(handle, number, memory(one.cast("B"), True, "out")[0]))
            return one
        address, count, kind, _holder = memory(out, True, "out")
        if (count, kind) != (self._counts[number], self._kind):
            raise UsageError(f"weft: whole: `out` has {count} elements of {NAMES[kind]}; {self.names[number]} has {self._counts[number]} of {NAMES[self._kind]}")
        self._must(self._lib.zero_whole(handle, number, address))
        return out

    @property
    def units(self) -> int:
        """How many there are."""
        return self._asked(self._lib.zero_units(self._mine("units")))

    def unit_of(self, parameter) -> int:
        """The number of the unit that a parameter is in, from 0."""
        return self._unit_of[self._number_of(parameter)]

    @property
    def loss_scale(self) -> float:
        """What the loss is multiplied by; 1 without loss scaling."""
        return self._asked(self._lib.zero_loss_scale(self._mine("loss_scale")))

    @property
    def steps(self) -> int:
        """How many steps changed parameters."""
        return self._asked(self._lib.zero_steps(self._mine("steps")))

    @property
    def exposed_seconds(self) -> float:
        """Seconds that computing has waited for gradients and parameters so far."""
        return self._asked(self._lib.zero_exposed_seconds(self._mine("exposed_seconds")))

    @property
    def held_bytes(self) -> int:
        """Bytes of parameters and gradients on this rank."""
        return self._asked(self._lib.zero_held_bytes(self._mine("held_bytes")))

    def close(self) -> None:
        """Ends it. Its memory goes with the last view of it, and with a Checkpointer that has saved it."""
        self._handle, self._views = None, {}

    def _seen_at(self, address, number):
        if (number, address) not in self._views:
            self._views[number, address] = self._view_at(address, number, self._shapes[number])
        return self._views[number, address]
