"""States that hold arrays: how they become JSON and come back, and how they follow the rows.

numpy is imported where it is used: what reads a single document must not need it.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def enc_hook(value: object) -> object:
    """For msgspec: an array as its type, shape and packed bytes. Raises NotImplementedError."""
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"a state cannot hold a {type(value).__name__}")
    packed = zlib.compress(np.ascontiguousarray(value).tobytes(), 1)
    return {
        "dtype": value.dtype.str,
        "shape": list(value.shape),
        "data": b64encode(packed).decode("ascii"),
    }


def dec_hook(wanted: Any, value: object) -> object:
    """For msgspec: the array that ``enc_hook`` packed. Raises NotImplementedError."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return value
    if getattr(wanted, "__origin__", wanted) is not np.ndarray or not isinstance(value, Mapping):
        raise NotImplementedError(f"a state cannot hold a {wanted}")
    data = zlib.decompress(b64decode(value["data"]))
    return np.frombuffer(data, np.dtype(value["dtype"])).reshape(value["shape"]).copy()


def follow(old: tuple[str, ...], new: tuple[str, ...]) -> "NDArray[Any] | None":
    """Where each of the ``new`` rows was among the ``old``, -1 if it is new; None if all the same.

    ``carried`` moves an array of a state by it.
    """
    import numpy as np

    if old is new or old == new:
        return None
    if new[: len(old)] == old:
        index = np.full(len(new), -1, np.intp)
        index[: len(old)] = np.arange(len(old))
        return index
    where = {unit: row for row, unit in enumerate(old)}
    return np.array([where.get(unit, -1) for unit in new], np.intp)


def carried(array: "NDArray[Any]", index: "NDArray[Any] | None", fill: Any) -> "NDArray[Any]":
    """An array whose first axis is rows, moved by ``follow``'s index; new rows hold ``fill``."""
    import numpy as np

    if index is None:
        return array
    moved = np.full((len(index), *array.shape[1:]), fill, array.dtype)
    known = index >= 0
    moved[known] = array[index[known]]
    return moved
