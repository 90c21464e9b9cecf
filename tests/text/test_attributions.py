"""Russian and Ukrainian sentences and clauses that say who reported something."""

from __future__ import annotations

import time

import pytest

from dedup_middleware.text.relevant import without_attributions

# Of no text more than half is left out.
MORE = "\nОбъезд по старой дороге у реки найден, он открыт весь день, паром ждет машины."


@pytest.mark.parametrize(
    ("text", "compared"),
    [
        ("Мост закрыт, сообщает ТАСС.", "Мост закрыт."),
        ("Мост закрыт, передаёт «Маяк» со ссылкой на пресс-службу перевозчика.", "Мост закрыт."),
        ("Мост закрыт, рассказали журналистам в областном правительстве.", "Мост закрыт."),
        ("Мост закрыт, сообщили в прокуратуре Озерска. Он стар.", "Мост закрыт. Он стар."),
        ("«Мост закрыт», — уточнили в ГУ МВД по Озерской области.", "«Мост закрыт»."),
        (
            "Мост закрыт. Об этом ТАСС сообщили в пресс-службе мэрии. Он стар.",
            "Мост закрыт. Он стар.",
        ),
        ("Как сообщает пресс-служба полиции, мост закрыт.", "мост закрыт."),
        ("По данным МЧС, мост закрыт.", "мост закрыт."),
        ("Міст закрито, повідомляє Укрінформ. Він старий.", "Міст закрито. Він старий."),
        ("Про це йдеться у повідомленні міськради. Він старий.", "Він старий."),
        ("За даними поліції, міст закрито.", "міст закрито."),
    ],
)
def test_who_reported_it(text: str, compared: str) -> None:
    """Words of lists, names in quotation marks or in capitals, and places behind a body."""
    assert without_attributions(text + MORE) == compared + MORE


@pytest.mark.parametrize(
    "text",
    [
        "Мост закрыт, сообщил мэр.",
        "Мост закрыт, сообщил Иван Громов.",
        "Мост закрыт, сообщили в полиции и ищут виновных.",
        "Мост закрыт. Об этом сообщает полиция, которая ищет сторожа",
        "Соседи увидели дым, сообщили в полицию.",
        "Соседи увидели дым, сообщили спасателям.",
        "Завод чинит лодки, передает в районный отдел.",
        "Страна чинит танки, передает Украине.",
        "По данным следствия о растрате, мост закрыт.",
        "Как сообщить в полицию, знает каждый.",
    ],
)
def test_what_says_more_stays(text: str) -> None:
    """Persons, other words, and those to whom something was told."""
    assert without_attributions(text + MORE) == text + MORE


@pytest.mark.parametrize(
    "part",
    [
        "Как полиции Москвы ", ", сообщает ТАСС", "Об этом ", ", пишет «",
        ", сообщает " + "пресс-служба города области района " * 4,
    ],
)  # fmt: skip
def test_hostile_texts_take_no_time(part: str) -> None:
    """What nearly has a form is given up soon."""
    text = part * (200_000 // len(part))
    started = time.perf_counter()
    without_attributions(text)
    assert time.perf_counter() - started < 2
