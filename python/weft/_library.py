"""libweft.so, found and declared. Nothing is loaded before the first call.

It is looked for beside this package, and then where the system looks (LD_LIBRARY_PATH, ldconfig). One that lies beside the package and cannot be
loaded is an error: no other is taken in its place.
"""

import ctypes
import os
import pathlib
import re
import sys
import threading

from ._errors import error_of

NAME = "libweft.so.0.1"  # its functions have the version WEFT_C_0.1

HOST = -1
NO_DEADLINE = -1.0
NO_COLOR = -(2**31)

Int, Int32, Int64, Double, Size, Text, Pointer = (
    ctypes.c_int, ctypes.c_int32, ctypes.c_int64, ctypes.c_double, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p)
Out = ctypes.POINTER(Pointer)
Body = ctypes.CFUNCTYPE(Int, Pointer, Pointer)
Each = ctypes.CFUNCTYPE(None, Pointer)
Sample = ctypes.CFUNCTYPE(None, Pointer, Text, Text, Double)


class WorldOptions(ctypes.Structure):
    _fields_ = [("size", Size), ("rank", Int), ("ranks", Int), ("rendezvous", Text), ("device", Text), ("connect_timeout", Double), ("timeout", Double)]


class ConnectOptions(ctypes.Structure):
    _fields_ = [("size", Size), ("order", Int)]


class ThreadsOptions(ctypes.Structure):
    _fields_ = [("size", Size), ("timeout", Double), ("private_memory", Int)]


class ReducerOptions(ctypes.Structure):
    _fields_ = [("size", Size), ("hook", Text), ("hook_start_step", Int64), ("bucket_bytes", Size), ("alone_bytes", Size), ("order", ctypes.POINTER(Int)),
                ("order_count", Int), ("unused", Int), ("uneven", Int), ("count_bad_values", Int), ("micro_batches", Int64)]


class StepAccount(ctypes.Structure):
    _fields_ = [("step", ctypes.c_uint64), ("seconds", Double), ("exposed_seconds", Double), ("link_seconds", Double), ("overlap_seconds", Double),
                ("slowest_seconds", Double), ("skew_seconds", Double), ("late_seconds", Double), ("slowest", Int)]


class BadValues(ctypes.Structure):
    _fields_ = [("step", ctypes.c_uint64), ("nans", Int64), ("infinities", Int64), ("rank", Int), ("first", Int)]


class ZeroOptions(ctypes.Structure):
    _fields_ = [("size", Size), ("stage", Int), ("hook", Text), ("hook_start_step", Int64), ("bucket_bytes", Size), ("bucket_ring_bytes", Size),
                ("units", ctypes.POINTER(Int)), ("frozen", ctypes.POINTER(Int)), ("units_count", Int), ("frozen_count", Int), ("unused", Int),
                ("count_bad_values", Int), ("micro_batches", Int64), ("shard_ranks", Int), ("held_units", Int), ("prefetch_bytes", Size),
                ("whole_below", Int64), ("offload_parameters", Int), ("offload_gradients", Int), ("initial_values", Int)]


class OptimizerOptions(ctypes.Structure):
    _fields_ = [("size", Size), ("rule", Int), ("decay_matrices", Int), ("learning_rate", Double), ("beta1", Double), ("beta2", Double), ("epsilon", Double),
                ("momentum", Double), ("weight_decay", Double), ("trust_coefficient", Double), ("clip_norm", Double), ("loss_scale", Int),
                ("skip_non_finite", Int), ("split_masters", Int), ("offload_share", Double)]


class StepResult(ctypes.Structure):
    _fields_ = [("size", Size), ("skipped", Int), ("has_norm", Int), ("norm", Double)]


class CheckpointerOptions(ctypes.Structure):
    _fields_ = [("size", Size), ("folder", Text), ("run", Text), ("every", Int64), ("keep_last", Int)]


