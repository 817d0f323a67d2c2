"""Memory of the caller: anything with the buffer protocol, `__array_interface__` or, to be read, `__dlpack__`, on the host.

Each gives (address, elements, type, what holds it). A memoryview holds a buffer: a bytearray cannot be resized meanwhile.
"""

import ctypes

from ._errors import UsageError

TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3, "int32": 4, "int64": 5, "uint8": 6, "int8": 7, "int16": 8, "uint32": 9, "uint64": 10}
NAMES = {number: name for name, number in TYPES.items()}
SIZES = {number: int("".join(filter(str.isdigit, name))) // 8 for name, number in TYPES.items()}
_C_TYPES = {0: ctypes.c_float, 1: ctypes.c_double, 2: ctypes.c_uint16, 3: ctypes.c_uint16, 4: ctypes.c_int32, 5: ctypes.c_int64, 6: ctypes.c_uint8,
            7: ctypes.c_int8, 8: ctypes.c_int16, 9: ctypes.c_uint32, 10: ctypes.c_uint64}


def _formats():
    found = {}
    for sizes, prefixes in ((lambda c: {"b": 1, "h": 2, "i": 4, "l": ctypes.sizeof(ctypes.c_long), "q": 8}[c], ("", "@")),
                            (lambda c: {"b": 1, "h": 2, "i": 4, "l": 4, "q": 8}[c], ("=", "<"))):
        for prefix in prefixes:
            found.update({prefix + "f": 0, prefix + "d": 1, prefix + "e": 2})
            for char in "bhilq":
                found[prefix + char] = TYPES[f"int{8 * sizes(char)}"]
                if char != "h":  # weft has no unsigned integers of 16 bits
                    found[prefix + char.upper()] = TYPES[f"uint{8 * sizes(char)}"]
    return found


_FORMATS = _formats()  # of machines whose numbers begin with the low byte, which others _library refuses
_TYPESTRS = {f"<{kind}{size}": TYPES[f"{word}{8 * size}"] for kind, word, sizes in
             (("f", "float", (2, 4, 8)), ("i", "int", (2, 4, 8)), ("u", "uint", (4, 8))) for size in sizes}
_TYPESTRS.update({"|i1": TYPES["int8"], "|u1": TYPES["uint8"], "<i1": TYPES["int8"], "<u1": TYPES["uint8"]})
_DLPACK_TYPES = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (1, 32): "uint32", (1, 64): "uint64",
                 (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16"}

_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_release_buffer = ctypes.pythonapi.PyBuffer_Release


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int], ctypes.c_int
_release_buffer.argtypes, _release_buffer.restype = [ctypes.POINTER(_PyBuffer)], None
_PyBUF_SIMPLE = 0


class bfloat16:
    """Memory of 16-bit elements whose bits are bfloat16, for types that the buffer protocol has no word for: weft.bfloat16(numpy_array_of_uint16)."""

    __slots__ = ("memory",)

    def __init__(self, memory):
        self.memory = memory


def refuse(name, problem, advice):
    raise UsageError(f"weft: `{name}` {problem}; {advice}") from None


def type_of(word):
    """The number of a type. Raises UsageError for a word that is none."""
    if isinstance(word, str) and word in TYPES:
        return TYPES[word]
    raise UsageError(f"weft: a type {word!r}; there are {', '.join(TYPES)}")


def memory(given, write, name):
    """(address, elements, type, holder) of what `given` has. Raises UsageError in one sentence about the argument `name`."""
    try:
        view = memoryview(given)
    except (TypeError, ValueError, BufferError):  # not a buffer, or NumPy's of a type that buffers have no word for
        return _without_buffer(given, write, name)
    kind = _FORMATS.get(view.format)
    if kind is None:
        _refuse_format(given, view, name)
    return _of_view(view, kind, write, name)


def _of_view(view, kind, write, name):
    if not view.c_contiguous:
        refuse(name, "is not contiguous: its elements do not follow each other in memory, row by row",
               "give a copy that is, such as numpy.ascontiguousarray()")
    count = view.nbytes // view.itemsize
    if write and view.readonly:
        refuse(name, "is read-only, and weft writes into it", "give memory that can be written, such as a bytearray, an array.array or a copy")
    if count == 0:
        return None, 0, kind, view
    if not view.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(view)), count, kind, view
    buffer = _PyBuffer()
    _get_buffer(view, buffer, _PyBUF_SIMPLE)
    address = buffer.buf
    _release_buffer(buffer)  # `view` holds it
    return address, count, kind, view


