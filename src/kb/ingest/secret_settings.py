"""Whether a text is a list of settings that sets a secret: variables, INI, YAML, TOML, JSON, XML,
constants in PHP, variables in shell scripts and Dockerfiles, inventories of Ansible.

Pure. A text about secrets has sentences; a list of settings has hardly any other lines. In such a
list, a secret is a value that looks real under a name such as `db_password`, a URL or a connection
string with a password, or a token of a known service. All patterns match in linear time.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LINES = 60  # lines of a list to examine
_OTHER_SHARE = 0.1  # the largest share of lines that are not settings
_MAX_LINE_BYTES = 4000
_COMMENTS = (b"#", b";", b"//", b"!", b'"""', b"--")

# `export NAME=value`, `name = value`, `name: value`, `"name": "value",`, `set name value`
_SETTING = re.compile(
    rb"(?:export[ \t]+|set[ \t]+|-[ \t]+)?[\"']?([A-Za-z_][\w.-]{0,100})[\"']?"
    rb"[ \t]*(=|:(?=\s|[\"'\d]|$))[ \t]*(.*)"
)
_BRACKETS, _NEXT_MEMBER = re.compile(rb"([{}\[\]])"), re.compile(rb",(?=\s*\")")
_STRUCTURE = re.compile(rb"\[[^\]\n]{1,200}\]|[\[\]{}(),]+|-{3}|\.{3}|-[ \t].*")
_NPM = re.compile(rb"(?://\S{1,200}:)?_(?:authToken|auth|password)[ \t]*=[ \t]*(\S+)")

_SECRET_NAME = re.compile(
    rb"(?:[\w.-]*[_.-])?(?:secret|token|password|passwd|passphrase|api_?key|private_?key|access_?key"
    rb"|secret_?key(?:_?base)?|auth_?token|client_?secret|psk|(?:encryption|signing|master)_key)|(?:[\w.-]+[_.-])?(?:pass|pwd)|pgpassword",
    re.IGNORECASE,
)
_CAMEL_CASE_NAME = re.compile(
    rb"[A-Za-z0-9]*(?:Secret|Token|Password|Passphrase|ApiKey|APIKey|PrivateKey|AccessKey)"
)
# Tokens that grant no access, such as those of pages, requests and versions.
_PAGE_TOKEN = re.compile(
    rb"(?:next|page|change|request|continuation|sync|sequence|upload|update|cursor|pagination)"
    rb"[_.-]?token",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    rb"[<$({*.%\[@!&|]|change|your|my[-_]|example|placeholder|insert|replace|todo|secret|pass"
    rb"|test|dummy|fake|none|null|true|false|x{3}|required|optional|default|(?:str|int|bytes)\b",
    re.IGNORECASE,
)
_DIGIT, _ALPHA = re.compile(rb"[0-9]"), re.compile(rb"[A-Za-z]")
_CODE = re.compile(rb"[()\[\]{}<>|`]|::|->")
_LITERAL = re.compile(
    rb"[\"']([^\"']*)[\"'],?[ \t]*(?:[#;].*|//.*)?$|([^\s\"'#;]+?),?(?:[ \t]+[#;].*)?$"
)
_URL = re.compile(rb"[a-z][a-z0-9+.-]{1,30}://[^:/@\s\"']{0,100}:([^@/\s\"']{3,200})@[\w.-]+", re.I)
_WEAK_URL_PASSWORD = re.compile(
    rb"pass|pwd|pw$|secret|user|admin|root|postgres|mysql|guest|test|example|[<${*x%]",
    re.IGNORECASE,
)
# Connection strings of databases: `Server=db;User Id=app;Password=...;`
_CONNECTION = re.compile(
    rb"(?:^|[;\"'])[ \t]*(?:server|data source|host|user ?id|uid|initial catalog|database)[ \t]*="
    rb"[^;\n]{0,200};",
    re.IGNORECASE,
)
_CONNECTION_PASSWORD = re.compile(
    rb";[ \t]*(?:password|pwd)[ \t]*=[ \t]*([^;\"'<>\s]{1,200})", re.I
)

_PHP_CONSTANT = re.compile(
    rb"^[ \t]*(?:<\?php[ \t]+)?define\([ \t]*[\"'](\w{1,80})[\"'][ \t]*,[ \t]*"
    rb"(?:'([^'\n]{1,200})'|\"([^\"\n]{1,200})\")",
    re.MULTILINE | re.IGNORECASE,
)
_XML_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_XML_TEXT = re.compile(rb">([^<>]{20,})<")
_XML_TEXT_WORDS = 8  # in one element: a document, not a list of settings
_XML_PASSWORD = re.compile(
    rb"<(?:\w+:)?(?:password|passwd|passphrase|api-?key|secret-?key|client-?secret)>"
    rb"[ \t]*([^<>\s]{1,200})[ \t]*</|\bpassword[ \t]*=[ \t]*[\"']([^\"'<>\s]{1,200})[\"']",
    re.IGNORECASE,
)

