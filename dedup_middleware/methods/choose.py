"""The method that the options name."""

from __future__ import annotations

from dedup_middleware.base.options import PRESETS, SKETCH_BITS, Options
from dedup_middleware.methods import minhash
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content import Content
from dedup_middleware.methods.content_evidence import ContentByEvidence
from dedup_middleware.methods.literature.base import BySignature
from dedup_middleware.methods.literature.registry import literature
from dedup_middleware.methods.simhash import SimHashMethod


def choose_method(options: Options) -> Method:
    """The method named by ``DEDUP_METHOD``, with its thresholds.

    :raises OptionsError: ``DEDUP_METHOD_PARAMETERS`` can't be used
    """
    sketch_bits = max(1, SKETCH_BITS // options.num_perm)
    signed = literature(options)
    if signed is not None:
        return BySignature(
            signed, options.scan_distance, options.min_features, sketch_bits=sketch_bits
        )
    if options.method == SimHashMethod.name:
        return SimHashMethod(
            distance=options.distance,
            min_features=options.min_features,
        )
    if options.method == minhash.MinHashMethod.name:
        return minhash.MinHashMethod(
            threshold=minhash.THRESHOLD if options.threshold is None else options.threshold,
            min_features=options.min_features,
            sketch_bits=sketch_bits,
        )
    kind = ContentByEvidence if options.evidence == "filter" else Content
    return kind(
        threshold=PRESETS[options.preset] if options.threshold is None else options.threshold,
        scan_distance=options.scan_distance,
        min_features=options.min_features,
        sketch_bits=sketch_bits,
        measure=options.measure,
    )