#: name: (what it returns, its arguments). tests/python compares them with weft.h.
FUNCTIONS = {
    "weft_error": (Text, []),
    "weft_last_status": (Int, []),
    "weft_version": (Text, []),
    "weft_built_with": (Text, []),
    "weft_world_from_environment": (Int, [ctypes.POINTER(WorldOptions), Out]),
    "weft_world_free": (Int, [Pointer]),
    "weft_comm_connect": (Int, [Pointer, ctypes.POINTER(ConnectOptions), Out]),
    "weft_comm_self": (Int, [Out]),
    "weft_comm_split": (Int, [Pointer, Int32, Int, Out]),
    "weft_comm_free": (Int, [Pointer]),
    "weft_comm_run_as_threads": (Int, [Int, ctypes.POINTER(ThreadsOptions), Body, Pointer]),
    "weft_comm_rank": (Int, [Pointer]),
    "weft_comm_size": (Int, [Pointer]),
    "weft_comm_device": (Int, [Pointer]),
    "weft_comm_backend": (Text, [Pointer]),
    "weft_comm_nodes": (Int, [Pointer]),
    "weft_comm_node_of": (Int, [Pointer, Int]),
    "weft_comm_timeout": (Double, [Pointer]),
    "weft_comm_set_timeout": (Int, [Pointer, Double]),
    "weft_comm_slow_after": (Int, [Pointer, Double]),
    "weft_comm_wire_bytes": (Int64, [Pointer]),
    "weft_comm_network_bytes": (Int64, [Pointer]),
    "weft_comm_explain": (Int64, [Pointer, Int, Int, Int64, Int, Text, Size]),
    "weft_comm_give_up": (Int, [Pointer, Int, Text]),
    "weft_comm_all_reduce": (Int, [Pointer, Pointer, Pointer, Int64, Int, Int, Pointer, Out]),
    "weft_comm_reduce_scatter": (Int, [Pointer, Pointer, Pointer, Int64, Int, Int, Pointer, Out]),
    "weft_comm_all_gather": (Int, [Pointer, Pointer, Pointer, Int64, Int, Pointer, Out]),
    "weft_comm_broadcast": (Int, [Pointer, Pointer, Int64, Int, Int, Pointer, Out]),
    "weft_comm_reduce": (Int, [Pointer, Pointer, Pointer, Int64, Int, Int, Int, Pointer, Out]),
    "weft_comm_all_to_all": (Int, [Pointer, Pointer, Pointer, Int64, Int, Pointer, Out]),
    "weft_comm_barrier": (Int, [Pointer, Pointer, Out]),
    "weft_comm_count_step": (Int, [Pointer, Double]),
    "weft_comm_metrics": (Int, [Pointer, Sample, Pointer]),
    "weft_group_create": (Int, [Pointer, Int, Out]),
    "weft_group_send": (Int, [Pointer, Pointer, Int64, Int, Int, ctypes.c_uint32]),
    "weft_group_receive": (Int, [Pointer, Pointer, Int64, Int, Int, ctypes.c_uint32]),
    "weft_group_receive_any": (Int, [Pointer, Pointer, Int64, Int, ctypes.c_uint32]),
    "weft_group_start": (Int, [Pointer, Pointer, Out]),
    "weft_group_free": (Int, [Pointer]),
    "weft_work_done": (Int, [Pointer]),
    "weft_work_wait": (Int, [Pointer, Double]),
    "weft_work_source": (Int, [Pointer, Size]),
    "weft_work_free": (Int, [Pointer]),
    "weft_stream_create": (Int, [Int, Int, Out]),
    "weft_stream_progress": (Int, [Pointer, Out]),
    "weft_stream_free": (Int, [Pointer]),
    "weft_buffer_create": (Int, [Pointer, Int, Int64, Out]),
    "weft_buffer_data": (Pointer, [Pointer]),
    "weft_buffer_free": (Int, [Pointer]),
    "weft_stream_poll": (Int, [Pointer]),
    "weft_stream_synchronize": (Int, [Pointer, Double]),
    "weft_layout_create": (Int, [Int, Out]),
    "weft_layout_add": (Int, [Pointer, Text, ctypes.POINTER(Int64), Int, Pointer]),
    "weft_layout_free": (Int, [Pointer]),
    "weft_sync_initial_values": (Int, [Pointer, Pointer, Out, Int, Int]),
    "weft_reducer_create": (Int, [Pointer, Pointer, ctypes.POINTER(ReducerOptions), Out]),
    "weft_reducer_gradient": (Pointer, [Pointer, Int]),
    "weft_reducer_begin_step": (Int, [Pointer, Int]),
    "weft_reducer_accumulating": (Int, [Pointer]),
    "weft_reducer_ready": (Int, [Pointer, Int, Pointer]),
    "weft_reducer_ready_from": (Int, [Pointer, Int, Pointer, Pointer]),
    "weft_reducer_poll": (Int, [Pointer]),
    "weft_reducer_finish_step": (Int, [Pointer, Pointer]),
    "weft_reducer_join": (Int, [Pointer, Pointer, Each, Pointer]),
    "weft_reducer_used": (Int, [Pointer, Int]),
    "weft_reducer_bad_values": (Int, [Pointer, ctypes.POINTER(BadValues), Size, Int]),
    "weft_reducer_account": (Int, [Pointer, ctypes.POINTER(StepAccount), Size, Int]),
    "weft_reducer_exposed_seconds": (Double, [Pointer]),
    "weft_reducer_held_bytes": (Int64, [Pointer]),
    "weft_reducer_free": (Int, [Pointer]),
    "weft_optimizer_defaults": (Int, [Int, ctypes.POINTER(OptimizerOptions)]),
    "weft_zero_create": (Int, [Pointer, Pointer, ctypes.POINTER(ZeroOptions), Out]),
    "weft_zero_load": (Int, [Pointer, Int, Pointer, Int]),
    "weft_zero_set_optimizer": (Int, [Pointer, ctypes.POINTER(OptimizerOptions)]),
    "weft_zero_whole": (Int, [Pointer, Int, Pointer]),
    "weft_zero_units": (Int, [Pointer]),
    "weft_zero_unit_of": (Int, [Pointer, Int]),
    "weft_zero_gather": (Int, [Pointer, Int, Pointer]),
    "weft_zero_release": (Int, [Pointer, Int]),
    "weft_zero_parameter": (Pointer, [Pointer, Int]),
    "weft_zero_begin_step": (Int, [Pointer, Int]),
    "weft_zero_accumulating": (Int, [Pointer]),
    "weft_zero_gradient": (Pointer, [Pointer, Int, Pointer]),
    "weft_zero_ready": (Int, [Pointer, Int, Pointer]),
    "weft_zero_poll": (Int, [Pointer]),
    "weft_zero_finish_step": (Int, [Pointer, Pointer]),
    "weft_zero_step": (Int, [Pointer, Pointer, Double, ctypes.POINTER(StepResult)]),
    "weft_zero_loss_scale": (Double, [Pointer]),
    "weft_zero_steps": (Int64, [Pointer]),
    "weft_zero_exposed_seconds": (Double, [Pointer]),
    "weft_zero_held_bytes": (Int64, [Pointer]),
    "weft_zero_free": (Int, [Pointer]),
    "weft_checkpointer_create": (Int, [Pointer, ctypes.POINTER(CheckpointerOptions), Out]),
    "weft_checkpointer_resume_zero": (Int, [Pointer, Pointer, Pointer, ctypes.POINTER(Int64)]),
    "weft_checkpointer_after_step_zero": (Int, [Pointer, Int64, Int, Pointer, Pointer, ctypes.POINTER(Int)]),
    "weft_checkpointer_resume": (Int, [Pointer, Pointer, Out, ctypes.POINTER(Int64)]),
    "weft_checkpointer_after_step": (Int, [Pointer, Int64, Int, Pointer, Out, ctypes.POINTER(Int)]),
    "weft_checkpointer_free": (Int, [Pointer]),
}


