"""Takes personal data and secrets out of a text before it is stored or shown to a model.

Patterns for keys follow the forms that their issuers document; each is named after what it finds, and the name is what
stays in the text: `<e-mail>`, `<key>`, `<token>`, `~`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_ISSUED = (
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",  # AWS access key id
    r"AIza[\w-]{35}",  # Google API key
    r"ya29\.[\w-]{20,}",  # Google OAuth access token
    r"gh[opsur]_[A-Za-z0-9]{36,}|github_pat_\w{40,}",  # GitHub
    r"glpat-[\w-]{20,}",  # GitLab
    r"hf_[A-Za-z0-9]{30,}",  # Hugging Face
    r"xox[abeoprs]-[\w-]{10,}",  # Slack
    r"sk-(?:proj-|ant-|or-)?[\w-]{20,}",  # model providers
    r"(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"npm_[A-Za-z0-9]{36}|pypi-[\w-]{40,}",  # package registries
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",  # JSON web token
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), "<key>"),
    (re.compile(r"(?<![\w-])(?:" + "|".join(_ISSUED) + r")(?![\w-])"), "<key>"),
    (re.compile(r"(?i)\b(bearer|authorization:\s*\w+)\s+(?=\S*\d)[\w.~+/=-]{12,}"), r"\1 <token>"),
    # user:password in an address
    (re.compile(r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"), "<token>"),
    (
        re.compile(
            r"""(?ix) \b ( [\w.-]* (?: password | passwd | passphrase | secret | token | api[_-]?key | access[_-]?key
            | private[_-]?key | credentials? ) ) (["']? \s* [:=] \s* ["']?) (?! <token> | <key> ) [^\s"',;&]{6,}"""
        ),
        r"\1\2<token>",
    ),
    (re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<e-mail>"),
    (re.compile(r"(?<![\w/.])(?:/home|/Users)/[^/\s:\"',]+|(?<![\w/.])/root(?=[/\s:\"',]|$)"), "~"),
    (re.compile(r"(?i)\b[a-z]:[\\/]+users[\\/]+[^\\/\s:\"',]+"), "~"),
)
# What a user typed to a model or a model answered, and who it was: never kept from an imported file.
PRIVATE_FIELDS = frozenset(
    {
        *("prompt", "prompts", "messages", "conversation", "completion", "completions", "generated_text", "input_text"),
        *("output_text", "response", "responses", "answer_text", "user", "user_id", "username", "email", "e_mail"),
        *("phone", "ip", "ip_address", "hostname", "author", "samples"),
    }
)


def redact(text: str) -> str:
    """The text without e-mail addresses, keys, tokens, passwords and the names of home folders."""
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


def clean(value: Any) -> Any:
    """A JSON value without private fields, every string in it redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: clean(part) for key, part in value.items() if str(key).lower() not in PRIVATE_FIELDS}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [clean(part) for part in value]
    return value
