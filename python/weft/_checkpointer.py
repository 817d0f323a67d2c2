"""The checkpoints of a training loop."""

import ctypes

from . import _library
from ._communicator import Communicator, _Handle, _number, _text
from ._errors import UsageError
from ._reducer import _layout, _parameters
from ._zero import Zero

_Pointer, _byref = ctypes.c_void_p, ctypes.byref


class Checkpointer:
    """Goes on from the newest checkpoint, saves every so many steps and when asked (SIGUSR1, a file checkpoint-now), and ends when told to.

        saver = weft.Checkpointer(comm, "checkpoints", every=100, run="my model, seed 1")
        step = saver.resume(zero)                            # 0 where there is none
        while step < steps:
            train_one_step()
            step += 1
            if not saver.after_step(step, zero, last=step == steps):
                sys.exit(75)                                 # started again, on any number of ranks, it goes on

    What is saved is a weft.Zero, whose state is written while the next steps run; or parameters that all ranks have alike, with an optimizer of your own:
    a dict of arrays by name, or a list, of one type, which rank 0 copies. Name what the optimizer keeps among them.

    folder: None: nothing is loaded or saved. every: steps; 0: at the end and when asked. run: what must be the same for a training to go on, such as model
    and seed. keep_last: how many checkpoints stay; None: all.

    All calls are collective. One thread at a time uses it.
    """

    def __init__(self, comm: Communicator, folder, every=0, run=None, keep_last=2):
        self._handle = self._saved = None
        lib = self._lib = comm._lib
        if _number(every, "every") < 0:
            raise UsageError(f"weft: Checkpointer: every {every} steps; give 0 or more")
        if keep_last is not None and _number(keep_last, "keep_last") < 1:
            raise UsageError(f"weft: Checkpointer: keep_last={keep_last}; give 1 or more, or None to keep all")
        options = _library.CheckpointerOptions(size=ctypes.sizeof(_library.CheckpointerOptions), folder=_text(folder, "folder"), run=_text(run, "run"),
                                               every=int(every), keep_last=-1 if keep_last is None else int(keep_last))
        made = _Pointer()
        with comm._lock:
            lib.must(lib.checkpointer_create(comm._open_handle("Checkpointer"), options, _byref(made)))
        self._comm, self._handle = comm, _Handle(made, lib.checkpointer_free)

    def resume(self, what) -> int:
        """Loads the newest checkpoint, if there is one, into a Zero, or into arrays. Returns after how many steps it was saved; 0 where there is none.

        Raises UsageError for a checkpoint of another run, or of other parameters; SystemError for one that is damaged.
        """
        handle, steps = self._mine("resume"), ctypes.c_int64(0)
        if isinstance(what, Zero):
            self._lib.must(self._lib.checkpointer_resume_zero(handle, self._of(what, "resume"), what._stream.value, _byref(steps)))
        else:
            layout, values, _held = self._alike(what, True)
            self._lib.must(self._lib.checkpointer_resume(handle, layout.value, values, _byref(steps)))
        return steps.value

    def after_step(self, steps, what, last=False) -> bool:
        """Saves when it is time: every so many steps, when asked, and after the last one. Returns whether to go on: False where a notice to end came; all is
        saved then, and the program ends with status 75.

        steps: done so far, from 1. what: as for resume().
        """
        handle, go_on = self._mine("after_step"), ctypes.c_int(0)
        if isinstance(what, Zero):
            mine = self._of(what, "after_step")
            self._handle.keeps = what._handle  # it is read while the next steps run
            self._lib.must(self._lib.checkpointer_after_step_zero(handle, _number(steps, "steps"), bool(last), mine, what._stream.value, _byref(go_on)))
        else:
            layout, values, _held = self._alike(what, False)
            self._lib.must(self._lib.checkpointer_after_step(handle, _number(steps, "steps"), bool(last), layout.value, values, _byref(go_on)))
        return go_on.value == 1

    def close(self) -> None:
        """Ends it, once what is being saved is on the disk. A second call does nothing."""
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<weft.Checkpointer{'' if self._handle is not None else ', closed'}>"

    def _mine(self, name):
        if self._handle is None:
            raise UsageError(f"weft: {name}: this Checkpointer was closed; use it before close(), or before the end of its `with` block")
        self._comm._open_handle(f"Checkpointer.{name}")
        return self._handle.value

    @staticmethod
    def _of(zero, name):
        if not zero._has_optimizer:
            raise UsageError(f"weft: {name}: this Zero has no optimizer, whose state is saved with it; call its set_optimizer() before")
        return zero._mine(f"Checkpointer.{name}")

    def _alike(self, given, write):
        found = _parameters(given, write)
        return _layout(self._lib, found), (_Pointer * len(found))(*[of_one[0] for _, of_one, _ in found]), found
