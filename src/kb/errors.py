"""The whole error tree of kb.

    KbError
      InvalidRequest          a value, field or option that is not valid
        QuerySyntax           a single-quoted FTS5 expression with a syntax error
        InvalidCitation       a URI that is not path#L3-L9 or path#page=4
        BrokenImport          an unreadable line in an export
      NotFound                no such document, chunk, root or tag
      ConfigError             an unusable config file or KB_* variable
      PathMissing             a path to ingest that does not exist
      ParserUnavailable       the parser process cannot be started
      WatchFailed             the operating system refuses to watch a folder
      StoreError
        StoreMissing          the store does not exist yet
        StoreUnusable         not a kb store, damaged, or a folder where a file should be
          IndexUnusable       the full-text index is missing or damaged
        StoreTooNew           written by a newer version of kb
        StoreReadOnly         a write to a read-only store
        StoreBusy             another process held the write lock for too long
          SnapshotLost        a standby has ended a read, which can be repeated
        DiskFull              the disk is full; everything committed is kept
      ModelError              a model that cannot be used, or failed
        ModelMissing          no such model, or its files are missing
        ModelBroken           damaged files, or outputs that differ from the manifest
        ModelMismatch         the store's vectors come from another model
        ModelUnfit            a model that failed the exam and cannot replace the active one
        EndpointError         an embedding or download server that does not respond
        Offline               a connection that models.offline forbids
      MissingExtra            a feature whose optional dependency is not installed
      EvalDataError           unreadable judgments, queries or corpus
      Refused                 a request that the server rejects
        TokenNeeded           the token is missing or wrong
        Forbidden             the token lacks a right, or its limits exclude something
        TooManyRequests       the token has sent more requests than it may
        Foreign               the Origin or Host header names another site
        EditConflict          a note that changed while it was edited
        PathRefused           a path outside the folders that clients may use
        FileConflict          an upload would overwrite a file that kb did not write
        MalformedRequest      not HTTP, or ambiguous HTTP
        WrongMethod           a method that the route does not support
        TooSlow               the request did not arrive in time
        TooLarge              the request exceeds a size limit
        WrongContent          an unsupported content type
        TooBusy               the server is at capacity; retry later
      Stopped                 work that ended without a result
        DeadlineExceeded      it took longer than its time limit
        Cancelled             its caller canceled it
          ClientGone          the client disconnected

Each error has a `code` (stable, for programs), a `message` (what went wrong), a `hint` (what to do
about it), an exit status for the command line and a status for HTTP. `KbError` itself is never
raised.
"""

from __future__ import annotations

import os

from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class KbError(Exception):
    """The base of every error that kb raises on purpose. Its texts may quote file names and server
    responses; characters that UTF-8 cannot encode are escaped."""

    code = "error"
    exit_status = 2
    http_status = 500

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = to_unicode(message)
        self.hint = to_unicode(hint)
        super().__init__(self.message)

    def to_dict(self) -> dict[str, str]:
        """Return the error as `error.v1`."""
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


class IndexUnusable(StoreUnusable):
    """Caught by the lexical retriever, which scans the text instead."""

    code = "index_unusable"


class StoreTooNew(StoreError):
    code = "store_too_new"


class StoreReadOnly(StoreError):
    code = "store_read_only"
    http_status = 403


class StoreBusy(StoreError):
    code = "store_busy"


class SnapshotLost(StoreBusy):
    """A standby has ended a read: to replay a change that the read conflicts with, or because it
    stops. The read can be repeated at once; the primary answers it."""


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


class Forbidden(Refused):
    code = "forbidden"


class TooManyRequests(Refused):
    code = "too_many_requests"
    http_status = 429

    def __init__(self, message: str, hint: str = "", *, retry_after_s: int = 1) -> None:
        super().__init__(message, hint)
        self.retry_after_s = retry_after_s


class Foreign(Refused):
    code = "foreign"


class PathRefused(Refused):
    code = "path_refused"


class EditConflict(Refused):
    code = "edit_conflict"
    http_status = 409


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
    http_status = 503


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


def check_choice(name: str, value: str, valid: tuple[str, ...]) -> str:
    """Return `value` if it is one of `valid`; otherwise raise an `InvalidRequest` that lists
    them."""
    if value in valid:
        return value
    raise InvalidRequest(
        f"{name} cannot be {short_repr(value)}", f"valid values for {name}: {', '.join(valid)}"
    )


def short_repr(value: object) -> str:
    """Return the `repr` of any value, cut to a length that suits an error message."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        return f"a very large {type(value).__name__}"
    return text if len(text) <= _REPR_CHARS else f"{text[:_REPR_CHARS]}…"


def is_unicode(text: str) -> bool:
    """Whether `text` can be encoded in UTF-8. A lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def to_unicode(text: str) -> str:
    """Return `text` with lone surrogates escaped, so that it can be encoded in UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def check_text(name: str, value: object) -> str:
    """Return `value` if it is a string that can be stored; lone surrogates are refused."""
    if isinstance(value, str):
        if is_unicode(value):
            return value
        raise InvalidRequest(f"{name} contains a lone surrogate", "use valid UTF-8")
    raise InvalidRequest(f"{name} has type {type(value).__name__}", f"{name} must be a string")


def check_path(name: str, value: object) -> Path:
    """Return `value` as a local path, with `~` expanded."""
    from pathlib import Path

    try:
        text = os.fspath(value)  # type: ignore[call-overload]  # checked here
        if not isinstance(text, str) or not text or "\0" in text:
            raise TypeError
        os.fsencode(text)
        return Path(text).expanduser()
    except (TypeError, UnicodeEncodeError, RuntimeError):  # RuntimeError: unknown home folder
        raise InvalidRequest(
            f"{name} cannot be {short_repr(value)}", f"{name} must be a path"
        ) from None


_MAX_INTEGER = 1_000_000
_REPR_CHARS = 100


def check_integer(name: str, value: object, *, least: int = 0) -> int:
    """Return `value` if it is an integer from `least` to one million."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MAX_INTEGER:
        return value
    raise InvalidRequest(
        f"{name} cannot be {short_repr(value)}",
        f"{name} is a whole number from {least} to {_MAX_INTEGER:,}",
    )
