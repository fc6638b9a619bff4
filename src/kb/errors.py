"""Every error kb raises on purpose.

    KbError
      InvalidRequest          a value, field or flag that cannot be used
        QuerySyntax           a single-quoted FTS5 expression that FTS5 refuses
        InvalidCitation       a URI that is not path#L3-L9 or path#page=4
        BrokenImport          a line of an export that cannot be read
      NotFound                no such document, chunk, root or tag
      ConfigError             a config file or KB_* variable that cannot be used
      PathMissing             a path to ingest that does not exist
      ParserUnavailable       the process that parses files cannot be started
      WatchFailed             folders that the system does not let us watch
      StoreError
        StoreMissing          there is no store yet
        StoreUnusable         not a kb store, damaged, or a folder where a file should be
        StoreTooNew           written by a newer kb
        StoreReadOnly         a write to a store that cannot be written
        StoreBusy             another process held the write lock for too long
        DiskFull              the disk is full; what was committed is kept
      ModelError              an encoder that cannot be used, or failed
        ModelMissing          no such model, or its files are not there
        ModelBroken           files that are damaged, or a model with other outputs than it says
        ModelMismatch         the store's vectors were made by another model
        ModelUnfit            a model that failed the exam, and is to take another's place
        EndpointError         a server that gives vectors, or files of models, and does not answer
        Offline               a connection that the setting models.offline forbids
      MissingExtra            a part that an optional dependency brings
      EvalDataError           judged data that cannot be read
      Refused                 a request that the server does not take
        TokenNeeded           without the token, or with a wrong one
        Foreign               from another site, or to another name than the server's
        PathRefused           about a path that clients may not name
        FileConflict          an upload in the place of a file that kb has not written
        MalformedRequest      not HTTP, or HTTP that can be read in two ways
        WrongMethod           a route that is asked in another way
        TooSlow               a request that did not arrive in time
        TooLarge              a request that is longer than it may be
        WrongContent          a body of another type than is taken
        TooBusy               more work than the server takes on: come back later
      Stopped                 work that ended before it had an answer
        DeadlineExceeded      it took longer than it may
        Cancelled             its caller stopped it
          ClientGone          nobody waits for the answer any more

Each has a `code` (stable, for programs), a `message` (what happened), a `hint` (what to do), an
exit status for the command line and a status for HTTP. `KbError` itself is never raised.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class KbError(Exception):
    code = "error"
    exit_status = 2
    http_status = 500

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def to_dict(self) -> dict[str, str]:
        """`error.v1`."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class InvalidRequest(KbError):
    code = "invalid_request"
    http_status = 422


class QuerySyntax(InvalidRequest):
    code = "query_syntax"


class InvalidCitation(InvalidRequest):
    code = "invalid_citation"


class BrokenImport(InvalidRequest):
    code = "broken_import"


class NotFound(KbError):
    code = "not_found"
    http_status = 404


class ConfigError(KbError):
    code = "config_error"


class PathMissing(KbError):
    code = "path_missing"
    http_status = 404


class ParserUnavailable(KbError):
    code = "parser_unavailable"
    http_status = 503


class WatchFailed(KbError):
    code = "watch_failed"


class StoreError(KbError):
    code = "store_error"
    http_status = 503


class StoreMissing(StoreError):
    code = "store_missing"
    http_status = 404


class StoreUnusable(StoreError):
    code = "store_unusable"


class StoreTooNew(StoreError):
    code = "store_too_new"


class StoreReadOnly(StoreError):
    code = "store_read_only"
    http_status = 403


class StoreBusy(StoreError):
    code = "store_busy"


class DiskFull(StoreError):
    code = "disk_full"
    http_status = 507


class ModelError(KbError):
    code = "model_error"
    http_status = 503


class ModelMissing(ModelError):
    code = "model_missing"
    http_status = 404


class ModelBroken(ModelError):
    code = "model_broken"


class ModelMismatch(ModelError):
    code = "model_mismatch"
    http_status = 409


class ModelUnfit(ModelError):
    code = "model_unfit"
    http_status = 409


class EndpointError(ModelError):
    code = "endpoint_error"


class Offline(ModelError):
    code = "offline"


class MissingExtra(KbError):
    code = "missing_extra"
    http_status = 501


class EvalDataError(KbError):
    code = "eval_data"
    http_status = 422


class Refused(KbError):
    code = "refused"
    http_status = 403


class TokenNeeded(Refused):
    code = "token_needed"
    http_status = 401


class Foreign(Refused):
    code = "foreign"


class PathRefused(Refused):
    code = "path_refused"


class FileConflict(Refused):
    code = "file_conflict"
    http_status = 409


class MalformedRequest(Refused):
    code = "malformed_request"
    http_status = 400


class WrongMethod(Refused):
    code = "wrong_method"
    http_status = 405


class TooSlow(Refused):
    code = "too_slow"
    http_status = 408


class TooLarge(Refused):
    code = "too_large"
    http_status = 413


class WrongContent(Refused):
    code = "wrong_content"
    http_status = 415


class TooBusy(Refused):
    code = "too_busy"
    http_status = 429


class Stopped(KbError):
    code = "stopped"
    http_status = 503


class DeadlineExceeded(Stopped):
    code = "deadline"
    http_status = 504


class Cancelled(Stopped):
    code = "cancelled"


class ClientGone(Cancelled):
    code = "client_gone"
    http_status = 499


def choose(name: str, value: str, valid: tuple[str, ...]) -> str:
    """`value` if it is one of `valid`; else the error that lists them."""
    if value in valid:
        return value
    raise InvalidRequest(
        f"{name} cannot be {shown(value)}", f"valid values for {name}: {', '.join(valid)}"
    )


def shown(value: object) -> str:
    """`value` in a message: whatever it is, and never much of it."""
    try:
        text = repr(value)
    except ValueError:  # a number of over 4,300 digits has no text in Python
        return f"such a large {type(value).__name__}"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def is_unicode(text: str) -> bool:
    """Whether `text` can be written in UTF-8: half a character (a lone surrogate) cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_of(name: str, value: object) -> str:
    """`value` if it is a text. One with a lone surrogate is none: it cannot be stored."""
    if isinstance(value, str):
        if is_unicode(value):
            return value
        raise InvalidRequest(f"{name} is not Unicode text: it has a lone surrogate", "use UTF-8")
    raise InvalidRequest(f"{name} is a {type(value).__name__}", f"{name} must be a text")


def path_of(name: str, value: object) -> Path:
    """`value` as the path of a file on this machine; `~` is the home folder."""
    from pathlib import Path

    try:
        text = os.fspath(value)  # type: ignore[call-overload]  # that is what is checked
        if not isinstance(text, str) or not text or "\0" in text:
            raise TypeError
        os.fsencode(text)
        return Path(text).expanduser()
    except (TypeError, UnicodeEncodeError, RuntimeError):  # RuntimeError: a home that is unknown
        raise InvalidRequest(f"{name} cannot be {shown(value)}", "name a file") from None


_MOST = 1_000_000
_SHOWN_CHARS = 100


def whole_number(name: str, value: object, *, least: int = 0) -> int:
    """`value` if it is a whole number that a list can be cut by."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MOST:
        return value
    raise InvalidRequest(
        f"{name} cannot be {shown(value)}", f"{name} is a whole number from {least} to {_MOST:,}"
    )
