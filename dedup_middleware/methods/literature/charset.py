"""Pages as vectors of character frequencies: by a list of characters, or by machine code.

李洪奇 et al.: 基于字集特征向量的网页消重改进算法, 计算机工程与应用 2017,53(2):53-57,
doi 10.3778/j.issn.1002-8331.1503-0340.

The paper does not print its list of N = 3764 common characters. Ours: the 3755 of GB2312 level 1
and the nine most frequent others. White space is not counted (ours too: it is layout).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.settingfields import one_of
from dedup_middleware.methods.literature.base import MethodInput, SignatureMethod, share
from dedup_middleware.methods.literature.digests import md5
from dedup_middleware.methods.literature.hashsets import bare
from dedup_middleware.model.fingerprint import Signature

if TYPE_CHECKING:
    from dedup_middleware.methods.literature.counting import Planes

SIZE: Final = 3764
KEY_BITS: Final = 16
UTF_16: Final = "utf-16"
GB2312: Final = "gb2312"
_DIGEST: Final = b"\0"  # a width of zero says that what follows is a digest

# The Han characters outside GB2312 level 1 that are most frequent in the large Chinese word list
# of wordfreq 3.1.1 (R. Speer, 2022), a word's frequency counted for each of its characters.
# First comes the one in the name of Shenzhen.
FREQUENT_OTHERS: Final = "圳嗯瞭浏矶稣魅咪妳"


def level_1() -> str:
    """The 3755 characters of GB2312 level 1, rows 16 to 55, in the order of the standard."""
    codes = (bytes((row, cell)) for row in range(0xB0, 0xD8) for cell in range(0xA1, 0xFF))
    # The last row has five places without a character.
    return "".join(code.decode("gb2312", "ignore") for code in codes)


@lru_cache(maxsize=1)
def _character_positions() -> NDArray[np.int16]:
    """Position of every code unit in the list, -1 for others."""
    positions = np.full(1 << KEY_BITS, -1, np.int16)
    for i, character in enumerate(level_1() + FREQUENT_OTHERS):
        positions[ord(character)] = i
    positions.flags.writeable = False
    return positions


@lru_cache(maxsize=1)
def _machine_code_positions() -> NDArray[np.int16]:
    """Position of every 16-bit code, by bisection from its low bit.

    ``sum(((key >> j & 1) * SIZE) >> (j + 1) for j in range(16))``: a bit chooses a half of what
    the bits below it left over. With 3764 positions only the low 11 bits matter.
    """
    keys = np.arange(1 << KEY_BITS)
    positions = np.zeros(1 << KEY_BITS, np.int16)
    for j in range(KEY_BITS):
        positions += ((keys >> j & 1) * SIZE >> (j + 1)).astype(np.int16)
    positions.flags.writeable = False
    return positions


def _code_units(text: str) -> NDArray[np.uint16]:
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").astype(np.uint16)


def machine_codes(text: str, encoding: str = UTF_16) -> NDArray[np.uint16]:
    """The 16-bit keys of a text: UTF-16 code units, or the bytes of GB2312, high byte first.

    In GB2312 ASCII is one byte; characters that it lacks are left out.

    >>> [hex(key) for key in machine_codes("啊a", "gb2312")]
    ['0xb0a1', '0x61']
    """
    if encoding == UTF_16:
        return _code_units(text)
    raw = np.frombuffer(text.encode("gb2312", "ignore"), np.uint8)
    high = raw >= 0x80
    keys = raw.astype(np.uint16)
    # The bytes of a character are both high, so they come in pairs.
    first = np.flatnonzero(high)[::2]
    keys[first] = keys[first] << np.uint16(8) | keys[first + 1]
    high[first] = False
    return keys[~high]


def pack(vector: NDArray[np.int64]) -> bytes:
    """A vector as bytes: width w of a count (1, 2 or 4), positions ``<u2``, counts ``<u`` w.

    Both lists hold what is not zero, ascending by position.
    """
    positions = np.flatnonzero(vector)
    counts = vector[positions]
    largest = int(counts.max(initial=0))
    width = 1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4
    return (
        bytes([width]) + positions.astype("<u2").tobytes() + counts.astype(f"<u{width}").tobytes()
    )


@attrs.frozen
class _ByVector(SignatureMethod):
    """Tanimoto coefficient of two vectors.

    Payload: :func:`pack`. A page whose vector is zero equals only a page with the same normalised
    text; its payload is a zero byte and the MD5 of that text.
    """

    reads_tokens: ClassVar[bool] = False
    threshold: float = share(0.9)

    @property
    def has_keys(self) -> bool:
        """False: frequencies have no keys, so the common candidates are compared."""
        return False

    @abstractmethod
    def vector(self, text: str) -> NDArray[np.int64]:
        """Frequencies in a text, int64[3764]."""

    def sign(self, page: MethodInput) -> Signature | None:
        vector = self.vector(page.text)
        if vector.any():
            return Signature((), pack(vector))
        normalised = bare(page.text)
        return Signature((), _DIGEST + md5(normalised)) if normalised else None

    def compare(self, a: Signature, b: Signature) -> float:
        return float(self.similarities(a, self.gather([b.payload]))[0])

    def gather(self, payloads: Sequence[bytes]) -> tuple[tuple[bytes, ...], Planes]:
        """Payloads of many pages, and the bit planes of the vectors among them."""
        from dedup_middleware.methods.literature.counting import Planes

        return tuple(payloads), Planes.of(payloads)

    def similarities(
        self, own: Signature, gathered: tuple[tuple[bytes, ...], Planes]
    ) -> NDArray[np.float64]:
        from dedup_middleware.methods.literature.counting import Planes

        payloads, planes = gathered
        if own.payload[:1] == _DIGEST:
            return np.array([payload == own.payload for payload in payloads], np.float64)
        return Planes.of([own.payload]).tanimoto(planes)


@attrs.frozen
class CharacterSet(_ByVector):
    """Tanimoto coefficient of the frequencies of common characters (字集特征向量)."""

    name: ClassVar[str] = "charset"

    def vector(self, text: str) -> NDArray[np.int64]:
        """By the list: one look-up a character."""
        positions = _character_positions()[_code_units(text)]
        return np.bincount(positions[positions >= 0], minlength=SIZE)


@attrs.frozen
class MachineCode(_ByVector):
    """Tanimoto coefficient of the frequencies of machine codes (机内码特征向量).

    :param encoding: ``utf-16`` fills 2048 positions, ``gb2312`` only 752 with Chinese text
    """

    name: ClassVar[str] = "machine-code"
    encoding: str = attrs.field(default=UTF_16, validator=one_of(UTF_16, GB2312))

    def vector(self, text: str) -> NDArray[np.int64]:
        """By the positions of the codes; no list is needed."""
        keys = machine_codes("".join(text.split()), self.encoding)
        return np.bincount(_machine_code_positions()[keys], minlength=SIZE)
