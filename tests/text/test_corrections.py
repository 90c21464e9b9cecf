"""Headlines of pages that correct others, and headlines that only speak of corrections."""

from __future__ import annotations

import pytest

from dedup_middleware.text.corrections import says_correction


@pytest.mark.parametrize(
    "headline",
    [
        *("CORRECTED - Council proposes a levy", "(CORRECTED)-Ferry stops", "CORRECTED-UPDATE 2-X"),
        *("CORRECTED (OFFICIAL)-Ferry stops", "Author Correction: Tides", "Correction to: Tides"),
        *("Correction: Ferry story", "Ferry stops [corrected]", "UPDATE 1-CORRECTED-Ferry stops"),
        *("Rectificatif : la mairie", "Korrektur: Fähre", "Fähre fährt (Berichtigung)"),
        *("Fe de errores: el ferry", "Errata corrige", "ИСПРАВЛЕНО: паром", "Паром (уточнение)"),
        *("更正：渡口停航", "【更正】渡口停航", "（更正）渡口停航", "关于年度报告的更正公告"),
        *("年度报告（更正后）", "年度报告(修订版)", "勘误：渡口", "訂正：渡し船", "[정정] 나루터"),
        *("お詫びと訂正：渡し船", "更正－渡口停航", "渡口停航［勘误］"),
    ],
)
def test_mark_of_a_correction(headline: str) -> None:
    """Before the headline, behind it, or in brackets; an update may be corrected, too."""
    assert says_correction(headline)


@pytest.mark.parametrize(
    "headline",
    [
        *("", "Correction officers elect a chair", "Harbour corrects its charts"),
        *("Prices fall in a correction of the market", "He corrected: nobody", "UPDATE 2-Ferry"),
        *(
            "Correctionville: a town",
            "La correction des copies",
            "市政府更正渡口时刻表",
            "改正错误",
        ),
        *("Исправительная колония: проверка", "修正主义的历史", "Uncorrected proofs"),
        *("Correction to the market ahead", "Author corrections take years"),
    ],
)
def test_words_that_are_no_mark(headline: str) -> None:
    """A word for a correction in a sentence, and words that begin with one."""
    assert not says_correction(headline)


def test_long_headline_takes_no_time() -> None:
    """Only its beginning is looked at."""
    assert not says_correction("correction " * 100_000)
