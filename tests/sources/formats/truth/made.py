"""Documents of every kind of layout, made with known contents."""

from __future__ import annotations

from collections.abc import Callable

from sources.formats.truth.typesetting import Made, Sheet, Speech

_ROMAN = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x"]


def report(seed: int) -> Made:
    """One column, sections, running heads and page numbers, labels in roman and arabic numerals."""
    speech, sheet = Speech(seed), Sheet("report")
    for number in sheet.numbers(6):
        label = _ROMAN[number] if number < 2 else str(number - 1)
        sheet.made.labels.append(label)
        sheet.head("Annual report of the institute", label)
        y = sheet.heading(["Section", str(number + 1), *speech.title()], 56, 770)
        y = sheet.paragraph(speech.words(110), 56, y, 480)
        y = sheet.heading(["Part", str(number + 1), *speech.title(2)], 56, y, level=2)
        for _ in range(3):
            y = sheet.paragraph(speech.words(80), 56, y, 480)
    sheet.canvas.addPageLabel(0, style="ROMAN_LOWER", start=1)
    sheet.canvas.addPageLabel(2, style="ARABIC", start=1)
    return sheet.finish()


def paper(seed: int) -> Made:
    """Two columns below a title of full width, divided words, a figure with its caption, a table, footnotes."""
    speech, sheet = Speech(seed), Sheet("paper")
    for number in sheet.numbers(4):
        sheet.head("Journal of made results", str(100 + number))
        top = 770.0
        if number == 0:
            top = sheet.heading(["On", *speech.title(4)], 56, 765)
            top = sheet.paragraph(speech.words(60), 56, top, 484)
        for column, x in enumerate((56, 306)):
            y = sheet.heading([str(2 * number + column + 1), *speech.title(2)], x, top - 6, level=2)
            while y > 460:
                y = sheet.paragraph(speech.words(40 + speech.number(30)), x, y, 234, hyphens=True)
            if column == 0:
                sheet.canvas.rect(x, 185, 200, 80, stroke=1)
                y = sheet.caption(["Figure", f"{number + 1}.", *speech.words(4)], x, 170)
            else:
                header = [word.lower() for word in speech.title(3)]
                rows = [
                    header,
                    *([word, f"{speech.number(99)}.5", str(speech.number(900))] for word in speech.title(4)),
                ]
                sheet.table(rows, x, 265, (90, 70, 70))
    sheet.made.labels = [str(100 + number) for number in range(4)]
    sheet.canvas.addPageLabel(0, style="ARABIC", start=100)
    return sheet.finish()


def manual(seed: int) -> Made:
    """Headings, lists, programs and tables in one column, with different heads on odd and even pages."""
    speech, sheet = Speech(seed), Sheet("manual")
    for number in sheet.numbers(6):
        head = "The manual" if number % 2 else "Part one: installing"
        sheet.head(head, f"{number + 1}")
        sheet.note(head.split())  # on no more than half of the pages, so it is text
        y = sheet.heading([f"{number + 1}.", *speech.title()], 56, 770)
        y = sheet.paragraph(speech.words(60), 56, y, 480)
        for item in range(4):
            y = sheet.paragraph([f"{item + 1}.", *speech.words(9)], 70, y, 460)
        y = sheet.program([f"def {word.lower()}(value):" for word in speech.title(2)] + ["    return value"], 70, y)
        y = sheet.paragraph(speech.words(70), 56, y, 480)
        rows = [["name", "value", "unit"], *([word, str(speech.number(500)), "mm"] for word in speech.title(5))]
        y = sheet.table(rows, 56, y, (160, 100, 80))
        sheet.paragraph(speech.words(50), 56, y, 480)
    return sheet.finish()


MAKERS: dict[str, Callable[[int], Made]] = {maker.__name__: maker for maker in (report, paper, manual)}
