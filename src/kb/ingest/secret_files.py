"""Whether a file holds a secret: by its name, by its folders, and by its first bytes.

Pure. Everything that reads files uses this rule: ingest, uploads, watch, and showing passages. It
finds files that *are* a key or a list of credentials, not texts about them: a PEM header in prose
has no key after it, and a key in a long text is not most of that text. All patterns match in linear
time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from kb.ingest.decode import wide_encoding
from kb.ingest.secret_settings import (
    dockerfile_sets_secret,
    find_token,
    is_dockerfile,
    is_shell_script,
    script_sets_secret,
    sets_secret,
)

HEAD_BYTES = 64 * 1024  # the start of a file, in which secrets are detected
HOW_TO_INCLUDE = "to read it anyway, add it to ingest.include_secrets"
SECRET = "may hold secrets"
BY_NAME = f"{SECRET}, judging by its name ({HOW_TO_INCLUDE})"

_SECRET_FOLDERS = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".password-store"}
)
_SECRET_NAMES = frozenset(
    {
        ".boto", ".dockercfg", ".env", ".envrc", ".git-credentials", ".htpasswd", ".my.cnf",
        ".netrc", ".npmrc", ".pgpass", ".pypirc", ".s3cfg", ".vault-token", "_netrc",
        ".bash_history", ".mysql_history", ".node_repl_history", ".psql_history",
        ".python_history", ".sqlite_history", ".zsh_history",
        "accesskeys.csv", "credentials", "credentials.csv", "credentials.json", "htpasswd",
        "kubeconfig", "kubeconfig.json", "kubeconfig.yaml", "kubeconfig.yml", "rootkey.csv",
        "bash_history", "zsh_history", "passwords.csv", "passwords.txt", "password.txt",
        ".fetchmailrc", ".htdigest", ".msmtprc", ".mylogin.cnf", ".smbcredentials",
        "credentials.toml", "credentials.xml", "credentials.yaml", "credentials.yml", "htdigest",
        "logins.json", "rclone.conf",
        "secret.json", "secret.toml", "secret.yaml", "secret.yml",
        "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
    }
)  # fmt: skip
_PASSWORD_STEMS = ("credentials", "password", "passwords")
_LOGINS = ("logins.ods", "logins.xlsx")  # text files of this name may be statistics
_SHEETS = (".csv", ".ods", ".tsv", ".xlsx")
_SECRET_STARTS = (".env.", "id_dsa", "id_ecdsa", "id_ed25519", "id_rsa")
_SECRET_JSON = ("client_secret", "gcp-key", "gcp_key", "service-account", "service_account")
_SECRET_ENDS = (
    ".agekey", ".env", ".gpg", ".jks", ".kdb", ".kdbx", ".key", ".keystore", ".kubeconfig",
    ".nmconnection", ".ovpn", ".p12", ".p8", ".pem", ".pfx", ".pgp", ".ppk",
    ".tfstate", ".tfstate.backup", ".tfvars",
)  # fmt: skip

_SCRIPT_ENDS = (".bash", ".bat", ".cmd", ".csh", ".fish", ".ksh", ".ps1", ".sh", ".zsh")
_DOCKERFILES = ("dockerfile", "containerfile")
_SETTINGS_ENDS = (
    ".cfg", ".cnf", ".conf", ".config", ".ini", ".json", ".properties", ".toml", ".yaml", ".yml",
)  # fmt: skip
_COOKIES = re.compile(rb"\s*# (?:Netscape )?HTTP Cookie File")
_COMMENTS = (b"#", b";", b"//")
_PREAMBLE = re.compile(rb"(?:\s+|[#;][^\n]*|//[^\n]*)*(?:---[ \t]*\n\s*)?")

# A block of PEM, PGP or SSH2 armor, which may be cut off at the end of the text.
_BLOCK = re.compile(
    rb"-{4,5} ?BEGIN ([A-Z0-9 ]{1,60}?) ?-{4,5}(.*?)(?:-{4,5} ?END [A-Z0-9 ]{1,60}-{4,5}|\Z)",
    re.DOTALL,
)
_KEY_BODY = re.compile(rb"[A-Za-z0-9+/=]{40}")
_KEY_STARTS = re.compile(
    rb"PuTTY-User-Key-File-\d+:|AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{20}"
    rb"|untrusted comment: [^\n]{0,80}secret key"
)
_WIREGUARD = re.compile(rb"^[ \t]*PrivateKey[ \t]*=[ \t]*[A-Za-z0-9+/]{43}=", re.MULTILINE)

_SERVICE_ACCOUNT = re.compile(rb'"private_key"\s*:\s*"-----BEGIN ')
_JWK = re.compile(rb'"kty"\s*:\s*"'), re.compile(rb'"(?:d|k)"\s*:\s*"[A-Za-z0-9_-]{16}')
_DOCKER = re.compile(rb'"auths"\s*:'), re.compile(rb'"(?:auth|identitytoken)"\s*:\s*"[^"\s]')
_KUBE_JSON = (
    re.compile(rb'"(?:client-key-data|token)"\s*:\s*"[^"\s]'),
    re.compile(rb'"(?:clusters|users)"\s*:\s*\['),
)

_YAML_START = re.compile(
    rb"(?:apiVersion|kind|clusters|contexts|current-context|preferences|users|metadata|type"
    rb"|data|stringData)[ \t]*:"
)
_KUBE_CONFIG = (
    re.compile(rb"^kind[ \t]*:[ \t]*['\"]?Config\b", re.MULTILINE),
    re.compile(
        rb"^[ \t-]*(?:client-key-data|token|password|id-token|refresh-token"
        rb"|certificate-authority-data)[ \t]*:[ \t]*\S",
        re.MULTILINE,
    ),
)
_KUBE_SECRET = (
    re.compile(rb"^kind[ \t]*:[ \t]*['\"]?Secret\b", re.MULTILINE),
    # Neither a template ({{ … }}) nor a placeholder (<password>).
    re.compile(
        rb"^(?:data|stringData)[ \t]*:[ \t]*\r?\n"
        rb"[ \t]+[\w.-]+[ \t]*:[ \t]*['\"]?[^\s{<'\"]",
        re.MULTILINE,
    ),
)

_SETTING = re.compile(rb"\[[^\]\n]{1,200}\]|(?:export[ \t]+)?\w{1,80}[ \t]*=")
_AWS = re.compile(
    rb"^[ \t]*(?:export[ \t]+)?(?:aws_secret_access_key|aws_session_token|AWSSecretKey)"
    rb"[ \t]*=[ \t]*['\"]?[A-Za-z0-9/+=]{16}",
    re.MULTILINE | re.IGNORECASE,
)
_AWS_TABLE = re.compile(rb"[^\n]{0,400}\bsecret access key\b", re.IGNORECASE)
_ACCOUNT = re.compile(rb"[^\s:]{1,255}:\S*")
_HASHED = re.compile(
    rb"[^\s:]{1,255}:(?:\$(?:apr1|[1256y]|2[abxy]|argon2id?|7)\$|\{S?SHA(?:256|512)?\})\S",
    re.IGNORECASE,
)
_LINES = 50  # lines of a list to examine
# Names of columns in exports of browsers and password managers.
_PASSWORD_COLUMN = re.compile(
    rb"(?:login[ _]?)?(?:password|passwort|passwd|pwd|kennwort)|mot de passe|contrase\xc3\xb1a"
    rb"|wachtwoord|senha|\xe5\xaf\x86\xe7\xa0\x81|\xe3\x83\x91\xe3\x82\xb9\xe3\x83\xaf\xe3\x83\xbc\xe3\x83\x89",
)
# In tables of tests, `pass` is a result, and its neighbor is a `name`.
_SHORT_PASSWORD_COLUMN = re.compile(rb"pass|pw")
_USER_COLUMN = re.compile(rb"(?:login[ _]?)?(?:user[ _]?name|user|login|e-?mail)")
_ANYTHING = re.compile(rb".+", re.DOTALL)
_MIXED = re.compile(rb"(?=\S*[0-9])(?=\S*[A-Za-z])\S{6,}")
_ACCOUNT_COLUMN = re.compile(
    rb"(?:login[ _]?)?(?:url|uri|user ?name|user|name|login|e-?mail|account|benutzername)"
    rb"|web ?site|hostname|title",
)
_PASSWORD_JSON = (
    (re.compile(rb'"items"\s*:'), re.compile(rb'"login"\s*:\s*\{')),
    (re.compile(rb'"(?:vaults|accounts)"\s*:'), re.compile(rb'"loginFields"\s*:')),
)
_PASSWORD_VALUE = re.compile(rb'"password"\s*:\s*"[^"]|"designation"\s*:\s*"password"')
_PGPASS = re.compile(rb"(?:\*|(?=[^:\s]*[a-z.])[^:\s]+):(?:\*|\d{2,5}):[^:\s]+:[^:\s]+:\S+", re.I)
_FILEZILLA_PASSWORD = re.compile(rb"<Pass(?:[ \t][^<>\n]{0,100})?>[^<\s]")
# Secrets of second factors, as authenticator apps export them.
_ONE_TIME = re.compile(
    rb"otpauth://[^\s?]{1,500}\?(?:[^\s&]{1,500}&){0,10}secret=[A-Z2-7]{8}"
    rb"|otpauth-migration://offline\?data=[\w%+/-]{16}",
    re.IGNORECASE,
)
_GIT_CREDENTIALS = re.compile(rb"https?://[^:/@\s]+:[^:/@\s]+@[\w.-]+(?:[:/]\S*)?")
_CLOUD_USER = re.compile(rb'"type"\s*:\s*"authorized_user"'), re.compile(rb'"refresh_token"')
_TERRAFORM = (
    re.compile(rb'"terraform_version"\s*:'),
    re.compile(rb'"serial"\s*:'),
    re.compile(rb'"(?:resources|modules)"\s*:'),
)
_SEP_LINE = re.compile(rb"\"?sep=.\"?[ \t]*\r?\n", re.IGNORECASE)  # in CSV files
_NETRC = re.compile(rb"machine[ \t]+\S+\s+(?:login[ \t]+\S+\s+)?(?:password|passwd)[ \t]+\S")


def secret_reason(path: str, head: bytes, included: Iterable[str] = ()) -> str | None:
    """Return the reason why the file at `path` must not be read, or None if it may be.

    `path` is absolute, or a bare file name if no path is known. `head` holds the first `HEAD_BYTES`
    of the file. `included` are the files and folders to read anyway, as `included_paths` returns
    them.
    """
    if is_included(path, included):
        return None
    if leads_to_secret(path):
        return BY_NAME
    name = os.path.basename(path).lower()
    kind = _kind_of_secret(
        head,
        is_script=name.endswith(_SCRIPT_ENDS),
        is_docker=name.startswith(_DOCKERFILES) or name.endswith(".dockerfile"),
        is_settings=name.endswith(_SETTINGS_ENDS),
        is_mailbox=name.endswith(".mbox"),
    )
    return None if kind is None else f"{kind} ({HOW_TO_INCLUDE})"


def extracted_reason(text: str) -> str | None:
    """Return the reason why a file with the extracted text `text` must not be read, or None if it
    may be: a Word file, a PDF or an e-mail may be little more than a private key."""
    data = text.encode("utf-8", "replace")
    if b"PRIVATE KEY" in data and _is_key(data.strip()):
        return f"holds a private key ({HOW_TO_INCLUDE})"
    return None


def sheet_reason(text: str) -> str | None:
    """Return the reason why a spreadsheet with these rows must not be read, or None if it may."""
    return f"holds passwords ({HOW_TO_INCLUDE})" if _has_password_rows(text) else None


def token_warning(text: str) -> str | None:
    """Return a warning about a text that is read although it contains the token of a service, a
    private key or the secret of a second factor; None if there is none of them. A note or a program
    with a token is read for its other content."""
    if "PRIVATE KEY" in text and _has_key(text.encode("utf-8", "replace")):
        return "contains a private key and was read anyway; if the key is real, replace it"
    if "otpauth" in text and _has_second_factor(text.encode("utf-8", "replace")):
        return (
            "contains the secret of a second factor (otpauth:) and was read anyway; if it is "
            "real, replace it"
        )
    start = find_token(text)
    return start and (
        f"contains what looks like a secret token ({start}) and was read anyway; if the "
        "token is real, revoke it"
    )


def is_secret_name(name: str, *, folder: bool = False) -> bool:
    """Whether files or folders of this name usually hold keys or passwords."""
    lower = name.lower()
    if folder:
        return lower in _SECRET_FOLDERS
    return (
        lower in _SECRET_NAMES
        or lower.endswith(_SECRET_ENDS)
        or lower.startswith(_SECRET_STARTS)
        or (lower.endswith(".json") and lower.startswith(_SECRET_JSON))
        or lower in _LOGINS
        or (lower.endswith(_SHEETS) and lower.rpartition(".")[0] in _PASSWORD_STEMS)
    )


def leads_to_secret(path: str, *, folder: bool = False) -> bool:
    """Whether `path`, or a folder above it, usually holds secrets."""
    *above, name = path.replace(os.sep, "/").split("/")
    return is_secret_name(name, folder=folder) or any(
        is_secret_name(step, folder=True) for step in above
    )


def included_paths(setting: str) -> tuple[str, ...]:
    """The paths of the setting `ingest.include_secrets`, with links resolved."""
    given = (path.strip() for path in setting.split(","))
    return tuple(
        _normalize_case(os.path.realpath(os.path.expanduser(path))) for path in given if path
    )


def is_included(path: str, included: Iterable[str]) -> bool:
    """Whether `path`, absolute and without links, is one of `included` or lies below one."""
    paths = tuple(included)
    if not paths:
        return False
    normal = _normalize_case(path)
    return any(normal == each or normal.startswith(each.rstrip(os.sep) + os.sep) for each in paths)


def _normalize_case(path: str) -> str:
    return os.path.normcase(path)


# --- the first bytes ------------------------------------------------------------------------------


def _kind_of_secret(
    head: bytes, *, is_script: bool, is_docker: bool, is_settings: bool, is_mailbox: bool
) -> str | None:
    """Which kind of secret the file holds, if any. Its beginning, after comments, rules out most
    kinds, so that for most files one search for a private key is enough. The messages of a mailbox
    are examined one by one when they are parsed."""
    text = _as_utf8(head[:HEAD_BYTES])
    if _COOKIES.match(text):
        return "holds cookies"
    if (is_script or is_shell_script(text)) and script_sets_secret(text):
        return "holds a script with secrets"
    if (is_docker or is_dockerfile(text)) and dockerfile_sets_secret(text):
        return "holds a Dockerfile with secrets"
    has_key = b"PRIVATE KEY" in text and not is_mailbox
    if has_key and (_is_key(_without_comments(text)) or (is_settings and _has_key(text))):
        return "holds a private key"
    preamble = _PREAMBLE.match(text)
    bare = text if preamble is None else text[preamble.end() :]
    if (separator := _SEP_LINE.match(bare)) is not None:
        bare = bare[separator.end() :]
    kind = next((kind for kind, matches in _KINDS if matches(bare)), None)
    return "holds secret settings" if kind is None and sets_secret(text) else kind


def _as_utf8(head: bytes) -> bytes:
    if (encoding := wide_encoding(head)) is not None:
        return head.decode(encoding, "ignore").removeprefix("\ufeff").encode()
    return head.removeprefix(b"\xef\xbb\xbf")


def _without_comments(text: bytes) -> bytes:
    """Drop comment lines, and join the others with `\\n`."""
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"\n".join(line for line in lines if not line.lstrip().startswith(_COMMENTS)).strip()


def _is_key(text: bytes) -> bool:
    """Whether a private key makes up more than half of the text, counting other blocks such as
    certificates if the text begins with one."""
    size, private, begins = 0, False, False
    for block in _BLOCK.finditer(text):
        is_private = b"PRIVATE KEY" in block[1] and _KEY_BODY.search(block[2]) is not None
        private = private or is_private
        begins = begins or block.start() == 0
        if is_private or begins:
            size += _count(block[0])
    return private and 2 * size > _count(text)


def _has_key(text: bytes) -> bool:
    """Whether a private key is anywhere in the text."""
    return any(
        b"PRIVATE KEY" in block[1] and _KEY_BODY.search(block[2]) is not None
        for block in _BLOCK.finditer(text)
    )


def _has_second_factor(text: bytes) -> bool:
    return any(b"example" not in one[0].lower() for one in _ONE_TIME.finditer(text))


def _count(text: bytes) -> int:
    """Count the bytes other than whitespace."""
    return sum(map(len, text.split()))


def _is_service_account(text: bytes) -> bool:
    return text.startswith(b"{") and (
        _SERVICE_ACCOUNT.search(text) is not None
        or any(_all(patterns, text) for patterns in (_JWK, _DOCKER, _CLOUD_USER, _TERRAFORM))
    )


def _is_kubernetes(text: bytes) -> bool:
    if text.startswith(b"{"):
        return _all(_KUBE_JSON, text)
    if not _YAML_START.match(text):
        return False
    return _all(_KUBE_CONFIG, text) or _all(_KUBE_SECRET, text)


def _is_aws(text: bytes) -> bool:
    if _SETTING.match(text):
        return _AWS.search(text) is not None
    first = text.partition(b"\n")[0]
    return b"," in first and _AWS_TABLE.match(first) is not None


def _is_password_list(text: bytes) -> bool:
    if _NETRC.match(text):
        return True
    if text.startswith(b"{"):
        known = any(_all(patterns, text) for patterns in _PASSWORD_JSON)
        return known and _PASSWORD_VALUE.search(text) is not None
    if text.startswith(b"<"):
        if b"<FileZilla" in text[:1000]:
            return _FILEZILLA_PASSWORD.search(text) is not None
        return b"<KeePassFile" in text[:1000] and b"<Key>Password</Key>" in text
    lines = [line for line in map(bytes.strip, text.split(b"\n", _LINES)[:_LINES]) if line]
    if not lines:
        return False
    if _is_password_table(lines):
        return True
    entries = [line for line in lines if not line.startswith(_COMMENTS)]
    if any(all(map(form.fullmatch, entries)) for form in (_PGPASS, _GIT_CREDENTIALS)):
        return True
    if entries and all(map(_ONE_TIME.match, entries)):
        return True
    return all(map(_ACCOUNT.fullmatch, entries)) and any(map(_HASHED.match, entries))


def _is_password_table(lines: list[bytes]) -> bool:
    """Whether the lines are a table with a column of passwords beside one of accounts."""
    separator = max((b",", b";", b"\t"), key=lines[0].count)
    columns = _cells(lines[0].lower(), separator)
    rows = [_cells(line, separator) for line in lines[1:]]
    return _has_passwords(columns, rows, _PASSWORD_COLUMN, _ACCOUNT_COLUMN, _ANYTHING) or (
        _has_passwords(columns, rows, _SHORT_PASSWORD_COLUMN, _USER_COLUMN, _MIXED)
    )


def _has_password_rows(text: str) -> bool:
    """Whether the rows of a spreadsheet, with `|` between cells, have a column of passwords beside
    one of accounts."""
    lines = text.encode("utf-8", "ignore").split(b"\n")
    for number, line in enumerate(lines):
        columns = _cells(line.lower(), b"|")
        if not any(map(_PASSWORD_COLUMN.fullmatch, columns)):
            continue
        rows = [_cells(each, b"|") for each in lines[number + 1 : number + 1 + _LINES]]
        if _has_passwords(columns, rows, _PASSWORD_COLUMN, _ACCOUNT_COLUMN, _ANYTHING):
            return True
    return False


def _has_passwords(
    columns: list[bytes],
    rows: list[list[bytes]],
    password: re.Pattern[bytes],
    account: re.Pattern[bytes],
    value: re.Pattern[bytes],
) -> bool:
    at = next((at for at, name in enumerate(columns) if password.fullmatch(name)), None)
    if at is None or not any(map(account.fullmatch, columns)):
        return False
    return any(len(row) > at and value.fullmatch(row[at]) for row in rows)


def _cells(line: bytes, separator: bytes) -> list[bytes]:
    return [cell.strip(b" \"'") for cell in line.split(separator)]


def _all(patterns: Iterable[re.Pattern[bytes]], text: bytes) -> bool:
    return all(pattern.search(text) for pattern in patterns)


_KINDS: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    ("holds a private key", lambda text: _KEY_STARTS.match(text) is not None),
    (
        "holds a private key",
        lambda text: text.startswith(b"[") and _WIREGUARD.search(text) is not None,
    ),
    ("holds an account key", _is_service_account),
    ("holds Kubernetes credentials", _is_kubernetes),
    ("holds AWS credentials", _is_aws),
    ("holds passwords", _is_password_list),
)
