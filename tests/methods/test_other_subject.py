"""Pages that say another word throughout: a tool, a firm, a dish, told of in the same sentences."""

from __future__ import annotations

from typing import Final

import pytest

from dedup_middleware.model.documents import NEW
from tests.test_verdict import verdict_of

MANUAL: Final = (
    "Before you switch on the {0}, read these pages and keep them near the machine. The {0} is "
    "made for dry timber indoors and must not be left in the rain. Wear goggles, tie back long "
    "hair and remove rings, as moving parts catch whatever hangs loose. Clamp the board to a "
    "bench so that both hands are free, and let the motor reach full speed before it touches the "
    "surface. Never press hard; a sharp {0} does its work under its own weight, while a blunt one "
    "burns the edge and tires the motor. After use pull the plug, brush the dust from the vents "
    "and oil the bearings with a few drops. If sparks or a smell of rubber come from the {0}, "
    "stop at once and bring it to a dealer, who also sells blades in packs of five. Children may "
    "watch from the door, but no one else should stand behind the operator. Store the {0} in its "
    "wooden case on a shelf above the floor, away from paint and petrol, with the cable wound "
    "loosely around the handle. The warranty covers faults of material for two winters, if the "
    "receipt is kept, and ends when anyone but the dealer opens the {0} or sells it abroad."
)
NOTICE: Final = (
    "本店新到一批{0}，每天清晨由山里的农户送来。挑选{0}时，先看表皮是否光滑，再用手轻轻按压，"
    "软的已经放了太久。回家以后把它洗净切开，放进砂锅，加少许盐和姜片，用小火慢慢炖熟。"
    "喜欢清淡的客人可以只放葱花，也可以同豆腐一起下锅。老人牙口不好，炖好的{0}最合适，"
    "孩子们则爱吃用它做成的薄饼。剩下的{0}装进布袋，挂在通风的屋檐下，能保存到开春。"
    "店里还备有菜谱，客人结账时向柜台索取即可。农户说，今年雨水足，{0}长得格外大，"
    "再过半个月还有一批，想多买的街坊可以提前登记，伙计会骑车把{0}送到门口。"
)
# Fewer than half of its words are different ones, as of most pages of some length.
TERMS: Final = " ".join(
    f"The {whom} may {act} a {thing} again, and another {whom} may then {act} that {thing}, "
    f"unless {'{0}' if k % 3 == 0 else 'the agent'} objects."
    for k, (thing, act, whom) in enumerate(
        zip(
            "ledger parcel licence barge orchard kiln turbine lantern saddle whistle "
            "anvil copper canvas marble ribbon cellar pigeon thistle hammer lagoon".split(),
            "lend weigh paint insure inspect deliver polish borrow measure repair "
            "store count pledge cover label carry return donate auction exhibit".split(),
            "tenant miller warden broker pilot baker tailor mason curator skipper "
            "farmer glazier notary porter weaver saddler gardener trustee ranger clerk".split(),
            strict=True,
        )
    )
)


@pytest.mark.parametrize(
    ("page", "one", "other"),
    [
        (MANUAL, "planer", "grinder"),
        (MANUAL, "grinder", "jigsaw"),
        (NOTICE, "南瓜", "山药"),
        (NOTICE, "山药", "莲藕"),
        (TERMS, "Northgate", "Ashcombe"),
    ],
)
async def test_another_word_throughout_makes_another_page(page: str, one: str, other: str) -> None:
    """Another tool, vegetable or firm makes another page, in small letters, in Chinese, and where
    most words of the page repeat."""
    verdict = await verdict_of(page.format(one), page.format(other))
    assert (verdict.outcome, verdict.reason) == (NEW, "other-figures")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The {0} is made", "The {0} is built"),  # once
        ("remove rings", "remove all rings"),  # put in
        ("the motor reach", "the electric motor reach"),
    ],
)
async def test_scattered_edits_make_none(one: str, other: str) -> None:
    """An edited copy that goes on about the same tool is a near-duplicate."""
    assert one in MANUAL
    stored, new = MANUAL.format("planer"), MANUAL.replace(one, other).format("planer")
    assert (await verdict_of(stored, new)).reason == "near-duplicate"


async def test_words_that_editors_exchange_are_no_subject() -> None:
    """Another verb of saying at four places makes no other page, nor 我国 for 中国."""
    page = MANUAL.format("planer").replace(". ", ", the dealer {0}. ", 4)
    verdict = await verdict_of(page.format("said"), page.format("explained"))
    assert verdict.reason == "near-duplicate"
    page = NOTICE.replace("{0}", "南瓜").replace("。", "，{0}各地都是如此。", 4)
    verdict = await verdict_of(page.format("中国"), page.format("我国"))
    assert verdict.reason == "near-duplicate"
