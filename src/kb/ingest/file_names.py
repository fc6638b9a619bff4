"""What a file's name says: its text, its title, its day, and whether it keeps a secret.

Pure. Serves the walk and the parsers. `secret_files` looks at the content too.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from datetime import date

# Folders that hold versions, dependencies or caches, kb's own store and uploads under way. Never
# read.
TOOL_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".kb", ".kb-uploads", "node_modules", "__pycache__"}
)
VENV_MARK = "pyvenv.cfg"
SECRET = "may hold secrets"

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
        "secret.json", "secret.toml", "secret.yaml", "secret.yml",
        "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
    }
)  # fmt: skip
_SECRET_STARTS = (".env.", "id_dsa", "id_ecdsa", "id_ed25519", "id_rsa")
_SECRET_JSON = ("client_secret", "gcp-key", "gcp_key", "service-account", "service_account")
_SECRET_ENDS = (
    ".env", ".gpg", ".jks", ".kdb", ".kdbx", ".key", ".keystore", ".kubeconfig", ".p12", ".pem",
    ".pfx", ".pgp", ".ppk", ".tfstate", ".tfstate.backup", ".tfvars",
)  # fmt: skip

_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})(?!\d)")
_SEPARATORS = re.compile(r"[-_\s]+")


def is_secret(name: str, *, folder: bool = False) -> bool:
    """Whether a file or folder of this name is known to hold keys or passwords."""
    lower = name.lower()
    if folder:
        return lower in _SECRET_FOLDERS
    return (
        lower in _SECRET_NAMES
        or lower.endswith(_SECRET_ENDS)
        or lower.startswith(_SECRET_STARTS)
        or (lower.endswith(".json") and lower.startswith(_SECRET_JSON))
    )


def leads_to_secret(path: str, *, folder: bool = False) -> bool:
    """Whether what is at `path` keeps a secret, or lies in a folder that does."""
    *above, name = path.replace(os.sep, "/").split("/")
    return is_secret(name, folder=folder) or any(is_secret(step, folder=True) for step in above)


def portable(names: Sequence[str]) -> list[str]:
    """The names of one folder as text that every system, and JSON, can carry: NFC, with bytes that
    are not UTF-8 as `\\xNN`. Different names stay different."""
    if all(name.isascii() and "\\" not in name for name in names):
        return list(names)
    present, taken, texts = set(names), set[str](), []
    for name in names:
        text = _readable(name)
        # Two spellings of one text (`é` in one or in two characters): the odd one shows its bytes.
        if text in taken or (text != name and text in present):
            text = _escaped(name)
        taken.add(text)
        texts.append(text)
    return texts


def portable_path(path: str) -> str:
    """`path` as text, name by name, with `/`."""
    return "/".join(portable([name])[0] for name in path.replace(os.sep, "/").split("/"))


def _readable(name: str) -> str:
    text = _marked(name).decode("utf-8", "backslashreplace")
    return unicodedata.normalize("NFC", text)


def _escaped(name: str) -> str:
    return _marked(name).decode("ascii", "backslashreplace")


def _marked(name: str) -> bytes:
    """The name's bytes; a `\\x` that stands in the name itself must not read as one of ours."""
    return os.fsencode(name.replace("\\x", "\\x5cx"))


_SOURCES = frozenset({".rst", ".md", ".adoc", ".org"})


def suffix_of(name: str) -> str:
    """`.md` for `Notes.MD`; nothing for `README` and for `.profile`; `.rst` for `index.rst.txt`, as
    documentation that is served shows its sources."""
    stem, suffix = os.path.splitext(name)
    if suffix.lower() == ".txt" and (inner := os.path.splitext(stem)[1].lower()) in _SOURCES:
        return inner
    return suffix.lower()


def day_of(name: str) -> str | None:
    """The day that a name starts with, if there is such a day: `2026-03-01 call.md`."""
    found = _DAY.match(name)
    if found is None:
        return None
    try:
        date.fromisoformat(found[1])
    except ValueError:
        return None
    return found[1]


def title_of(name: str) -> str:
    """A title for a file that has none: `2026-03-01-first_call.md` -> `2026-03-01 first call`."""
    stem = os.path.splitext(name)[0]
    if os.path.splitext(stem)[1].lower() in _SOURCES:
        stem = os.path.splitext(stem)[0]
    day = day_of(stem) or ""
    words = _SEPARATORS.sub(" ", stem[len(day) :]).strip()
    return f"{day} {words}".strip() or name
