"""Arrays as the kernels need them, or an error that says what to pass instead."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_S = TypeVar("_S", bound=np.generic)


def vector(values: NDArray[_S], dtype: type[_S], name: str) -> NDArray[_S]:
    """The same values as a contiguous, aligned array of one dimension.

    Nothing is copied when the array already is one; read-only arrays stay as they are.

    :raises TypeError: not an array, or of another dtype
    :raises ValueError: not of one dimension
    """
    _check_type(values, dtype, name)
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {values.shape}")
    return _contiguous(values)


def count(value: int | np.integer[Any], name: str, low: int, high: int) -> int:
    """An integer within its bounds, both included.

    :raises TypeError: not an integer
    :raises ValueError: out of bounds
    """
    if type(value) is not int:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
        value = int(value)
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in {low}..{high}, got {value}")
    return value


def _check_type(values: object, dtype: type[np.generic], name: str) -> None:
    wanted = np.dtype(dtype)
    if not isinstance(values, np.ndarray):
        raise TypeError(
            f"{name} must be a NumPy array of {wanted}, got {type(values).__name__}; "
            f"use np.asarray(..., dtype=np.{wanted})"
        )
    if values.dtype != wanted:
        raise TypeError(
            f"{name} must be of dtype {wanted}, got {values.dtype}; use .astype(np.{wanted})"
        )


def _contiguous(values: NDArray[_S]) -> NDArray[_S]:
    flags = values.flags
    if flags.c_contiguous and flags.aligned and type(values) is np.ndarray:
        return values
    # np.require would keep a subclass; the kernels know plain arrays only.
    return np.array(values, order="C", copy=True, subok=False)