# `export NAME=value`, `NAME=value command`, `$env:NAME = "value"`, and `set -x NAME value` of fish
_SHEBANG = re.compile(rb"#![^\n]{0,200}sh\b")
_SHELL_VARIABLE = re.compile(
    rb"^[ \t]*+(?:(?:export|readonly|local|typeset|declare|set|env)(?:[ \t]++-\w++)*+[ \t]++)?+"
    rb"(?:\$env:)?+(\w{1,100}+)[ \t]*+=[ \t]*+([^\n]{1,400})"
    rb"|^[ \t]*+set(?:env)?+(?:[ \t]++-\w++)*+[ \t]++(\w{1,100}+)[ \t]++([^\n=][^\n]{0,400})",
    re.MULTILINE | re.IGNORECASE,
)
# `ENV NAME=value OTHER=value`, `ENV NAME value`, `ARG NAME=value`
_DOCKER_VARIABLES = re.compile(
    rb"^[ \t]*+(?:ENV|ARG)[ \t]++((?:[^\n\\]|\\[^\n]|\\\n){1,4000}+)", re.MULTILINE | re.IGNORECASE
)
_DOCKER_FROM = re.compile(
    rb"(?:\s+|#[^\n]*)*+(?:ARG[^\n]*\s+)*+"
    rb"FROM[ \t]+(?:--\S+[ \t]+)?\S+(?:[ \t]+(?:AS|as)[ \t]+\S+)?[ \t]*\r?(?:\n|\Z)"
)
_PAIR = re.compile(rb"(?<!\S)(\w{1,100})=(\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|\S{1,400})")
_FIRST_PAIR = re.compile(rb"(\w{1,100})[ \t]+(\S{1,400})")

# `[group]`, `host`, `host name=value name="other value"`, `name=value` of Ansible
_INVENTORY_LINE = re.compile(
    rb"\[[\w.:-]{1,100}\]|\w{1,100}[ \t]*=[^\n]*|[\w.:\[\]@-]{1,200}+"
    rb"(?:[ \t]++\w{1,100}+=(?:\"[^\"]{0,400}\"|'[^']{0,400}'|\S{0,400}+))*+"
)
_INVENTORY_PASSWORD = re.compile(rb"ansible_(?:(?:ssh|become|sudo|su)_)?(?:pass|password)")
_SHELL_WORD = re.compile(rb"\"([^\"\n]*)\"|'([^'\n]*)'|([^\s\"';&|#]+)")
# In `rclone.conf`, the value of `token` is a JSON object.
_JSON_TOKEN = re.compile(rb"\{[^\n]{0,200}\"(?:access|refresh)_token\"[ \t]*:[ \t]*\"[^\"]{8}")

# Conversations in exports of Slack, ChatGPT and Claude: people write and paste anything there.
_MESSAGES = (
    (re.compile(rb'"type"\s*:\s*"message"'), re.compile(rb'"ts"\s*:\s*"\d{6,}\.\d')),
    (re.compile(rb'"chat_messages"\s*:\s*\['), re.compile(rb'"uuid"\s*:\s*"')),
    (re.compile(rb'"mapping"\s*:\s*\{'), re.compile(rb'"create_time"\s*:')),
)

# The tokens of services, which have distinctive prefixes.
_TOKEN = re.compile(
    rb"(?<![A-Za-z0-9_])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,}|glpat-[\w-]{20}"
    rb"|xox[abeoprs]-[A-Za-z0-9-]{20,}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{60,}|hf_[A-Za-z0-9]{34}"
    rb"|sk_live_[A-Za-z0-9]{20,}|rk_live_[A-Za-z0-9]{20,}|sk-(?:ant|proj|svcacct)-[\w-]{40,}"
    rb"|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|sk-or-v1-[0-9a-f]{64}"
    rb"|AIza[\w-]{35}|SG\.[\w-]{22}\.[\w-]{43}|AKIA[0-9A-Z]{16})(?![A-Za-z0-9])"
)
# Their first characters: most texts contain none, and are ruled out at once.
_TOKEN_MARKS = (
    (b"_", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"npm_", b"hf_",
            b"k_live_")),
    (b"-", (b"glpat-", b"xox", b"pypi-", b"sk-")),
    (b"A", (b"AIza", b"AKIA")),
    (b"S", (b"SG.",)),
)  # fmt: skip
_MIN_VARIETY = 12  # distinct characters in a real token; `ghp_xxxx` and `ghp_000` have fewer
_SEQUENCE = re.compile(rb"(?i)example|1234567|abcdef|0000|xxxx")


