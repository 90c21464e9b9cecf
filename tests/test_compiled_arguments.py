"""Arguments of compiled kernels: what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dedup_middleware.base import compiled
from dedup_middleware.base import kerneltypes as types

RECORD = np.dtype([("size", "<u4"), ("key", "<u8")])
KERNEL = compiled.checked(
    lambda *arguments: arguments,
    types.void(types.U32, types.int64, types.R64_2, types.Array(RECORD, 1, readonly=True)),
)


def arrays() -> list[Any]:
    """Arguments that fit."""
    return [np.zeros(3, np.uint32), 5, np.zeros((2, 2), np.uint64), np.zeros(2, RECORD)]


def test_arguments_that_fit() -> None:
    """Arguments that fit are passed on unchanged; a read-only array fits where nothing is
    written."""
    fit = arrays()
    fit[2].flags.writeable = fit[3].flags.writeable = False
    assert all(one is other for one, other in zip(KERNEL(*fit), fit, strict=True))


@pytest.mark.parametrize(
    ("place", "other"),
    [
        (0, np.zeros(3, np.int32)),
        (0, np.zeros(3, ">u4")),
        (0, np.zeros((3, 1), np.uint32)),
        (0, np.zeros(6, np.uint32)[::2]),
        (0, np.frombuffer(bytes(12), np.uint32)),
        (0, [1, 2]),
        (0, None),
        (2, np.zeros((2, 3), np.uint64).T),
        (3, np.zeros(2, [("size", "<u4"), ("key", "<i8")])),
    ],
)
def test_arguments_that_do_not(place: int, other: Any) -> None:
    """Another type, byte order, shape or layout, a read-only array to be written: refused."""
    wrong = arrays()
    wrong[place] = other
    with pytest.raises(TypeError, match=f"argument {place} must be an array of"):
        KERNEL(*wrong)


def test_missing_arguments() -> None:
    """A call with too few is refused as well."""
    with pytest.raises(TypeError, match="argument 2 must be"):
        KERNEL(*arrays()[:2])
