"""`kb token`: named tokens for servers."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Choice, Command, common_options, option, split_commas
from kb.errors import InvalidRequest
from kb.types import NOTES_ROOT, RIGHTS, SCOPES, Identity, JsonDict, Limits

if TYPE_CHECKING:
    from kb.server.tokens import TokenFile, TokenRecord
    from kb.types import Root


@click.group("token")
@common_options()
def token_command() -> None:
    """Manage the tokens that clients of kb serve and kb mcp send.

    A token has a name, a right, and optionally limits: the scopes, folders or tags that it may
    see. Servers notice changes at once. Once there is a token, every request needs one.

    \b
    Examples:
      kb token add ci --right read --root handbook
      kb token list
      kb token rotate ci
      kb token revoke ci
    """


@token_command.command("add", cls=Command)
@click.argument("name")
@option("--right", type=Choice(RIGHTS), default="read", help="What the token may do: read; write: "
        "also add, tag, upload and remove; admin: also ingest folders.  "
        "[default: read]")  # fmt: skip
@option("--scope", type=Choice(SCOPES), multiple=True, help="Only documents in this scope; can be "
        "repeated.")  # fmt: skip
@option("--root", metavar="NAME", multiple=True, help="Only documents in this folder: a name that "
        "kb status lists, or note: for notes; can be repeated.")  # fmt: skip
@option("--tags", metavar="A,B", multiple=True, help="Only documents with one of these tags.")
@option("--rate", type=click.IntRange(1, 1_000_000), metavar="N", help="The maximum number of "
        "requests per minute.  [default: no limit]")  # fmt: skip
@option("--ttl", metavar="TIME", help="When the token expires: 90d, 12h, never.  [default: never]")
@common_options()
@pass_invocation
def add_command(
    invocation: Invocation,
    /,
    *,
    name: str,
    right: str,
    scope: tuple[str, ...],
    root: tuple[str, ...],
    tags: tuple[str, ...],
    rate: int | None,
    ttl: str | None,
) -> None:
    """Create a token, and print it.

    It is printed only once, because kb stores only its hash. Limits of different kinds all apply.

    \b
    Examples:
      kb token add alice --right write
      kb token add agent --scope project --rate 600
      kb token add ci --root handbook --ttl 90d
    """
    limits = Limits(
        tuple(scope),
        tuple(_check_limit_name(name.rstrip("/"), "--root") for name in root),
        tuple(_check_limit_name(tag.lstrip("#"), "--tags") for tag in split_commas(tags)),
    )
    if limits.roots:
        with invocation.open() as kb:
            _warn_unknown_roots(kb.roots() if kb.exists() else [], limits)
    token = _file(invocation).add(
        Identity(name, right, limits, rate or 0), time.time(), _expiry(ttl)
    )
    _write_token(invocation, name, token)


@token_command.command("rotate", cls=Command)
@click.argument("name")
@common_options()
@pass_invocation
def rotate_command(invocation: Invocation, /, *, name: str) -> None:
    """Replace a token with a new one, and print it.

    The new token has the same right and limits; the old one stops working at once. To let clients
    switch one by one, add a second token, and revoke the first after all clients have switched.

    \b
    Example:
      kb token rotate ci
    """
    _write_token(invocation, name, _file(invocation).rotate(name, time.time()))


@token_command.command("revoke", cls=Command)
@click.argument("name")
@common_options()
@pass_invocation
def revoke_command(invocation: Invocation, /, *, name: str) -> None:
    """Delete a token. Running servers refuse it from then on.

    \b
    Example:
      kb token revoke alice
    """
    file = _file(invocation)
    file.revoke(name)
    if invocation.json:
        _write_list(invocation, file.read())
    else:
        output.write(f"revoked {output.escape(name)}")


@token_command.command("list", cls=Command)
@common_options()
@pass_invocation
def list_command(invocation: Invocation) -> None:
    """List tokens with their rights and limits.

    \b
    Example:
      kb token list --json
    """
    _write_list(invocation, _file(invocation).read())


def _check_limit_name(name: str, option_name: str) -> str:
    """Return the name of a limit. Raises `InvalidRequest` for an empty name, which would match no
    document."""
    if not name:
        raise InvalidRequest(f"{option_name} is empty", "name it, or leave the option out")
    return name


def _file(invocation: Invocation) -> TokenFile:
    from kb.server.tokens import token_file_of

    with invocation.open() as kb:
        return token_file_of(kb)


def _expiry(ttl: str | None) -> str | None:
    from kb.ingest.dates import expiry

    if ttl is None:
        return None
    try:
        return expiry(ttl, datetime.now(UTC))
    except ValueError as error:
        raise InvalidRequest(str(error), "give a duration such as 90d") from None


def _warn_unknown_roots(roots: list[Root], limits: Limits) -> None:
    known = {root.name for root in roots} | {NOTES_ROOT}
    for name in limits.roots:
        if name not in known:
            output.warn(f"the store has no folder {output.escape(name)} yet")


def _write_token(invocation: Invocation, name: str, token: str) -> None:
    if invocation.json:
        output.write_json({"schema_version": "token.v1", "name": name, "token": token})
    else:
        output.write(token)
        output.note("copy it now: it will not be shown again")


def _write_list(invocation: Invocation, records: list[TokenRecord]) -> None:
    if invocation.json:
        shapes = [_shape(each) for each in records]
        output.write_json({"schema_version": "tokens.v1", "tokens": shapes})
        return
    if not records:
        output.note("no tokens; to create one: kb token add NAME")
    for each in records:
        output.write(output.escape(_line(each)))


def _shape(record: TokenRecord) -> JsonDict:
    identity, limits = record.identity, record.identity.limits
    return {
        "name": identity.name,
        "right": identity.right,
        "scopes": list(limits.scopes),
        "roots": list(limits.roots),
        "tags": list(limits.tags),
        "requests_per_minute": identity.requests_per_minute or None,
        "created_at": record.created_at,
        "expires_at": record.expires_at,
    }


def _line(record: TokenRecord) -> str:
    identity, limits = record.identity, record.identity.limits
    facts = [identity.right]
    for word, values in (("scope", limits.scopes), ("root", limits.roots), ("tags", limits.tags)):
        facts += [f"{word} {' or '.join(values)}"] if values else []
    if identity.requests_per_minute:
        facts.append(f"{identity.requests_per_minute} requests per minute")
    if record.expires_at is not None:
        facts.append(f"expires {record.expires_at}")
    return f"{identity.name}: {', '.join(facts)}"