class _Setting(NamedTuple):
    name: bytes
    value: bytes
    is_variable: bool  # `NAME=value`


def sets_secret(text: bytes) -> bool:
    """Whether the text is a list of settings, at least one of them a secret."""
    start = text.lstrip()[:5].lower()
    if start == b"<?php":
        return _sets_php_secret(text)
    if start.startswith(b"<"):
        return _sets_xml_secret(text)
    if start.startswith((b"[", b"{")) and _has_messages(text):
        return False
    has_token = _may_have_token(text) and _has_token(text)
    if b"ansible_" in text and _is_inventory_with_password(text):
        return True
    if not has_token and b"=" not in text and b":" not in text:
        return False
    settings, others = _settings(text)
    if not settings or others > _OTHER_SHARE * (len(settings) + others):
        return (has_token and _is_token_alone(text)) or _is_url_alone(text)
    if has_token:
        return True
    # With a sentence among them, only variables count: documentation shows JSON and YAML.
    return any(_is_secret(one) for one in settings if one.is_variable or not others)


def script_sets_secret(text: bytes) -> bool:
    """Whether a shell script sets a variable to a secret, or contains a token or a URL with a
    password. Most of its lines are commands, so it is not a list of settings."""
    if _may_have_token(text) and _has_token(text):
        return True
    for match in _SHELL_VARIABLE.finditer(text):
        name, value = match[1] or match[3], match[2] or match[4]
        if not _SECRET_NAME.fullmatch(name) or _PAGE_TOKEN.search(name):
            continue
        word = _SHELL_WORD.match(value)
        literal = (word[1] or word[2] or word[3] or b"") if word else b""
        if _is_real(literal) and _is_mixed(literal):
            return True
    return any(
        _is_mixed(url[1]) and not _WEAK_URL_PASSWORD.match(url[1]) for url in _URL.finditer(text)
    )


def dockerfile_sets_secret(text: bytes) -> bool:
    """Whether a Dockerfile sets a variable to a secret, or contains a token."""
    if _may_have_token(text) and _has_token(text):
        return True
    for match in _DOCKER_VARIABLES.finditer(text):
        line = match[1].replace(b"\\\n", b" ")
        pairs = _PAIR.findall(line) or _FIRST_PAIR.findall(line)[:1]
        if any(_is_secret_pair(*pair) for pair in pairs):
            return True
    return False


def is_dockerfile(text: bytes) -> bool:
    """Whether the first instruction of the text is `FROM`, as in every Dockerfile."""
    return _DOCKER_FROM.match(text) is not None


def find_token(text: str) -> str | None:
    """The first characters of a service's token in the text; None if there is none."""
    data = text.encode("utf-8", "replace")
    if not _may_have_token(data):
        return None
    found = (match[0] for match in _TOKEN.finditer(data) if _is_real_token(match[0]))
    token = next(found, None)
    return None if token is None else f"{token[:4].decode()}…"


def is_shell_script(text: bytes) -> bool:
    """Whether the text begins with the shebang line of a shell."""
    return _SHEBANG.match(text) is not None


def _settings(text: bytes) -> tuple[list[_Setting], int]:
    """The settings at the beginning of the text, and the number of other lines."""
    settings: list[_Setting] = []
    others = 0
    for line in map(bytes.strip, _expand_json(text).split(b"\n", _LINES)[:_LINES]):
        if match := _NPM.fullmatch(line[:_MAX_LINE_BYTES]):
            settings.append(_Setting(b"auth_token", match[1], True))
        elif not line or line.startswith(_COMMENTS):
            continue
        elif match := _SETTING.fullmatch(line[:_MAX_LINE_BYTES]):
            is_variable = match[2] == b"=" and match[1].isupper()
            settings.append(_Setting(match[1], match[3], is_variable))
        elif not _STRUCTURE.fullmatch(line[:_MAX_LINE_BYTES]):
            others += 1
            if others > _OTHER_SHARE * _LINES:
                break
    return settings, others


def _expand_json(text: bytes) -> bytes:
    """Put every member of JSON objects on a separate line, as in indented JSON."""
    if not text.lstrip().startswith((b"{", b"[{")):
        return text
    return _NEXT_MEMBER.sub(b",\n", _BRACKETS.sub(rb"\n\1\n", text))


