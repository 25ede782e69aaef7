"""Places where bash evaluates a value a second time: arithmetic, subscripts, some expansions and tests. There, the
value ``a[$(x)]`` of a variable runs ``x``, although no word of the line is a command substitution."""

import re
from typing import Final

_IDENTIFIER: Final = r"[A-Za-z_]\w*"
_ELEMENT: Final = r"\[(?:[@*]|\d+)\]"
_PLAIN_EXPANSION: Final = re.compile(
    rf"""\$\{{ (?:
      \#? (?: [\d@*\#?$!-] | {_IDENTIFIER} (?:{_ELEMENT})? )
    | (?: \d+ | [@*] | {_IDENTIFIER} (?:{_ELEMENT})? ) (?: :?[-+?] | \#\#? | %%? | // | /[\#%]? | \^\^? | ,,? ) .*
    | (?: \d+ | [@*] | {_IDENTIFIER} (?:{_ELEMENT})? ) :\s? -?\d+ (?: :\s?-?\d+ )?
    ) \}}""",
    re.VERBOSE | re.DOTALL,
)
_ARITHMETIC: Final = re.compile(r"\$\(\((?P<body>(?:[\w\s+*/%<>=!&|^~?:,.-]|\$\{?(?=[A-Za-z_])|\}|(?<!\$)[()])*)\)\)")
_NAME: Final = re.compile(r"(?<![\w])[A-Za-z_]\w*")
_CALCULATED: Final = re.compile(r"(?!_)[a-z_][a-z0-9_]*")
"""Names without a meaning for bash, which can thus only have the value that the line assigns."""
_NUMBER: Final = r"-?\d+|\$[?\#]|\"\$[?\#]\""
_WORD: Final = r"""(?:[\w./:@%+,^~-]++|'[^']*+'|"(?:[^"\\`$]|\$\w++|\$\{\w++\}|\$[?\#!$])*+"|\$[?\#!$])"""
_UNSPLIT_WORD: Final = rf"(?:{_WORD}|\$\w++|\$\{{\w++\}})"
_PATTERN: Final = rf"(?:[*?]|{_UNSPLIT_WORD})++"
_OPERAND: Final = rf'{_NUMBER}|"?\$\{{?[A-Za-z_]\w*+\}}?"?|[A-Za-z_]\w*+'
_UNARY: Final = r"-[a-hkprstuwxzGLNOSn]"
_COMPARISON: Final = r"(?:==?|!=|<|>|\\<|\\>|-nt|-ot|-ef)"
_CALCULATION: Final = r"-(?:eq|ne|lt|le|gt|ge)"
_EVALUATES: Final = re.compile(rf"[$`]|-[vR]|{_CALCULATION}")
_TEST: Final = re.compile(
    rf"""\[ \s+ (?:!\s+)? (?:
      {_UNARY} \s+ {_UNSPLIT_WORD}
    | {_UNSPLIT_WORD} (?: \s+ (?:{_COMPARISON}|{_CALCULATION}) \s+ {_UNSPLIT_WORD} )?
    | -v \s+ {_IDENTIFIER}
    ) \s+ \]""",
    re.VERBOSE,
)
_CONDITION: Final = rf"""(?:!\s+)? (?:
      {_UNARY} \s+ {_UNSPLIT_WORD}
    | {_UNSPLIT_WORD} (?: \s+ (?:{_COMPARISON}|=~) \s+ {_PATTERN} )?
    | (?:{_OPERAND}) \s+ {_CALCULATION} \s+ (?:{_OPERAND})
    | -v \s+ {_IDENTIFIER}
    )"""
_CONDITIONS: Final = re.compile(
    rf"\[\[ \s+ {_CONDITION} (?: \s+ (?:&&|\|\|) \s+ {_CONDITION} )* \s+ \]\]", re.VERBOSE | re.DOTALL
)
_CALCULATED_PAIR: Final = re.compile(rf"(?<!\S)({_OPERAND})\s+{_CALCULATION}\s+({_OPERAND})(?!\S)")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_UNQUOTED: Final = re.compile(r"\$\{?\w+")


def is_plain_expansion(text: str) -> bool:
    """Whether ``text``, an expansion with braces, only inserts a value. Others evaluate it again (``${x@P}``,
    ``${!x}``, ``${a[x]}``) or assign a variable (``${x:=value}``). Words in it are for the caller to check."""
    return _PLAIN_EXPANSION.fullmatch(text) is not None


def calculated_names(text: str) -> frozenset[str] | None:
    """The variables that the arithmetic expansion ``text`` calculates with; ``None`` if it evaluates other values."""
    found = _ARITHMETIC.fullmatch(text)
    if found is None:
        return None
    # ``0x1f`` and ``16#ff`` are numbers; the pattern above has no ``#``.
    names = frozenset(_NAME.findall(found["body"]))
    return names if all(map(_CALCULATED.fullmatch, names)) else None


def tested_names(text: str) -> frozenset[str] | None:
    """The variables whose values the test ``text``, in ``[ ]`` or ``[[ ]]``, evaluates again: those that it calculates
    with, and those without quotes in ``[ ]``, which can become operators. ``None`` if it evaluates other values."""
    if _EVALUATES.search(text) is None:
        return frozenset()
    if text.startswith("[["):
        evaluated = [operand for found in _CALCULATED_PAIR.findall(text) for operand in found]
        known = _CONDITIONS.fullmatch(text)
    else:
        evaluated = [found[0] for found in _UNQUOTED.finditer(_QUOTED.sub("", text))]
        known = _TEST.fullmatch(text)
    names = frozenset(name for operand in evaluated for name in _NAME.findall(operand) or re.findall(r"\$\d", operand))
    return names if known and all(map(_CALCULATED.fullmatch, names)) else None