_CLASSES = {"zero": "Zero", "reducer": "Reducer", "checkpointer": "Checkpointer"}
_METHODS = {"begin_step": "begin", "finish_step": "finish", "ready_from": "ready", "resume_zero": "resume", "after_step_zero": "after_step"}
_FUNCTION = re.compile(r"\bweft_(zero|reducer|checkpointer)_([a-z_0-9]+)")
_OPTION = re.compile(r"\b[A-Z]\w*Options::(\w+)")


def in_python(words: str) -> str:
    """A message with the names that Python has: of weft_zero_gather and ReducerOptions::unused it makes Zero.gather and `unused`."""
    def method(found):
        name = _METHODS.get(found[2], found[2])
        return _CLASSES[found[1]] + ("" if name in ("create", "load") else f".{name}")

    return _OPTION.sub(r"`\1`", _FUNCTION.sub(method, words).replace("weft: weft_layout_add: ", "weft: "))


class Library:
    """libweft.so, whose functions are attributes without `weft_`."""

    def __init__(self, path: str):
        self.path = path
        loaded = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name[len("weft_"):], function)

    def message(self) -> str:
        """That of this thread's last call that failed."""
        return in_python(self.error().decode(errors="replace"))

    def must(self, status: int) -> None:
        """Raises what a status says that is not WEFT_OK."""
        if status:
            raise error_of(status, self.message())


_loaded = None
_loading = threading.Lock()


def library() -> Library:
    """The library. Raises ImportError, with all places that were tried, where there is none."""
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                _loaded = _load()
    return _loaded


def _load() -> Library:
    if sys.byteorder != "little" or ctypes.sizeof(Pointer) != 8:
        raise ImportError("weft: this machine is not one of 64 bits whose numbers begin with the low byte; weft has no library for it")
    beside = pathlib.Path(__file__).parent / NAME
    path = str(beside) if beside.exists() else NAME
    try:
        return Library(path)
    except (OSError, AttributeError) as error:
        searched = os.environ.get("LD_LIBRARY_PATH") or "is not set"
        tried = f"{beside}" if path != NAME else f"{beside} (not there), then {NAME} where the system looks (LD_LIBRARY_PATH {searched})"
        raise ImportError(f"weft: cannot load its library: {error}; tried {tried}; install weft, or name the folder of {NAME} in LD_LIBRARY_PATH") from None
