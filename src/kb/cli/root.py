"""The `kb` command. A subcommand's module is imported when the subcommand runs, so that no command
waits for the imports of another."""

from __future__ import annotations

from importlib import import_module

import click

from kb import __version__
from kb.cli.options import common_options

_COMMANDS = {
    "init": "setup",
    "ingest": "ingest",
    "attach": "ingest",
    "add": "notes",
    "edit": "notes",
    "rm": "documents",
    "search": "search",
    "find": "find",
    "ask": "ask",
    "similar": "search",
    "compare": "compare",
    "map": "map",
    "get": "show",
    "open": "open",
    "list": "documents",
    "tag": "documents",
    "status": "show",
    "gc": "documents",
    "doctor": "maintenance",
    "embed": "embed",
    "jobs": "jobs",
    "reindex": "jobs",
    "models": "models",
    "embed-text": "models",
    "backup": "maintenance",
    "copy": "maintenance",
    "export": "maintenance",
    "import": "maintenance",
    "watch": "watch",
    "serve": "serve",
    "mcp": "mcp",
    "token": "token",
    "config": "setup",
    "eval": "evaluation",
    "completion": "setup",
}


class LazyGroup(click.Group):
    """Lists commands in the order a new user needs them: add, find, maintain."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"kb.cli.{_COMMANDS[cmd_name]}")
        command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a name; click cannot, since the commands are not loaded."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}.{_suggestion(name)}")
        return super().resolve_command(ctx, args)


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), _COMMANDS, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


@click.group(
    "kb",
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="kb %(version)s", help="Show the version and exit.")
@common_options()
@click.pass_context
def cli(context: click.Context) -> None:
    """Find the right passage in your notes, papers and code, with a citation that you can open.

    \b
    Examples:
      kb ingest ~/notes               read a folder, or update it
      kb search retry storm           find passages
      kb ask why did the batch fail   quote the sentences that answer
      kb get notes/retry.md#L12-L34   print one passage
      kb open 1                       open the first hit in your editor
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
