"""Types of the arguments and results of kernels, under numba's names but without numba.

If kernels come compiled, numba is not loaded: it takes 100 MB and a third of a second.
"""

from __future__ import annotations

from typing import Any, Final, cast

import attrs
import numpy as np


class _Type:
    """Base of the types that a kernel takes or returns."""

    def __call__(self, *arguments: KernelType) -> Signature:
        """The signature of a kernel with this result."""
        return Signature(cast("KernelType", self), arguments)


@attrs.frozen
class Scalar(_Type):
    """A number, a truth value, or nothing, by numba's name of the type."""

    name: str


@attrs.frozen
class Array(_Type):
    """A NumPy array in C order.

    :param dtype: type of the elements: a scalar, or a record
    :param readonly: the kernel does not write to it; writable arrays fit as well
    """

    dtype: Scalar | np.dtype[np.void]
    ndim: int
    readonly: bool = False

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return np.dtype(self.dtype.name if isinstance(self.dtype, Scalar) else self.dtype)


@attrs.frozen
class Tuple(_Type):
    """Several values."""

    types: tuple[KernelType, ...]


@attrs.frozen
class Optional(_Type):
    """A value or None."""

    type: KernelType


KernelType = Scalar | Array | Tuple | Optional


@attrs.frozen
class Signature:
    """Types of the arguments and the result of a kernel."""

    result: KernelType
    arguments: tuple[KernelType, ...]

    def to_numba(self) -> Any:
        """Convert the signature to numba's."""
        return _to_numba(self.result)(*map(_to_numba, self.arguments))


def _to_numba(one: KernelType) -> Any:
    from numba import from_dtype, types

    if isinstance(one, Scalar):
        return getattr(types, one.name)
    if isinstance(one, Tuple):
        return types.Tuple(list(map(_to_numba, one.types)))
    if isinstance(one, Optional):
        return types.Optional(_to_numba(one.type))
    dtype = _to_numba(one.dtype) if isinstance(one.dtype, Scalar) else from_dtype(one.dtype)
    return types.Array(dtype, one.ndim, "C", readonly=one.readonly)


void: Final = Scalar("void")
boolean: Final = Scalar("boolean")
uint8: Final = Scalar("uint8")
uint16: Final = Scalar("uint16")
uint32: Final = Scalar("uint32")
uint64: Final = Scalar("uint64")
int32: Final = Scalar("int32")
int64: Final = Scalar("int64")
float64: Final = Scalar("float64")

U8: Final = Array(uint8, 1)
U32: Final = Array(uint32, 1)
U64: Final = Array(uint64, 1)
U64_2: Final = Array(uint64, 2)
I32: Final = Array(int32, 1)
I32_2: Final = Array(int32, 2)
I64: Final = Array(int64, 1)
I64_2: Final = Array(int64, 2)
F64: Final = Array(float64, 1)
# A read-only signature takes writable arrays too, never the other way round.
R8: Final = Array(uint8, 1, readonly=True)
R8_2: Final = Array(uint8, 2, readonly=True)
R32: Final = Array(uint32, 1, readonly=True)
R32_2: Final = Array(uint32, 2, readonly=True)
R64: Final = Array(uint64, 1, readonly=True)
RI64: Final = Array(int64, 1, readonly=True)
RI64_2: Final = Array(int64, 2, readonly=True)
RF64: Final = Array(float64, 1, readonly=True)
R64_2: Final = Array(uint64, 2, readonly=True)
