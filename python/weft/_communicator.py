"""A group of ranks that move data together, and the tickets of what they do."""

import atexit
import contextlib
import ctypes
import os
import re
import sys
import threading
import time
import weakref

from . import _library, _memory
from ._errors import Error, UsageError, error_of, status_of
from ._memory import NAMES, memory, type_of

_byref, _Pointer = ctypes.byref, ctypes.c_void_p
_OPS = {"sum": 0, "prod": 1, "min": 2, "max": 3, "avg": 4, "band": 5, "bor": 6, "bxor": 7}
_COLLECTIVES = {"all_reduce": 0, "reduce_scatter": 1, "all_gather": 2, "broadcast": 3, "reduce": 4, "all_to_all": 5, "barrier": 6}
_ORDERS = {None: 0, "rank": 1, "any": 2}
_TIMEOUT = 3
_SLICE = 0.2  # seconds: how long a wait is deaf to Ctrl-C
_AFTER = re.compile(r"after [-+.0-9e]+ s")

_forks = 0  # how often this process is a child of the one that imported this
_open = weakref.WeakSet()  # communicators
_kept = []  # works that are under way when their communicator goes: their memory must stay


def _op(word):
    try:
        return _OPS[word]
    except (KeyError, TypeError):
        raise UsageError(f"weft: a reduction {word!r}; there are {', '.join(_OPS)}") from None


def _text(word, name):
    if word is None:
        return None
    if isinstance(word, (str, os.PathLike)):
        return os.fsencode(word)
    raise UsageError(f"weft: `{name}` is of type {type(word).__name__}; give text")


def _number(value, name, kind=int):
    try:
        return kind(value) if kind is float else int.__index__(value)
    except (TypeError, ValueError):
        raise UsageError(f"weft: `{name}` is {value!r}; give {'a number' if kind is float else 'a whole number'}") from None


class _Handle:
    """A handle of weft.h that is freed with its last user, and before what it keeps."""

    __slots__ = ("value", "keeps", "_free", "_forks", "__weakref__")

    def __init__(self, value, free, keeps=None):
        self.value, self.keeps, self._free, self._forks = value, keeps, free, _forks

    def __del__(self):
        if self._forks == _forks:  # in a child after fork() it is the parent's
            self._free(self.value)


