"""Number formats that change what people see in a cell: percentages, leading zeros, elapsed time.

Other numbers keep their value: separators of thousands and signs of currencies would hide them from
a search for the number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from xml.etree.ElementTree import Element

from kb.ingest.parser_support.zip_archive import find_all

NumberFormat = Callable[[str], str]

_BUILT_IN = {"9": "0%", "10": "0.00%", "46": "[h]:mm:ss"}
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.')  # text, and spaces for alignment
_PERCENT = re.compile(r"[#0?,]*(?:\.([0#?]{1,15}))?\s*%")
_ZEROS = re.compile(r"0{2,30}")
_ELAPSED = re.compile(r"\[(h{1,2}|m{1,2}|s{1,2})\]((?::(?:mm|ss))*)", re.IGNORECASE)
_UNIT_S = {"h": 3600, "m": 60, "s": 1}
_FRACTION = re.compile(r"-?(?=[\d.]{16})\d{1,15}\.\d{1,30}(?:E[+-]?\d{1,2})?")
_DIGITS = 15
_MAX_VALUE = Decimal(10) ** 15  # of a number that is shown with all its digits


def number_formats(styles: Element | None) -> dict[int, NumberFormat]:
    """The functions that show a number, by the number of the cell style."""
    custom = {each.get("numFmtId", ""): each.get("formatCode", "")
              for each in find_all(styles, "numFmt")}  # fmt: skip
    known: dict[int, NumberFormat] = {}
    for number, identity in enumerate(_format_ids(styles)):
        code = custom.get(identity, _BUILT_IN.get(identity, ""))
        shown = _number_format(_LITERAL.sub("", code.partition(";")[0]).strip()) if code else None
        if shown is not None:
            known[number] = shown
    return known


def plain_number(value: str) -> str:
    """A number without the digits by which a binary fraction differs from what was typed: Excel
    computes with 15 digits and writes 17. Other texts and short numbers stay as they are."""
    if not _FRACTION.fullmatch(value):
        return value
    number = Decimal(f"{float(value):.15g}")
    return f"{number:f}" if abs(number.adjusted()) <= _DIGITS else str(number)


def _format_ids(styles: Element | None) -> Iterator[str]:
    for cells in find_all(styles, "cellXfs"):
        for each in cells:
            yield each.get("numFmtId") or ""


def _number_format(code: str) -> NumberFormat | None:
    if percent := _PERCENT.fullmatch(code):
        digits = len(percent[1] or "")
        return lambda value: _percentage(value, digits)
    if _ZEROS.fullmatch(code):
        return lambda value: _pad(value, len(code))
    if elapsed := _ELAPSED.fullmatch(code):
        units = [elapsed[1][0].lower(), *elapsed[2].lower().replace(":", " ").split()]
        return lambda value: _elapsed_time(value, [_UNIT_S[unit[0]] for unit in units])
    return None


def _percentage(value: str, digits: int) -> str:
    number = _decimal(value)
    if number is None:
        return value
    step = Decimal(1).scaleb(-digits)
    return f"{(number * 100).quantize(step, ROUND_HALF_UP)}%"


def _pad(value: str, digits: int) -> str:
    number = _decimal(value)
    if number is None:
        return value
    whole = number.quantize(Decimal(1), ROUND_HALF_UP)
    return f"{'-' if whole < 0 else ''}{abs(whole):0{digits}}"


def _elapsed_time(value: str, units: list[int]) -> str:
    """Format a number of days in these units, such as hours, minutes and seconds. The first unit
    has no upper limit: 30 hours are `30:00`."""
    number = _decimal(value)
    if number is None or number < 0:
        return value
    seconds = int((number * 86_400).quantize(Decimal(1), ROUND_HALF_UP))
    parts: list[str] = []
    for unit in units:
        parts.append(f"{seconds // unit:02}" if parts else str(seconds // unit))
        seconds %= unit
    return ":".join(parts)


def _decimal(value: str) -> Decimal | None:
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < _MAX_VALUE else None
