"""The methods of the literature by name, made from settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from dedup_middleware.errors import OptionsError
from dedup_middleware.methods.charset import CharacterSet, MachineCode
from dedup_middleware.methods.csu import Csu
from dedup_middleware.methods.frequencies import background
from dedup_middleware.methods.idf import Idf
from dedup_middleware.methods.luogang import Luogang
from dedup_middleware.methods.projection import RandomProjection
from dedup_middleware.methods.reading import SignatureMethod
from dedup_middleware.methods.rules import FeatureList, Rules
from dedup_middleware.methods.segments import Segments
from dedup_middleware.methods.structure import FeatureString, Md5, StructureTree
from dedup_middleware.methods.textprofile import TextProfile
from dedup_middleware.methods.weighted import WeightedSimHash
from dedup_middleware.options import Options
from dedup_middleware.settingfields import setting_name, to_bool, to_int

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
_BITS: Final = 64


def literature(options: Options, hash_key: int = 0) -> SignatureMethod | None:
    """The method of the literature that the options name; None if they name another one.

    :param hash_key: key of its hashes; the two methods on character sets have none, their codes
        are prescribed
    :raises OptionsError: a parameter that the method lacks, or a value that it can't use
    """
    if options.method not in LITERATURE:
        if options.method_parameters:
            fix = f"leave it empty, DEDUP_METHOD={options.method} has no parameters"
            raise OptionsError(_SETTING, options.method_parameters, fix)
        return None
    kind = LITERATURE[options.method]
    values = parse_parameters(options.method_parameters, kind)
    if kind.is_simhash:
        values["threshold"] = 1 - options.distance / _BITS
    elif options.threshold is not None:
        values["threshold"] = options.threshold
    if "hash_key" in {field.name for field in _fields(kind)}:
        values["hash_key"] = hash_key
    return kind(**values)


def _fields(kind: Any) -> tuple[attrs.Attribute[Any], ...]:
    return tuple(attrs.fields(kind))


def settable(kind: type[SignatureMethod]) -> dict[str, Any]:
    """The parameters that a setting can give, with their defaults."""
    return {
        field.name: field.default
        for field in _fields(kind)
        if field.name not in {"threshold", "hash_key"} and field.default is not None
    }


def parse_parameters(text: str, kind: type[SignatureMethod]) -> dict[str, Any]:
    """Parameters from ``name=value name=value``.

    :raises OptionsError: another form, an unknown name, a value of another type

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
        values[name] = _converted(text, name, value, known[name])
    return values


def _converted(text: str, name: str, value: str, default: Any) -> Any:
    convert: Any = (
        to_bool if isinstance(default, bool) else to_int if isinstance(default, int) else None
    )
    if convert is None:
        convert = float if isinstance(default, float) else str
    try:
        return convert(value)
    except ValueError:
        raise OptionsError(_SETTING, text, f"{name}={value} is no {type(default).__name__}") from (
            None
        )


def describe(method: SignatureMethod) -> str:
    """Name and parameters that decide whether two signatures can be compared; not the hash key.

    >>> describe(Csu())[:40]
    'csu(any_position=False, positions=8, sam'
    """
    hidden = {"hash_key", "frequencies", "vocabulary", *method.used_to_compare}
    values = {
        field.name: getattr(method, field.name)
        for field in _fields(type(method))
        if field.name not in hidden
    }
    if hasattr(method, "frequencies"):
        table = background() if method.frequencies is None else method.frequencies
        values["frequencies"] = table.digest
    parts = [f"{name}={value}" for name, value in sorted(values.items())]
    return f"{method.name}({', '.join(parts)})"
