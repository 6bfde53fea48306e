"""The cursor over a problem text: tokens, numbers, messages that point into the text. As runtime/parser.c and number.c."""

import math
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

QUOTE, WINDOW = 40, 60  # bytes of the text that a message quotes, and that are shown over the caret
LARGEST = 2**63 - 1
LARGEST_FLOAT = 3.4028234663852886e38

SPACE, WORD = re.compile(r"[ \t\r\n]*"), re.compile(r"[A-Za-z0-9_]*")
NUMBER = re.compile(r"[A-Za-z0-9_+.-]*")  # what a number, or a failed attempt at one, is made of
WHOLE = re.compile(r"([+-]?)0*([0-9]+)")
FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?)0*([0-9]+))?")


def _as_bytes(text):
    """One character a byte, as the C parser sees a text."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _printable(text):
    return re.sub(r"[^ -~]", "?", re.sub(r"[\t\r\n]", " ", text))


class ProblemError(ValueError):
    """What is wrong, what is allowed, and the text with a caret under the character."""

    def __init__(self, message, text, column):
        self.column = column  # from 1, in bytes
        shown, at = _printable(_as_bytes(text)), column - 1
        start = 0 if at < WINDOW // 2 else max(0, min(at - WINDOW // 2, len(shown) - WINDOW))
        end = start + WINDOW
        window = "..." + shown[start + 3 : end] if start > 0 else shown[:end]
        window = window[:-3] + "..." if end < len(shown) else window
        super().__init__(f"{message}\n  {window}\n  {' ' * (at - start)}^")


class Token(NamedTuple):
    at: int
    text: str

    @property
    def quoted(self):
        return self.text[:QUOTE] + ("..." if len(self.text) > QUOTE else "")

    @property
    def or_empty(self):
        return self.quoted or "''"


class Cursor:
    def __init__(self, text):
        self.source, self.text = text, _as_bytes(text)
        self.at = 0
        self.where = "input"  # for messages: "stage 'add'"

    def peek(self):
        """The next character that is no space, "" at the end; the cursor then stands on it."""
        self.at = SPACE.match(self.text, self.at).end()
        return self.text[self.at : self.at + 1]

    def skip(self, mark):
        """Steps over `mark` if it is next."""
        found = self.peek() == mark
        self.at += found
        return found

    def take(self, pattern):
        """The next run of characters that belong; it may be empty."""
        self.peek()
        token = Token(self.at, pattern.match(self.text, self.at).group())
        self.at += len(token.text)
        return token

    def bad(self, at, what, allowed):
        raise ProblemError(f"{what} ({self.where}): {allowed}", self.source, at + 1)

    def unexpected(self, allowed):
        """What comes next does not belong there."""
        next_character = _printable(self.peek())
        at, token = self.at, self.take(WORD)
        self.bad(at, f"unexpected '{token.quoted or next_character}'" if next_character else "unexpected end", allowed)


def read_whole(text):
    """[+-]digits as an integer; None where it is malformed or does not fit 64 bits."""
    found = WHOLE.fullmatch(text)
    if not found or len(found[2]) > 19:
        return None
    value = int(found[1] + found[2])
    return value if -LARGEST - 1 <= value <= LARGEST else None


def read_float(text):
    """The float32 nearest to [+-]digits[.digits][e[+-]digits], ties to even; None where it is malformed or too large."""
    found = FLOAT.fullmatch(text)
    if not found or len(text) > 10000:
        return None
    decimal = Decimal(f"{found[1]}e{found[2] or ''}{(found[3] or '0')[:6]}")
    if decimal.adjusted() > 38 and decimal:
        return None
    value = Fraction(0)
    if decimal.adjusted() > -50:
        exact = Fraction(decimal)
        step = Fraction(2) ** max(math.frexp(exact)[1] - 24, -149)
        value = round(exact / step) * step
    return math.copysign(value, -1.0 if text[0] == "-" else 1.0) if abs(value) <= LARGEST_FLOAT else None


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def number_text(value):
    """The fewest digits that read_float() reads back as the same float32; an exponent only below 1e-4 and from 1e9."""
    digits = next(d for d in (f"{value:.{places}e}" for places in range(9)) if read_float(d) == value)
    mantissa, exponent = digits.split("e")
    return format(Decimal(digits), "f") if -4 <= int(exponent) <= 8 else f"{mantissa}e{int(exponent)}"
