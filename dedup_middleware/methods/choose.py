"""Creates the method that the options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedup_middleware.base.options import OWN_METHODS, PRESETS, SKETCH_BITS, Options
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.baselines import THRESHOLD, MinHashMethod, SimHashMethod
from dedup_middleware.methods.content import Content, ContentByEvidence

if TYPE_CHECKING:
    from dedup_middleware.methods.literature.base import SignatureMethod


def literature_method(options: Options, hash_key: int = 0) -> SignatureMethod | None:
    """Create the method of the literature that the options name; None for one of the package's own.

    :raises OptionsError: ``DEDUP_METHOD_PARAMETERS`` can't be used
    """
    if options.method in OWN_METHODS and not options.method_parameters:
        return None
    # Imported here because it takes a twentieth of the start-up time.
    from dedup_middleware.methods.literature.registry import literature

    return literature(options, hash_key)


def choose_method(options: Options) -> Method:
    """Create the method named by ``DEDUP_METHOD``, with its thresholds.

    :raises OptionsError: ``DEDUP_METHOD_PARAMETERS`` can't be used
    """
    sketch_bits = max(1, SKETCH_BITS // options.num_perm)
    signed = literature_method(options)
    if signed is not None:
        from dedup_middleware.methods.literature.base import BySignature

        return BySignature(
            signed, options.scan_distance, options.min_features, sketch_bits=sketch_bits
        )
    if options.method == SimHashMethod.name:
        return SimHashMethod(distance=options.distance, min_features=options.min_features)
    if options.method == MinHashMethod.name:
        return MinHashMethod(
            threshold=THRESHOLD if options.threshold is None else options.threshold,
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
