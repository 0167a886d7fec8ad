"""Text from others, made safe to print: from a case file or a state, a kernel, a compiler, an exception. It arrives in
few places and is printed in many: a terminal, a log, GitHub, a page, a comment of a program. So it is made plain where
it arrives, and each output only escapes characters with a meaning in its own format."""

from __future__ import annotations

import re

_MOST = 2000
"""The most characters of a text that are kept. Lines of this package are shorter, and compilers repeat sources."""
_COMMAND = re.compile(r":(?=:[A-Za-z-]+(?:::|\s|$))|#(?=#\[)")
"""The start of a workflow command of GitHub: `::name::` or `::name key=value::` after blanks, `##[name]` anywhere."""
_PASSWORD = re.compile(r"(://[^\s:/@]*:)\S*@|(password=)[^\s&]+", re.IGNORECASE)
"""The password in a URL, without blanks. People give one to commands that need none, and databases repeat it."""


def printable(text: str) -> str:
    """Return the text as one line that no terminal or code host obeys. Control characters, line ends, marks that change
    the direction of writing and lone surrogates are escaped as in Python. The start of a code host's command is escaped
    too, and a password in a URL is hidden. Plain text stays the same, as does text that was made printable before."""
    text = text if len(text) <= _MOST else f"{text[: _MOST - 4]} ..."
    if not text.isprintable():
        text = "".join(each if each.isprintable() else _escaped(each) for each in text)
    text = masked(text)
    return _COMMAND.sub(lambda first: f"\\x{ord(first[0]):02x}", text)


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as '1 bug' and '2,000 bugs'. `many` is the plural, by default with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def printable_lines(text: str) -> str:
    """Return the text with each of its lines made printable."""
    return "\n".join(map(printable, text.splitlines()))


def masked(text: str) -> str:
    """Return the text with passwords in addresses hidden: `scheme://user:***@host`."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", text)


_MOST_OF_A_WORD = 40


def id_word(value: object) -> str:
    """Return a value as a word of the id of a target, in which other characters separate words."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", str(value))[:_MOST_OF_A_WORD] or "_"
