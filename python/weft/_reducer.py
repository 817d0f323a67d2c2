"""Means of gradients over ranks, bucket by bucket, while backward still runs; and parameters that begin alike on every rank."""

import collections
import ctypes
import weakref

from . import _library
from ._communicator import _TIMEOUT, _SLICE, Communicator, _Handle, _number
from ._errors import UsageError, error_of
from ._memory import NAMES, array_at, memory, refuse

_Pointer, _byref = ctypes.c_void_p, ctypes.byref
_UNUSED = {"refuse": 0, "find": 1, "as in first step": 2}
_UNEVEN = {"refuse": 0, "mean of all": 1, "mean of the rest": 2}
_MOST = 127  # accounts that libweft keeps
_averaged = weakref.WeakValueDictionary()  # by address of a parameter, and rank: the Reducer that has it

#: Where a step's time went, in seconds, as weft/gradient/step_account.hpp defines it. exposed: computing waited for communication; link: communication
#: was under way; overlap: of that, while this rank computed; slowest: of exposed, for gradients of another rank, most of it for `slowest_rank` (None: for
#: none); skew: from the first rank that had a bucket ready to the last; late: this rank after all others. Of the last two the longest of a step.
StepAccount = collections.namedtuple(
    "StepAccount", ["step", "seconds", "exposed_seconds", "link_seconds", "overlap_seconds", "slowest_seconds", "skew_seconds", "late_seconds", "slowest_rank"])
#: NaN and infinite gradients of a rank in a step; parameter: the name of the first that has any.
BadValues = collections.namedtuple("BadValues", ["step", "nans", "infinities", "rank", "parameter"])


def _word(table, word, name):
    try:
        return table[word]
    except (KeyError, TypeError):
        raise UsageError(f"weft: {name}={word!r}; there are {', '.join(map(repr, table))}") from None


def _hook(hook, start_step):
    """Both as weft.h has them."""
    if hook is not None and not isinstance(hook, str):
        raise UsageError(f"weft: `hook` is of type {type(hook).__name__}; give its name, such as \"bf16\"")
    if start_step is not None:
        start_step = _number(start_step, "hook_start_step") or -1  # 0 is the default there
    return hook.encode() if hook is not None else None, start_step or 0


def _parameters(given, write):
    """[(name, memory, shape)] of a mapping of names to arrays, or of a sequence of arrays."""
    named = list(given.items()) if hasattr(given, "items") else [(str(i), one) for i, one in enumerate(given)]
    if not named:
        raise UsageError("weft: there are no parameters; give a dict of arrays by name, or a list of arrays")
    found = []
    for name, one in named:
        words = f"parameter {name}"
        of_one = memory(one, write, words)
        if of_one[1] == 0:
            refuse(words, "has no elements", "leave it out")
        if found and of_one[2] != found[0][1][2]:
            raise UsageError(f"weft: `{words}` is of {NAMES[of_one[2]]} and `parameter {found[0][0]}` of {NAMES[found[0][1][2]]}; give all one type")
        holder = of_one[3]
        shape = holder.shape if isinstance(holder, memoryview) else tuple(getattr(one, "shape", (of_one[1],)))
        found.append((str(name), of_one, tuple(int(extent) for extent in shape)))
    return found


def _layout(lib, parameters):
    """A handle of weft_layout_t."""
    made = _Pointer()
    lib.must(lib.layout_create(parameters[0][1][2], _byref(made)))
    layout = _Handle(made, lib.layout_free)
    for name, _, shape in parameters:
        extents = (ctypes.c_int64 * len(shape))(*shape)
        if lib.layout_add(made, name.encode(), extents, len(shape), None) < 0:
            raise error_of(lib.last_status(), lib.message())
    return layout