class Work:
    """The ticket of an operation: wait for it, or ask whether it is done. Until then it holds the operation's memory.

    It need not be kept: the communicator carries the operation out, and holds its memory, all the same. Any thread may ask.

        work = comm.all_reduce(gradient, op="avg")
        ...                                            # compute meanwhile; leave `gradient` alone
        work.wait()
    """

    __slots__ = ("operation", "_handle", "_memory", "_pending", "_error", "_receives", "_sources", "_forks", "_lib", "__weakref__")

    def __init__(self, lib, operation, handle, held, pending, receives=0):
        self.operation = operation  #: "all_reduce", ...
        self._lib, self._handle, self._memory, self._pending = lib, handle, held, pending
        self._error, self._receives, self._sources, self._forks = None, receives, None, _forks
        pending.add(self)

    def __repr__(self):
        return f"<weft.Work {self.operation}, {'under way' if self._handle is not None else 'failed' if self._error else 'done'}>"

    def wait(self, timeout=None):
        """Blocks until it is done; Ctrl-C ends the wait.

        timeout: seconds; None: as long as the operation itself may take (Communicator.timeout). Raises what the operation failed with; TimeoutError,
        which breaks nothing, after `timeout`.
        """
        handle = self._handle
        if handle is None or self._forks != _forks:
            return self._again()
        lib = self._lib
        if timeout is None:
            status = lib.work_wait(handle, _SLICE)
            while status == _TIMEOUT and lib.work_done(handle) == 0:
                status = lib.work_wait(handle, _SLICE)
            if status == _TIMEOUT:  # the operation's own, or it was done just after the slice
                status = lib.work_wait(handle, 0.0)
        else:
            end = time.monotonic() + _number(timeout, "timeout", float)
            while True:
                left = max(end - time.monotonic(), 0.0)
                status = lib.work_wait(handle, min(left, _SLICE))
                if status != _TIMEOUT:
                    break
                if lib.work_done(handle) != 0:
                    status = lib.work_wait(handle, 0.0)
                    break
                if left <= _SLICE:  # the message has the last slice of the time
                    raise error_of(status, _AFTER.sub(f"after {timeout:g} s", lib.message(), count=1))
        self._end(status)
        if self._error is not None:
            raise self._error
        return None

    def done(self):
        """Whether it is done, with or without an error."""
        handle = self._handle
        if handle is None:
            return True
        if self._forks != _forks:
            return self._again()
        if self._lib.work_done(handle) != 1:
            return False
        self._end(self._lib.work_wait(handle, 0.0))
        return True

    def source(self, receive=0):
        """The rank whose message the receive_any of this number took, from 0, once it is done."""
        if not self.done():
            raise UsageError("weft: source() of a Work that is under way; wait() for it before")
        self._again()
        if not 0 <= _number(receive, "receive") < self._receives:
            raise UsageError(f"weft: source() of receive_any {receive}; this Work has {self._receives}")
        return self._sources[receive]

    def _again(self):
        if self._forks != _forks:
            raise UsageError(f"weft: {self.operation}: this Work is of the parent of this process; the child connects anew")
        if self._error is not None:
            raise self._error

    def _end(self, status):
        """It is done: the memory goes back to the caller, and the handle goes."""
        lib, handle = self._lib, self._handle
        if handle is None:  # another thread was first
            return
        if status:
            self._error = self._error or error_of(status, lib.message())
        elif self._receives:
            self._sources = self._sources or [lib.work_source(handle, i) for i in range(self._receives)]
        self._handle = self._memory = None
        try:
            self._pending.remove(self)
        except KeyError:  # another thread did the same
            return
        lib.work_free(handle)


