"""Creates the methods of the literature by name and settings, and signs documents with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import setting_name, to_bool, to_int
from dedup_middleware.methods.literature.base import MethodInput, SignatureMethod
from dedup_middleware.methods.literature.charset import CharacterSet, MachineCode
from dedup_middleware.methods.literature.csu import Csu
from dedup_middleware.methods.literature.digests import FeatureList, Idf, Md5, Rules, TextProfile
from dedup_middleware.methods.literature.frequencies import background
from dedup_middleware.methods.literature.hashsets import FeatureString, Segments, StructureTree
from dedup_middleware.methods.literature.simhashes import Luogang, RandomProjection, WeightedSimHash
from dedup_middleware.model.fingerprint import Signature
from dedup_middleware.signature.simhash import BITS as SIMHASH_BITS
from dedup_middleware.text.shingle import Shingler

LITERATURE: Final[Mapping[str, type[SignatureMethod]]] = {
    method.name: method
    for method in (
        Csu,
        CharacterSet,
        MachineCode,
        StructureTree,
        FeatureString,
        Md5,
        Luogang,
        WeightedSimHash,
        Segments,
        Rules,
        FeatureList,
        RandomProjection,
        TextProfile,
        Idf,
    )
}
_SETTING: Final = setting_name("method_parameters")
_ASSIGNMENT: Final = re.compile(r"([a-z0-9_]+)=([^\s,]+)")
_CONVERTERS: Final[Mapping[type, Any]] = {bool: to_bool, int: to_int}


def literature(options: Options, hash_key: int = 0) -> SignatureMethod | None:
    """Return the method of the literature that the options name; None if they name another one.

    :param hash_key: key for its hashes; the character set methods have prescribed codes instead
    :raises OptionsError: an unknown parameter, or an unusable value
    """
    if options.method not in LITERATURE:
        if options.method_parameters:
            fix = f"leave it empty, DEDUP_METHOD={options.method} has no parameters"
            raise OptionsError(_SETTING, options.method_parameters, fix)
        return None
    kind = LITERATURE[options.method]
    values = parse_parameters(options.method_parameters, kind)
    if kind.is_simhash:
        values["threshold"] = 1 - options.distance / SIMHASH_BITS
    elif options.threshold is not None:
        values["threshold"] = options.threshold
    if "hash_key" in {field.name for field in _fields(kind)}:
        values["hash_key"] = hash_key
    return kind(**values)


def _fields(kind: Any) -> tuple[attrs.Attribute[Any], ...]:
    return tuple(attrs.fields(kind))


def settable(kind: type[SignatureMethod]) -> dict[str, Any]:
    """Return the parameters that a setting can change, with their defaults."""
    return {
        field.name: field.default
        for field in _fields(kind)
        if field.name not in {"threshold", "hash_key"}
    }


def parse_parameters(text: str, kind: type[SignatureMethod]) -> dict[str, Any]:
    """Parse parameters from ``name=value name=value``.

    :raises OptionsError: malformed text, an unknown name, or a value of the wrong type

    >>> parse_parameters("rule=R1, keyword_count=12", Rules)
    {'rule': 'R1', 'keyword_count': 12}
    """
    known = settable(kind)
    values: dict[str, Any] = {}
    for part in re.split(r"[\s,]+", text.strip()):
        if not part:
            continue
        found = _ASSIGNMENT.fullmatch(part)
        if found is None:
            raise OptionsError(_SETTING, text, "write name=value, several with spaces between")
        name, value = found.groups()
        if name not in known:
            names = ", ".join(known) or "none"
            raise OptionsError(_SETTING, text, f"the parameters of {kind.name} are: {names}")
        wanted = type(known[name])
        try:
            values[name] = _CONVERTERS.get(wanted, wanted)(value)
        except ValueError:
            raise OptionsError(_SETTING, text, f"{name}={value} is no {wanted.__name__}") from None
    return values


def describe(method: SignatureMethod) -> str:
    """Return name and parameters that signatures must share to be comparable, without the hash key.

    >>> describe(Csu())[:40]
    'csu(any_position=False, positions=8, sam'
    """
    hidden = {"hash_key", *method.used_to_compare}
    values = {
        field.name: getattr(method, field.name)
        for field in _fields(type(method))
        if field.name not in hidden
    }
    if method.reads_frequencies:
        values["frequencies"] = background().digest
    parts = [f"{name}={value}" for name, value in sorted(values.items())]
    return f"{method.name}({', '.join(parts)})"


@attrs.frozen
class Signer:
    """Signs documents with one method; thread-safe once built.

    :param shingler: segments text as the method prescribes
    :param segmentation: fingerprint of the shingler, if the method has its own
    """

    method: SignatureMethod
    _max_chars: int
    _shingler: Shingler
    _segmentation: str = ""

    @property
    def parameters(self) -> str:
        """The method and the parameters that comparable signatures must share."""
        return f"{describe(self.method)} {self._segmentation}".rstrip()

    def __call__(self, title: str, text: str, description: str = "") -> Signature | None:
        """Return the signature of a page, or None if there is nothing to compare."""

        def tokens(part: str) -> tuple[str, ...]:
            return tuple(self._shingler.tokens(part)) if self.method.reads_tokens else ()

        return self.method.sign(
            MethodInput(
                title=title,
                text=text[: self._max_chars],
                tokens=tokens(text),
                title_tokens=tokens(title),
                description=description,
            )
        )
