"""The method that the options ask for."""

from __future__ import annotations

from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content import Content
from dedup_middleware.methods.simhash import SimHashMethod
from dedup_middleware.options import SKETCH_BITS, Options


def choose_method(options: Options) -> Method:
    """The method named by ``DEDUP_METHOD``, with its thresholds."""
    sketch_bits = max(1, SKETCH_BITS // options.num_perm)
    if options.method == SimHashMethod.name:
        return SimHashMethod(
            distance=options.distance,
            min_features=options.min_features,
            sketch_bits=sketch_bits,
        )
    return Content(
        threshold=options.threshold,
        scan_distance=options.scan_distance,
        min_features=options.min_features,
        sketch_bits=sketch_bits,
    )