def sync_initial_values(comm: Communicator, parameters, compare=False) -> None:
    """Every rank gets rank 0's parameters. With `compare` nothing is written: a MismatchError names what differs, and where. Collective; blocks.

    parameters: a dict of arrays by name, or a list of arrays, of one type.
    """
    lib, handle = comm._lib, comm._open_handle("sync_initial_values")
    found = _parameters(parameters, not compare)
    layout = _layout(lib, found)
    values = (_Pointer * len(found))(*[of_one[0] for _, of_one, _ in found])
    with comm._lock:
        lib.must(lib.sync_initial_values(handle, layout.value, values, _library.HOST, 0 if compare else 1))


class _OfParameters:
    """What a Reducer and a Zero have in common: parameters by name and number, a handle, and a stream that is waited for."""

    def _check_device(self, comm):
        name = type(self).__name__
        comm._open_handle(name)
        if not comm._is_on_host:
            raise UsageError(f"weft: {name}: this communicator computes on a device, whose memory Python cannot read; connect with WEFT_DEVICE=host")

    def _set(self, comm, found, handle):
        lib, stream = comm._lib, _Pointer()
        lib.must(lib.stream_create(_library.HOST, 0, _byref(stream)))
        self._comm, self._handle, self._stream, self._held = comm, handle, _Handle(stream, lib.stream_free), []
        self._parameters = [of_one[3] for _, of_one, _ in found]  # so that their addresses are theirs

    def _named(self, found):
        self.names = [name for name, *_ in found]  #: of the parameters, by number
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self._counts, self._kind = [of_one[1] for _, of_one, _ in found], found[0][1][2]

    def _check_gradient(self, number, count, kind):
        if (count, kind) != (self._counts[number], self._kind):
            raise UsageError(f"weft: ready: the gradient of {self.names[number]} has {count} elements of {NAMES[kind]}; the parameter has "
                             f"{self._counts[number]} of {NAMES[self._kind]}")

    def _view_at(self, address, number, shape):
        """A memoryview of the parameter's shape, or of (1,), which keeps the handle."""
        if not address:
            raise error_of(self._lib.last_status(), self._lib.message())
        array = array_at(address, self._counts[number], self._kind, self._handle)
        return memoryview(array).cast("B").cast(memoryview(array).format.lstrip("<"), shape or (1,))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _mine(self, name):
        if self._handle is None:
            raise UsageError(f"weft: {name}: this {type(self).__name__} was closed; use it before close(), or before the end of its `with` block")
        self._comm._open_handle(f"{type(self).__name__}.{name}")
        return self._handle.value

    def _number_of(self, parameter):
        if isinstance(parameter, str):
            if parameter not in self._numbers:
                raise UsageError(f"weft: a parameter {parameter!r}; there are {', '.join(self.names[:8])}{', ...' if len(self.names) > 8 else ''}")
            return self._numbers[parameter]
        if not 0 <= _number(parameter, "parameter") < len(self.names):
            raise UsageError(f"weft: a parameter of number {parameter}; there are {len(self.names)}, from 0")
        return int(parameter)

    def _must(self, status):
        self._lib.must(status)

    def _asked(self, value):
        if value == -1:
            raise error_of(self._lib.last_status(), self._lib.message())
        return value

    def _wait(self):
        """Until the stream has run all; Ctrl-C ends the wait."""
        lib, stream = self._lib, self._stream.value
        status = lib.stream_synchronize(stream, _SLICE)
        while status == _TIMEOUT and lib.stream_poll(stream) == 0:
            status = lib.stream_synchronize(stream, _SLICE)
        if status == _TIMEOUT:  # of the stream's work, or its last slice ended as the work did
            status = lib.stream_synchronize(stream, _library.NO_DEADLINE)
        self._must(status)
        self._held.clear()