class Communicator:
    """The ranks that call together. weft.world() makes one of all ranks; split() makes parts of it.

    Every operation returns at once with a Work. Leave the data untouched until it is done. All ranks issue the same operations, in the same order, with
    the same type, number of elements, reduction and root; what differs is a MismatchError on every rank, or a TimeoutError. After an error of that kind the
    communicator is broken: later operations raise it again.

    Memory is anything on the host with the buffer protocol or `__array_interface__`, and for what weft only reads, `__dlpack__`. It must be
    contiguous, of any shape. Types: float16, float32, float64, bfloat16 (weft.bfloat16), int8 to int64, uint8, uint32, uint64.

    As a context manager it closes at the end; if an exception leaves the block, the other ranks hear of it at once.
    """

    def __init__(self, *_):
        raise TypeError("weft: weft.world() makes a Communicator, and Communicator.split()")

    @classmethod
    def _made(cls, handle, world=None, is_lent=False):
        self = cls.__new__(cls)
        lib = self._lib = _library.library()
        self._handle, self._world, self._is_lent, self._forks = handle, world, is_lent, _forks
        self._stream = None
        self._pending, self._prune_at = set(), 64
        self._lock = threading.RLock()  # one thread at a time issues
        self._rank, self._size = lib.comm_rank(handle), lib.comm_size(handle)
        self._is_on_host = lib.comm_device(handle) == _library.HOST
        self._make_stream()
        _open.add(self)
        return self

    def _make_stream(self):
        """Where operations run: in a thread where this process has a core for it, as WEFT_PROGRESS says, and else in those that wait. One rank waits for
        nobody, and a child after fork() has no such thread."""
        stream = _Pointer()
        if self._is_on_host and self._size > 1 and self._forks == _forks:
            self._lib.must(self._lib.stream_progress(self._handle, _byref(stream)))
        else:
            self._lib.must(self._lib.stream_create(_library.HOST, 0, _byref(stream)))
        self._stream = stream

    def __repr__(self):
        return f"<weft.Communicator, rank {self._rank} of {self._size}{'' if self._handle is not None else ', closed'}>"

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None and self._handle is not None and not isinstance(error, SystemExit):
            self._tell(error)
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None and self._forks == _forks:
            if any(not work.done() for work in tuple(self._pending)):
                _kept.append((self._handle, self._stream, tuple(self._pending)))
            else:
                self._free()

    # ---- What it is

    @property
    def rank(self) -> int:
        """This process among the ranks, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    @property
    def nodes(self) -> int:
        """How many nodes the ranks are on."""
        return self._asked(self._lib.comm_nodes(self._open_handle("nodes")), -1)

    def node_of(self, rank) -> int:
        """The number of the node that a rank is on, from 0."""
        return self._asked(self._lib.comm_node_of(self._open_handle("node_of"), self._a_rank(rank, "rank")), -1)

    @property
    def backend(self) -> str:
        """What carries its data: "host (shared memory)", "host (TCP)", ..."""
        return self._asked(self._lib.comm_backend(self._open_handle("backend")), None).decode()

    @property
    def timeout(self) -> float:
        """Seconds that an operation may wait for other ranks; holds for those that are issued after it was set."""
        return self._asked(self._lib.comm_timeout(self._open_handle("timeout")), -1.0)

    @timeout.setter
    def timeout(self, seconds):
        self._lib.must(self._lib.comm_set_timeout(self._open_handle("timeout"), _number(seconds, "timeout", float)))

    def slow_after(self, seconds) -> None:
        """After so many seconds of waiting a warning says for whom; the operation goes on."""
        self._lib.must(self._lib.comm_slow_after(self._open_handle("slow_after"), _number(seconds, "seconds", float)))

    @property
    def wire_bytes(self) -> int:
        """Bytes that this rank has given to others so far."""
        return self._asked(self._lib.comm_wire_bytes(self._open_handle("wire_bytes")), -1)

    @property
    def network_bytes(self) -> int:
        """Those of them that left the node."""
        return self._asked(self._lib.comm_network_bytes(self._open_handle("network_bytes")), -1)

    def explain(self, operation, count, dtype="float32", op="sum") -> str:
        """How an operation of `count` elements would be carried out, in one sentence."""
        if operation not in _COLLECTIVES:
            raise UsageError(f"weft: an operation {operation!r}; there are {', '.join(_COLLECTIVES)}")
        said = ctypes.create_string_buffer(4096)
        length = self._lib.comm_explain(self._open_handle("explain"), _COLLECTIVES[operation], type_of(dtype), _number(count, "count"), _op(op),
                                        ctypes.cast(said, ctypes.c_char_p), 4096)
        self._asked(length, -1)
        return said.value.decode()

    def count_step(self, seconds) -> None:
        """The trainer has done a step that took so long; for metrics()."""
        self._lib.must(self._lib.comm_count_step(self._open_handle("count_step"), _number(seconds, "seconds", float)))

    def metrics(self) -> dict:
        """What this rank has counted, as Prometheus names it: {"weft_steps_total": 100.0, ...}, with labels in braces behind the name."""
        found = {}

        def sample(_, name, labels, value):
            found[name.decode() + (f"{{{labels.decode()}}}" if labels else "")] = value

        self._lib.must(self._lib.comm_metrics(self._open_handle("metrics"), _library.Sample(sample), None))
        return found

    # ---- Collectives

    def all_reduce(self, data, out=None, op="sum") -> Work:
        """out[i] = op over all ranks of data[i], on every rank.

        data, out: as many elements of one type; without `out` the result is in `data`. op: "sum", "avg", "min", "max", "prod", "band", "bor", "bxor".
        """
        address, count, kind, holder = memory(data, out is None, "data")
        if out is None:
            target = address
        else:
            target, *_ = of_out = memory(out, True, "out")
            self._check_alike("all_reduce", kind, count, of_out, count)
            holder = (holder, of_out[3])
        return self._issue("all_reduce", self._lib.comm_all_reduce, holder, address, target, count, kind, _op(op))

    def reduce_scatter(self, data, out, op="sum") -> Work:
        """Rank r gets the r-th part of the reduction.

        out: n elements; data: n for each rank, one part after the other.
        """
        address, count, kind, holder = memory(data, False, "data")
        of_out = memory(out, True, "out")
        self._check_alike("reduce_scatter", kind, count, of_out, None)
        self._check_parts("reduce_scatter", "data", count, "out", of_out[1])
        return self._issue("reduce_scatter", self._lib.comm_reduce_scatter, (holder, of_out[3]), address, of_out[0], of_out[1], kind, _op(op))

    def all_gather(self, data, out) -> Work:
        """Every rank gets the data of all, in the order of ranks.

        data: n elements; out: n for each rank.
        """
        address, count, kind, holder = memory(data, False, "data")
        of_out = memory(out, True, "out")
        self._check_alike("all_gather", kind, count, of_out, None)
        self._check_parts("all_gather", "out", of_out[1], "data", count)
        return self._issue("all_gather", self._lib.comm_all_gather, (holder, of_out[3]), address, of_out[0], count, kind)

    def broadcast(self, data, root=0) -> Work:
        """Every rank gets root's data. It is read at root, and written at the others."""
        root = self._a_rank(root, "root")
        address, count, kind, holder = memory(data, root != self._rank, "data")
        return self._issue("broadcast", self._lib.comm_broadcast, holder, address, count, kind, root)

    def reduce(self, data, out=None, root=0, op="sum") -> Work:
        """As all_reduce, but root alone gets the result: in `out`, or without it in `data`. Others need no `out`."""
        root = self._a_rank(root, "root")
        is_root = root == self._rank
        address, count, kind, holder = memory(data, is_root and out is None, "data")
        target = address
        if is_root and out is not None:
            target, *_ = of_out = memory(out, True, "out")
            self._check_alike("reduce", kind, count, of_out, count)
            holder = (holder, of_out[3])
        return self._issue("reduce", self._lib.comm_reduce, holder, address, target if is_root else None, count, kind, _op(op), root)

    def all_to_all(self, data, out) -> Work:
        """Rank r gets the r-th part of every rank's data, in the order of ranks.

        data, out: as many elements, n for each rank. They do not overlap.
        """
        address, count, kind, holder = memory(data, False, "data")
        of_out = memory(out, True, "out")
        self._check_alike("all_to_all", kind, count, of_out, count)
        if count % self._size:
            raise UsageError(f"weft: all_to_all: `data` has {count} elements, which {self._size} ranks cannot share; give as many for each rank")
        return self._issue("all_to_all", self._lib.comm_all_to_all, (holder, of_out[3]), address, of_out[0], count // self._size, kind)

    def barrier(self) -> Work:
        """Done when every rank has reached it."""
        return self._issue("barrier", self._lib.comm_barrier, None)

    # ---- Messages

    def send(self, data, peer, tag=0) -> Work:
        """Sends `data` to rank `peer`, whose receive has the same tag."""
        group = Group(self)
        group.send(data, peer, tag)
        return group.start()

    def receive(self, data, peer, tag=0) -> Work:
        """Receives into `data` what rank `peer` sends with this tag: as many elements of the same type."""
        group = Group(self)
        group.receive(data, peer, tag)
        return group.start()

    def receive_any(self, data, tag=0) -> Work:
        """As receive(), from whoever sends first. Work.source() says who it was."""
        group = Group(self)
        group.receive_any(data, tag)
        return group.start()

    def group(self) -> "Group":
        """For sends and receives that progress together, in any order."""
        return Group(self)

    # ---- Parts, memory, the end

    def split(self, color, key=0):
        """A communicator of the ranks that name the same color (a whole number), ordered by key and then rank; None for color None.

        Collective; blocks.
        """
        color = _library.NO_COLOR if color is None else _number(color, "color")
        if not -(2**31) <= color < 2**31:
            raise UsageError(f"weft: split: a color of {color}; give one of 32 bits, or None to be in no part")
        made = _Pointer()
        with self._lock:
            self._lib.must(self._lib.comm_split(self._open_handle("split"), color, _number(key, "key"), _byref(made)))
        return Communicator._made(made, self._world) if made else None

    def allocate(self, count, dtype="float32"):
        """Zeroed memory that the ranks of the node reach without a copy: a ctypes array, of which numpy.asarray() and memoryview() make arrays.

        float16 and bfloat16 are arrays of uint16; give weft.bfloat16(array) to operations. It lives as long as the array, or what was made of it.
        """
        if not self._is_on_host:
            raise UsageError("weft: allocate: this communicator computes on a device, whose memory Python cannot read; connect with WEFT_DEVICE=host")
        kind, count, made = type_of(dtype), _number(count, "count"), _Pointer()
        if count < 1:
            raise UsageError(f"weft: allocate: {count} elements; give 1 or more")
        with self._lock:
            self._lib.must(self._lib.buffer_create(self._open_handle("allocate"), kind, count, _byref(made)))
        owner = _Handle(made, self._lib.buffer_free)
        return _memory.array_at(self._lib.buffer_data(made), count, kind, owner)

    def give_up(self, why, kind="system") -> None:
        """This rank cannot go on: operations of all ranks fail with `why` as soon as they need it."""
        self._lib.must(self._lib.comm_give_up(self._open_handle("give_up"), status_of(kind), str(why).encode(errors="replace")))

    def close(self) -> None:
        """Frees it, once what is under way is done. A second call does nothing."""
        if self._handle is None or self._forks != _forks:
            return
        for work in tuple(self._pending):
            with contextlib.suppress(Error):  # Work.wait() raises it for the program
                work.wait()
        with self._lock:
            if self._handle is not None:
                self._free()

    def _free(self):
        handle, stream, self._handle, self._stream = self._handle, self._stream, None, None
        _open.discard(self)
        lib = self._lib
        if stream is not None:
            lib.stream_free(stream)  # it finishes its work
        for work in tuple(self._pending):
            work.done()
        if not self._is_lent:
            lib.comm_free(handle)
        self._world = None

    # ---- Within

    def _issue(self, name, function, held, *arguments, receives=0):
        """Begins an operation. What is wrong is raised here, before anything is under way."""
        pending = self._pending
        if len(pending) >= self._prune_at:  # works that nobody waited for
            for work in tuple(pending):
                work.done()
            self._prune_at = max(64, 2 * len(pending))
        handle = _Pointer()
        work = Work(self._lib, name, handle, held, pending, receives)  # first, so that Ctrl-C within the call leaves the memory held
        with self._lock:
            status = function(self._handle, *arguments, self._stream, _byref(handle))
            if status and self._stream is None and self._handle is not None:
                self._make_stream()
                status = function(self._handle, *arguments, self._stream, _byref(handle))
        if status:
            message = self._lib.message()
            pending.discard(work)
            self._open_handle(name)
            raise error_of(status, message)
        return work

    def _open_handle(self, name):
        if self._handle is None:
            raise UsageError(f"weft: {name}: this Communicator was closed; use it before close(), or before the end of its `with` block")
        return self._handle

    def _asked(self, value, wrong):
        if value == wrong:
            raise error_of(self._lib.last_status(), self._lib.message())
        return value

    def _a_rank(self, rank, name):
        if not 0 <= _number(rank, name) < self._size:
            raise UsageError(f"weft: `{name}` is {rank}; there are ranks 0 to {self._size - 1}")
        return int(rank)

    def _check_alike(self, operation, kind, count, of_out, wanted):
        if of_out[2] != kind:
            raise UsageError(f"weft: {operation}: `data` is of {NAMES[kind]} and `out` of {NAMES[of_out[2]]}; give both one type")
        if wanted is not None and of_out[1] != wanted:
            raise UsageError(f"weft: {operation}: `data` has {count} elements and `out` {of_out[1]}; give as many in both")

    def _check_parts(self, operation, whole_name, whole, part_name, part):
        if whole != part * self._size:
            raise UsageError(f"weft: {operation}: `{whole_name}` has {whole} elements and `{part_name}` {part}; "
                             f"of {self._size} ranks `{whole_name}` has {part * self._size}")

    def _tell(self, error):
        """The other ranks hear what ended this one."""
        kind = error.kind if isinstance(error, Error) else "system"
        why = str(error) if isinstance(error, Error) else f"the program ended with {type(error).__name__}: {error}".replace("\n", " ")
        self._lib.comm_give_up(self._handle, status_of(kind), why.encode(errors="replace"))


class Group:
    """Sends and receives that progress together. One that was started is empty, and may be filled again.

        group = comm.group()
        group.receive(left, peer=(comm.rank - 1) % comm.size)
        group.send(right, peer=(comm.rank + 1) % comm.size)
        group.start().wait()
    """

    def __init__(self, comm):
        made = _Pointer()
        comm._lib.must(comm._lib.group_create(comm._open_handle("group"), _library.HOST, _byref(made)))
        self._comm, self._handle = comm, _Handle(made, comm._lib.group_free)
        self._held, self._receives = [], 0

    def send(self, data, peer, tag=0) -> None:
        """To rank `peer`, whose receive has the same tag."""
        self._add(self._comm._lib.group_send, "send", data, False, self._comm._a_rank(peer, "peer"), self._tag(tag))

    def receive(self, data, peer, tag=0) -> None:
        """From rank `peer`, as many elements of the same type as it sends."""
        self._add(self._comm._lib.group_receive, "receive", data, True, self._comm._a_rank(peer, "peer"), self._tag(tag))

    def receive_any(self, data, tag=0) -> None:
        """From whoever sends with this tag first."""
        self._add(self._comm._lib.group_receive_any, "receive_any", data, True, self._tag(tag))
        self._receives += 1

    def start(self) -> Work:
        """Begins all that was added."""
        held, receives, self._held, self._receives = self._held, self._receives, [], 0
        group = self._handle

        def begin(comm, stream, work):  # in the form of other operations: with the communicator first
            return self._comm._lib.group_start(group.value, stream, work)

        return self._comm._issue("group", begin, (held, group), receives=receives)

    def _add(self, function, name, data, write, *arguments):
        self._comm._open_handle(name)
        address, count, kind, holder = memory(data, write, "data")
        self._comm._lib.must(function(self._handle.value, address, count, kind, *arguments))
        self._held.append(holder)

    @staticmethod
    def _tag(tag):
        if not 0 <= _number(tag, "tag") < 2**32:
            raise UsageError(f"weft: a tag of {tag}; give one of 32 bits, from 0")
        return int(tag)


_of_all = None  # the communicator of weft.world()
_of_all_lock = threading.Lock()


def world(rank=None, size=None, rendezvous=None, connect_timeout=None, timeout=None, order=None) -> Communicator:
    """The communicator of all ranks: under weft-launch, mpirun, torchrun, Slurm, or alone. Collective; blocks until all ranks are there.

    Without arguments it is the same one each time, until it is closed. rank, size, rendezvous ("tcp://HOST:PORT", "file://PATH") outrank the
    environment. connect_timeout, timeout: seconds, in place of WEFT_CONNECT_TIMEOUT and WEFT_TIMEOUT. order: of sums between nodes, "rank" or "any",
    in place of WEFT_ORDER. Raises UsageError where variables contradict each other, TimeoutError with the ranks that did not come; ImportError where
    libweft.so is not found.
    """
    global _of_all
    is_plain = all(given is None for given in (rank, size, rendezvous, connect_timeout, timeout, order))
    with _of_all_lock:
        known = _of_all
        if known is not None and known._handle is not None and known._forks == _forks:
            if not is_plain:
                raise UsageError("weft: world() was called before, and has other options now; call it with options once, before all others")
            return known
        _of_all = _connect(rank, size, rendezvous, connect_timeout, timeout, order)
        return _of_all


def _connect(rank, size, rendezvous, connect_timeout, timeout, order):
    lib = _library.library()
    if (rank is None) != (size is None):
        raise UsageError("weft: world(): one of `rank` and `size` is given; give both, or neither")
    if order not in _ORDERS:
        raise UsageError(f"weft: world(): an order {order!r}; there are \"rank\" and \"any\"")
    if size is not None and _number(size, "size") < 1:
        raise UsageError(f"weft: world(): {size} ranks; give 1 or more")
    options = _library.WorldOptions(
        size=ctypes.sizeof(_library.WorldOptions), rank=_number(rank or 0, "rank"), ranks=size or 0, rendezvous=_text(rendezvous, "rendezvous"),
        connect_timeout=_number(connect_timeout or 0, "connect_timeout", float), timeout=_number(timeout or 0, "timeout", float))
    handle = _Pointer()
    lib.must(lib.world_from_environment(options, _byref(handle)))
    world_handle = _Handle(handle, lib.world_free)
    made = _Pointer()
    lib.must(lib.comm_connect(handle, _library.ConnectOptions(size=ctypes.sizeof(_library.ConnectOptions), order=_ORDERS[order]), _byref(made)))
    return Communicator._made(made, world_handle)


def alone() -> Communicator:
    """A communicator of this process alone, beside any other."""
    lib, made = _library.library(), _Pointer()
    lib.must(lib.comm_self(_byref(made)))
    return Communicator._made(made)


def run_as_threads(ranks, body, timeout=None) -> list:
    """Calls body(comm) as so many ranks, each a thread of this process: for tests, and to try something out. Blocks.

    Returns what the bodies returned, by rank. timeout: seconds, default 60. Raises what a body raised first; the other ranks hear of it. `comm` is
    closed when its body returns.
    """
    lib = _library.library()
    results, errors = [None] * max(_number(ranks, "ranks"), 0), []

    def rank_of(handle, _):
        comm = Communicator._made(_Pointer(handle), is_lent=True)
        try:
            results[comm.rank] = body(comm)
            for work in tuple(comm._pending):
                work.wait()
            return 0
        except BaseException as error:  # it must not pass through C: the caller gets it below
            errors.append(error)
            comm._tell(error)
            return status_of(getattr(error, "kind", "system")) if isinstance(error, Error) else status_of("system")
        finally:
            comm.close()

    options = _library.ThreadsOptions(size=ctypes.sizeof(_library.ThreadsOptions), timeout=_number(timeout or 0, "timeout", float))
    status = lib.comm_run_as_threads(len(results), options, _library.Body(rank_of), None)
    if errors:
        raise errors[0]
    lib.must(status)
    return results


def version() -> str:
    """The version of libweft.so."""
    return _library.library().version().decode()


def built_with() -> str:
    """What it was built with and without, in one line."""
    return _library.library().built_with().decode()


def run(main) -> None:
    """Ends the program with what main() returns. An Error of weft becomes one line on standard error, and its status: 42, 70 or 75, which weft-launch
    understands; any other exception is shown as always."""
    try:
        sys.exit(main())
    except Error as error:
        _tell_all(error)
        print(error, file=sys.stderr, flush=True)
        sys.exit(error.exit_code)


def _tell_all(error):
    for comm in tuple(_open):
        if comm._forks == _forks and comm._handle is not None:
            comm._tell(error)


@atexit.register
def _at_exit():
    """Frees what is open: an MPI that weft began is finalized with the last of it. What is under way stays; libweft tells the other ranks."""
    error = getattr(sys, "last_value", None)
    if error is not None and not hasattr(sys, "ps1"):
        _tell_all(error)
    for comm in tuple(_open):
        if comm._forks != _forks or comm._handle is None:
            continue
        if any(not work.done() for work in tuple(comm._pending)):
            _kept.append(comm)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(comm))  # its memory is there as long as the process
        else:
            comm.close()


def _in_child():
    global _forks
    _forks += 1
    for comm in tuple(_open):
        comm._lock = threading.RLock()
        comm._stream = None  # its thread stayed in the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

__all__ = ["Communicator", "Group", "Work", "alone", "built_with", "run", "run_as_threads", "version", "world"]
