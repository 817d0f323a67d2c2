"""What weft raises: one class for each kind of error of weft.h, and the status that a program should end with."""

import builtins

_STATUS_KINDS = {1: "usage", 2: "mismatch", 3: "timeout", 4: "peer lost", 5: "system", 6: "internal"}
_EXIT_CODES = {"usage": 42, "mismatch": 42, "timeout": 75, "peer lost": 75, "system": 70, "internal": 70}


class Error(RuntimeError):
    """An error of weft. Its text is one line: what, on which rank, in which operation, with which values, and what to do."""

    #: "usage", "mismatch", "timeout", "peer lost", "system" or "internal".
    kind = "internal"

    @property
    def exit_code(self) -> int:
        """What a program ends with: 42 (do not start it again), 75 (start it again) or 70 (weft or the system failed)."""
        return _EXIT_CODES[self.kind]


class UsageError(Error, ValueError):
    """A wrong argument, option, variable or order of calls."""

    kind = "usage"


class MismatchError(Error):
    """Ranks disagree on what they do together."""

    kind = "mismatch"


class TimeoutError(Error, builtins.TimeoutError):  # as asyncio and concurrent.futures have one
    """A deadline passed. The text names who is missing."""

    kind = "timeout"


class PeerLostError(Error):
    """Another rank died, failed or left."""

    kind = "peer lost"


class SystemError(Error):
    """The operating system or a vendor's library refused."""

    kind = "system"


class InternalError(Error):
    """A defect of weft."""

    kind = "internal"


_CLASSES = {cls.kind: cls for cls in (UsageError, MismatchError, TimeoutError, PeerLostError, SystemError, InternalError)}


def error_of(status: int, message: str) -> Error:
    """The exception for a status of weft.h."""
    return _CLASSES[_STATUS_KINDS.get(status, "internal")](message)


def status_of(kind: str) -> int:
    """The status of a kind. Raises UsageError for a word that is none."""
    for status, word in _STATUS_KINDS.items():
        if word == kind:
            return status
    raise UsageError(f"weft: a kind of error {kind!r}; there are {', '.join(_STATUS_KINDS.values())}")