class Reducer(_OfParameters):
    """Averages gradients over the ranks, bucket by bucket, beside backward.

        reducer = weft.Reducer(comm, parameters)             # in the order of forward
        gradients = [numpy.asarray(one) for one in reducer.gradients]
        for batch in data:
            reducer.begin()
            ...                                              # backward writes gradients[2],
            reducer.ready(2)                                 # which leaves while the rest of backward runs
            ...
            reducer.finish()                                 # gradients[i] is the mean
            for parameter, gradient in zip(parameters, gradients):
                parameter -= rate * gradient

    WRONG: reading gradients[i] between ready(i) and finish(): it may be on the wire.

    parameters: a dict of arrays by name, or a list of arrays, of one type; their shapes and types count, and they are not written.
    hook: what gradients look like on the wire: "fp16", "bf16", "int8", "powersgd:4", ...; None: as they are. hook_start_step: hooks with error feedback
    reduce the steps before as they are (default 100; -1: none).
    bucket_bytes: default: planned from the first steps. alone_bytes: parameters of so many bytes have a bucket of their own.
    order: parameters by name or number in the order in which backward finishes them; default: from the last to the first.
    unused: what a step does about parameters that were not marked: "refuse", "find", "as in first step".
    uneven: where ranks run out of batches at different times (join()): "refuse", "mean of all", "mean of the rest".
    count_bad_values: for bad_values(). micro_batches: of a step over all ranks, where ranks share them unevenly.

    Its construction and every step are collective. One thread at a time uses it.
    """

    def __init__(self, comm: Communicator, parameters, hook=None, hook_start_step=None, bucket_bytes=None, alone_bytes=None, order=None, unused="refuse",
                 uneven="refuse", count_bad_values=False, micro_batches=0):
        self._handle = None
        lib = self._lib = comm._lib
        self._check_device(comm)
        found = _parameters(parameters, False)
        self._named(found)
        places = None if order is None else [self._number_of(one) for one in order]
        hook, hook_start_step = _hook(hook, hook_start_step)
        options = _library.ReducerOptions(
            size=ctypes.sizeof(_library.ReducerOptions), hook=hook, hook_start_step=hook_start_step,
            bucket_bytes=_number(bucket_bytes or 0, "bucket_bytes"), alone_bytes=_number(alone_bytes or 0, "alone_bytes"),
            order=(ctypes.c_int * len(places))(*places) if places is not None else None, order_count=len(places or ()),
            unused=_word(_UNUSED, unused, "unused"), uneven=_word(_UNEVEN, uneven, "uneven"), count_bad_values=bool(count_bad_values),
            micro_batches=_number(micro_batches, "micro_batches"))
        self._claim(comm, found)
        layout, made = _layout(lib, found), _Pointer()
        with comm._lock:
            lib.must(lib.reducer_create(comm._open_handle("Reducer"), layout.value, options, _byref(made)))
        self._set(comm, found, _Handle(made, lib.reducer_free))
        for _, of_one, _ in found:
            _averaged[of_one[0], comm.rank] = self
        #: Where backward writes, and where the means are after a step: a memoryview of each parameter's shape, which numpy.asarray() takes. Of float16
        #: and bfloat16 they are of 16-bit integers.
        self.gradients = [self._view(number, shape) for number, (_, _, shape) in enumerate(found)]

    @staticmethod
    def _claim(comm, found):
        """Raises UsageError for a parameter that is averaged twice: here, or in this Reducer and another one that is open.

        libweft has this check, too. It holds until a reducer is freed, which here is when the last array of its gradients goes, and not at close().
        """
        here = {}
        for name, of_one, _ in found:
            if of_one[0] in here:
                raise UsageError(f"weft: Reducer: the parameters {here[of_one[0]]} and {name} share their memory; give it once")
            here[of_one[0]] = name
            other = _averaged.get((of_one[0], comm.rank))
            if other is not None and other._handle is not None and other._comm.size == comm.size:
                raise UsageError(f"weft: Reducer: parameter {name} belongs to another Reducer of this process; its gradient is averaged once: close() the "
                                 "other one before, or leave the parameter to it")

    def _view(self, number, shape):
        return self._view_at(self._lib.reducer_gradient(self._handle.value, number), number, shape)

    def __repr__(self):
        return f"<weft.Reducer of {len(self.names)} parameters{'' if self._handle is not None else ', closed'}>"

    def begin(self, exchange=True) -> None:
        """Begins a step. exchange=False: a micro-step, whose gradients the next one adds to (accumulating())."""
        self._must(self._lib.reducer_begin_step(self._mine("begin"), 0 if exchange else 1))

    def accumulating(self) -> bool:
        """Whether backward must add to the gradients that are there, and not overwrite them."""
        return self._asked(self._lib.reducer_accumulating(self._mine("accumulating"))) == 1

    def ready(self, parameter, gradient=None) -> None:
        """The gradient of a parameter, by name or number, is complete: in gradients[number], or in `gradient`, which is copied there."""
        handle, number = self._mine("ready"), self._number_of(parameter)
        if gradient is None:
            self._must(self._lib.reducer_ready(handle, number, self._stream.value))
            return
        address, count, kind, holder = memory(gradient, False, "gradient")
        self._check_gradient(number, count, kind)
        self._held.append(holder)
        self._must(self._lib.reducer_ready_from(handle, number, address, self._stream.value))

    def poll(self) -> None:
        """Progresses communication, where no thread of weft does. Worth a call between two layers of backward."""
        self._must(self._lib.reducer_poll(self._mine("poll")))

    def finish(self) -> None:
        """Ends the step, and waits for the means. Raises UsageError, on every rank, with the parameters that were not marked."""
        self._must(self._lib.reducer_finish_step(self._mine("finish"), self._stream.value))
        self._wait()

    def join(self, each=None) -> None:
        """For a rank without a batch: takes part in the steps of the others until no rank has one. each(): called after each of them, when the means
        are there; take the optimizer's step in it. Blocks."""
        errors = []

        def called(_):
            try:
                if each is not None and not errors:
                    each()
            except BaseException as error:  # it must not pass through C: the caller gets it below
                errors.append(error)
                self._comm._tell(error)

        status = self._lib.reducer_join(self._mine("join"), self._stream.value, _library.Each(called), None)
        if errors:
            raise errors[0]
        self._must(status)
        self._wait()

    def used(self, parameter) -> bool:
        """Whether any rank had a gradient of it in the last exchanged step."""
        return self._asked(self._lib.reducer_used(self._mine("used"), self._number_of(parameter))) == 1

    def bad_values(self) -> list:
        """With count_bad_values: the ranks that had NaN or infinite gradients in the last exchanged step, as BadValues."""
        most = self._comm.size
        found = (_library.BadValues * most)()
        count = self._asked(self._lib.reducer_bad_values(self._mine("bad_values"), found, ctypes.sizeof(_library.BadValues), most))
        return [BadValues(one.step, one.nans, one.infinities, one.rank, self.names[one.first]) for one in found[:count]]

    def account(self) -> list:
        """Where the time of the steps since the last call went, as StepAccount, oldest first. Collective, between steps; blocks."""
        found = (_library.StepAccount * _MOST)()
        count = self._asked(self._lib.reducer_account(self._mine("account"), found, ctypes.sizeof(_library.StepAccount), _MOST))
        return [StepAccount(*[getattr(one, name) for name, _ in one._fields_[:-1]], one.slowest if one.slowest >= 0 else None) for one in found[:count]]

    @property
    def exposed_seconds(self) -> float:
        """Seconds that computing has waited for communication so far."""
        return self._asked(self._lib.reducer_exposed_seconds(self._mine("exposed_seconds")))

    @property
    def held_bytes(self) -> int:
        """Bytes of gradients on this rank."""
        return self._asked(self._lib.reducer_held_bytes(self._mine("held_bytes")))

    def close(self) -> None:
        """Ends it. Its memory goes with the last of `gradients`, or of what was made of them."""
        self._handle, self.gradients, self._parameters = None, [], []