def _is_secret(setting: _Setting) -> bool:
    name, value, is_variable = setting
    if (url := _URL.search(value)) is not None:
        return _WEAK_URL_PASSWORD.match(url[1]) is None
    if _connects(value):
        return True
    if _PAGE_TOKEN.search(name) or not (
        _SECRET_NAME.fullmatch(name) or _CAMEL_CASE_NAME.fullmatch(name)
    ):
        return False
    if _JSON_TOKEN.match(value):
        return True
    literal = _LITERAL.match(value)
    if literal is None or not _is_real(text := literal[1] or literal[2] or b""):
        return False
    # Names in other styles are used for much else: `"output_token": "nextToken"`.
    return is_variable or _is_mixed(text)


def _is_secret_pair(name: bytes, value: bytes) -> bool:
    """Whether a variable of this name and value, which may be quoted, is a secret."""
    if not _SECRET_NAME.fullmatch(name) or _PAGE_TOKEN.search(name):
        return False
    literal = value.strip(b"\"'")
    return _is_real(literal) and _is_mixed(literal)


def _is_inventory_with_password(text: bytes) -> bool:
    """Whether the text is an inventory of Ansible with a password for a host."""
    lines = [line for line in map(bytes.strip, text.split(b"\n", _LINES)[:_LINES]) if line]
    entries = [line for line in lines if not line.startswith(_COMMENTS)]
    if not all(_INVENTORY_LINE.fullmatch(line[:_MAX_LINE_BYTES]) for line in entries):
        return False
    return any(
        _INVENTORY_PASSWORD.fullmatch(name) and _is_real(value.strip(b"\"'"))
        for line in entries
        for name, value in _PAIR.findall(line[:_MAX_LINE_BYTES])
    )


def _connects(text: bytes) -> bool:
    """Whether the text has a connection string with a password."""
    return _CONNECTION.search(text) is not None and any(
        _is_real(match[1]) and _is_mixed(match[1]) for match in _CONNECTION_PASSWORD.finditer(text)
    )


def _sets_php_secret(text: bytes) -> bool:
    """Whether PHP code defines a constant for a secret, as in `wp-config.php`."""
    for match in _PHP_CONSTANT.finditer(text):
        value = match[2] or match[3]
        if _SECRET_NAME.fullmatch(match[1]) and _is_real(value) and _is_mixed(value):
            return True
    return False


def _sets_xml_secret(text: bytes) -> bool:
    """Whether XML settings have a password, as in those of Maven and .NET. A file with sentences is
    a document, not settings. Comments are ignored."""
    plain = _XML_COMMENT.sub(b"", text)
    values = (match[1] or match[2] for match in _XML_PASSWORD.finditer(plain))
    if not any(_is_real(value) and _is_mixed(value) for value in values) and not _connects(plain):
        return False
    return all(len(match[1].split()) < _XML_TEXT_WORDS for match in _XML_TEXT.finditer(plain))


def _has_messages(text: bytes) -> bool:
    """Whether JSON contains conversations. They are texts, although each line looks like a
    setting."""
    return any(all(part.search(text) for part in parts) for parts in _MESSAGES)


def _is_mixed(value: bytes) -> bool:
    return _DIGIT.search(value) is not None and _ALPHA.search(value) is not None


def _is_real(value: bytes) -> bool:
    """Whether a value looks real, not like a placeholder, a path, a word or an expression."""
    if len(value) < 8 or b" " in value or _PLACEHOLDER.match(value) or _CODE.search(value):
        return False
    if value.startswith((b"/", b"~", b"http:", b"https:", b"file:")) and value.count(b"/") > 1:
        return False
    if (token := _TOKEN.search(value)) is not None:
        return _is_real_token(token[0])
    if b"example" in value.lower():
        return False
    return not (value.isalpha() and (value.islower() or value.istitle()))


def _may_have_token(text: bytes) -> bool:
    return any(char in text and any(mark in text for mark in marks) for char, marks in _TOKEN_MARKS)


def _has_token(text: bytes) -> bool:
    return any(_is_real_token(match[0]) for match in _TOKEN.finditer(text))


def _is_real_token(token: bytes) -> bool:
    # The numbers of workspaces in tokens of Slack are not secret, and may be anything.
    secret = token.rpartition(b"-")[2] if token.startswith(b"xox") else token
    return len(set(token)) >= _MIN_VARIETY and _SEQUENCE.search(secret) is None


def _is_token_alone(text: bytes) -> bool:
    """Whether the text consists almost entirely of tokens."""
    size = sum(len(match[0]) for match in _TOKEN.finditer(text))
    return 5 * size > 4 * sum(map(len, text.split()))


def _is_url_alone(text: bytes) -> bool:
    """Whether the text is nothing but a URL with a password."""
    url = _URL.match(line := text.strip())
    return url is not None and len(line.split()) == 1 and not _WEAK_URL_PASSWORD.match(url[1])
