"""Types of the arguments and results of kernels, under numba's names but without numba.

Where kernels come compiled the compiler is not loaded: it takes 100 MB and a third of a second.
"""

from __future__ import annotations

from typing import Any, Final, cast

import attrs
import numpy as np


class _Type:
    """What a kernel takes or returns."""

    def __call__(self, *arguments: KernelType) -> Signature:
        """The signature of a kernel that returns this."""
        return Signature(cast("KernelType", self), arguments)


@attrs.frozen
class Scalar(_Type):
    """A number, a truth value, or nothing.

    :param name: numba's name of it
    """

    name: str

    def to_numba(self) -> Any:
        """The same as numba has it."""
        from numba import types

        return getattr(types, self.name)


@attrs.frozen
class Array(_Type):
    """A NumPy array in C order.

    :param dtype: of its elements: a scalar, or fields of a record
    :param readonly: a kernel does not write to it; arrays that can be written to fit as well
    """

    dtype: Scalar | np.dtype[np.void]
    ndim: int
    layout: str = "C"
    readonly: bool = False

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """Type of the elements as NumPy has it."""
        return np.dtype(self.dtype.name if isinstance(self.dtype, Scalar) else self.dtype)

    def to_numba(self) -> Any:
        """The same as numba has it."""
        from numba import from_dtype, types

        is_number = isinstance(self.dtype, Scalar)
        dtype = self.dtype.to_numba() if is_number else from_dtype(self.dtype)  # type: ignore[union-attr]
        return types.Array(dtype, self.ndim, self.layout, readonly=self.readonly)


@attrs.frozen
class Tuple(_Type):
    """Several values."""

    types: tuple[KernelType, ...]

    def to_numba(self) -> Any:
        """The same as numba has it."""
        from numba import types

        return types.Tuple([one.to_numba() for one in self.types])


@attrs.frozen
class Optional(_Type):
    """A value or None."""

    type: KernelType

    def to_numba(self) -> Any:
        """The same as numba has it."""
        from numba import types

        return types.Optional(self.type.to_numba())


KernelType = Scalar | Array | Tuple | Optional


@attrs.frozen
class Signature:
    """What a kernel takes and returns."""

    result: KernelType
    arguments: tuple[KernelType, ...]

    def to_numba(self) -> Any:
        """The same as numba has it."""
        return self.result.to_numba()(*(one.to_numba() for one in self.arguments))


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