def _refuse_format(given, view, name):
    letter = view.format.lstrip("@=<>!")
    if view.format[0] in ">!" and ("<" + letter in _FORMATS):
        refuse(name, "has the byte order of another machine", "give it in this one's, such as array.astype(array.dtype.newbyteorder('='))")
    if letter == "?":
        refuse(name, "is of booleans, which weft has no type for", "give them as bytes, such as array.view(numpy.uint8)")
    if letter == "H":
        refuse(name, "is of unsigned integers of 16 bits, which weft has no type for",
               "give another type, or weft.bfloat16(...) of it where the bits are bfloat16")
    words = getattr(getattr(given, "dtype", None), "name", None) or f"the format {view.format!r}"
    refuse(name, f"is of {words}, which weft has no type for", f"there are {', '.join(TYPES)}")


def _without_buffer(given, write, name):
    if isinstance(given, bfloat16):
        try:
            view = memoryview(given.memory)
        except (TypeError, ValueError, BufferError):
            refuse(name, f"is weft.bfloat16 of {type(given.memory).__name__}, which is no memory", "give it memory of 16-bit elements")
        if view.itemsize != 2:
            refuse(name, f"is weft.bfloat16 of elements of {view.itemsize} bytes", "give it memory of 16-bit elements")
        return _of_view(view, TYPES["bfloat16"], write, name)
    if given is None:
        refuse(name, "is None", "give memory: a NumPy array, an array.array, a bytearray, a memoryview")
    interface = getattr(given, "__array_interface__", None)
    if interface is not None:
        return _of_interface(given, interface, write, name)
    if hasattr(given, "__dlpack__"):
        return _of_dlpack(given, write, name)
    return refuse(name, f"is of type {type(given).__name__}, which shows no memory",
                  "give what has the buffer protocol, __array_interface__ or __dlpack__: a NumPy array, an array.array, a bytearray, a memoryview")


def _of_interface(given, interface, write, name):
    word, shape = interface["typestr"], interface["shape"]
    type_name = getattr(getattr(given, "dtype", None), "name", word)
    if type_name == "bfloat16" and word[1:] in ("V2", "f2"):  # of ml_dtypes, as JAX has it
        kind = TYPES["bfloat16"]
    elif word in _TYPESTRS:
        kind = _TYPESTRS[word]
    elif word.startswith(">") and "<" + word[1:] in _TYPESTRS:
        refuse(name, "has the byte order of another machine", "give it in this one's, such as array.astype(array.dtype.newbyteorder('='))")
    else:
        refuse(name, f"is of {type_name}, which weft has no type for", f"there are {', '.join(TYPES)}")
    data = interface.get("data")
    if not isinstance(data, tuple):
        refuse(name, f"is of type {type(given).__name__}, whose __array_interface__ has no address", "give a NumPy array of it")
    strides, expected, count = interface.get("strides"), [], 1
    for extent in reversed(shape):
        expected.insert(0, count * SIZES[kind])
        count *= extent
    if strides is not None and count > 1 and any(s != e for s, e, extent in zip(strides, expected, shape) if extent > 1):
        refuse(name, "is not contiguous: its elements do not follow each other in memory, row by row",
               "give a copy that is, such as numpy.ascontiguousarray()")
    if write and data[1]:
        refuse(name, "is read-only, and weft writes into it", "give memory that can be written, such as a copy")
    return data[0] if count else None, count, kind, (given, interface)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_ON_HOST = (1, 3)  # plain memory, and memory that is pinned for a CUDA device


def _of_dlpack(given, write, name):
    device = given.__dlpack_device__()
    if int(device[0]) not in _ON_HOST:
        refuse(name, f"lies on a device ({device[0]}, {device[1]}), not on the host", "give a copy on the host; weft.torch takes tensors of CUDA devices")
    if write:
        refuse(name, f"is of type {type(given).__name__}, of which weft reads only, and here it writes",
               "give memory that can be written, such as a NumPy array, or the tensor's numpy()")
    try:
        capsule = given.__dlpack__()  # it is not consumed: what is in it goes with it
        tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    except Exception as error:  # of another library: whatever it raises says why
        refuse(name, f"cannot be shown by {type(given).__name__}.__dlpack__(): {error}", "give a NumPy array of it")
    kind = TYPES.get(_DLPACK_TYPES.get((tensor.code, tensor.bits), "")) if tensor.lanes == 1 else None
    if kind is None:
        refuse(name, f"is of {getattr(given, 'dtype', 'a type')}, which weft has no type for", f"there are {', '.join(TYPES)}")
    count = 1
    for dimension in range(tensor.ndim - 1, -1, -1):
        extent = tensor.shape[dimension]
        if tensor.strides and extent > 1 and tensor.strides[dimension] != count:
            refuse(name, "is not contiguous: its elements do not follow each other in memory, row by row", "give a copy that is")
        count *= extent
    return (tensor.data or 0) + tensor.byte_offset if count else None, count, kind, capsule


def array_at(address, count, kind, owner):
    """A ctypes array of `count` elements, which keeps `owner` as long as it, or what was made of it, lives."""
    made = type("Memory", (_C_TYPES[kind] * count,), {"__doc__": "Memory of weft."}).from_address(address)
    made.owner = owner
    return made
