"""The server of the official SDK around the tools: over stdio, or over streamable HTTP.

HTTP is without sessions: every request stands for itself, so that clients outlive the server's
restart and nothing is kept for those that have gone. Who may ask is for `kb.server.guard` to say,
as it does for `kb serve`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from kb import __version__
from kb.deadline import Deadline
from kb.errors import Cancelled, ClientGone, ConfigError, KbError, NotFound, short_repr
from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.mcp import formatting
from kb.mcp.stdio_messages import Answering
from kb.mcp.tools import INSTRUCTIONS, TOOLS, Tool
from kb.shutdown import Shutdown
from mcp import types

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kb.embedding.worker import Worker
    from kb.server.guard import Rules

PATH = "/mcp"
_CALLS_AT_ONCE = 4
_BUG = "code: internal_error\nmessage: something went wrong inside kb\nhint: please report it"
_log = logger("kb.mcp")


def make_server(
    kb: KnowledgeBase, until: Deadline | None = None, on_end: Callable[[], None] = lambda: None
) -> Server[None]:
    """A server with the four tools over `kb`, which its caller closes. While it runs, what is added
    gets its vectors. No call outlives `until`; `on_end` is called when the server begins to end."""
    stopping = until or Deadline()
    tools = {tool.name: tool for tool in TOOLS}
    listed = types.ListToolsResult(tools=[_told(tool) for tool in TOOLS])
    # Threads of their own, since each keeps a connection to the store; and for each tool, so that
    # slow searches do not keep the others waiting.
    threads = {name: ThreadPoolExecutor(_CALLS_AT_ONCE, f"kb-mcp-{name}") for name in tools}
    worker = kb.worker()

    @asynccontextmanager
    async def lifespan(_server: Server[None]) -> AsyncIterator[None]:
        worker.start()
        try:
            yield
        finally:
            on_end()
            stopping.cancel(Cancelled("the server stops", "ask again when it is back"))
            for each in threads.values():
                each.shutdown(cancel_futures=True)
            worker.stop()

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return listed

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool, arguments = tools.get(params.name), params.arguments or {}
        if tool is None:
            known = ", ".join(tools)
            error = NotFound(f"there is no tool {short_repr(params.name)}", f"tools: {known}")
            return _said(formatting.failed(error), is_error=True)
        timeout_s = kb.config.serve.request_timeout_s if tool.reads else None
        deadline = Deadline(timeout_s, setting="serve.request_timeout_s", outer=stopping)

        def call() -> types.CallToolResult:
            with deadline if timeout_s is not None else nullcontext():  # a write is not broken off
                return _call(kb, worker, tool, arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(threads[tool.name], call)
        finally:  # also where the agent has cancelled it, or has gone
            deadline.cancel(ClientGone("the client has gone"))

    return Server(
        "kb",
        version=__version__,
        title="Knowledge base",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _told(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.reads,
        destructive_hint=False,
        idempotent_hint=tool.reads,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        annotations=hints,
    )


def _call(
    kb: KnowledgeBase, worker: Worker, tool: Tool, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    """In one of the threads. What goes wrong is an answer too: the agent can do better next."""
    try:
        told = _said(tool.call(kb, arguments))
    except KbError as error:
        return _said(formatting.failed(error), is_error=True)
    except Exception:  # noqa: BLE001  # the last line of defence: the client hears no more than that
        _log.exception("internal error in the tool %s", tool.name)
        return _said(_BUG, is_error=True)
    if not tool.reads:
        worker.wake()
    return told


def _said(text: str, *, is_error: bool = False) -> types.CallToolResult:
    """Text that UTF-8 can carry, whatever stands in a document."""
    readable = text.encode("utf-8", "backslashreplace").decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=readable)], is_error=is_error
    )


# --- stdio ----------------------------------------------------------------------------------------


def serve_stdio(kb: KnowledgeBase) -> None:
    """Answer until stdin ends. Nothing but the protocol goes to stdout. A signal ends it at once:
    Python would wait for the thread that reads stdin, and whatever is under way is written whole or
    not at all."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    asyncio.run(_over_stdio(make_server(kb, on_end=Shutdown().begin)))


async def _over_stdio(server: Server[None]) -> None:
    async with stdio_server() as (reading, writing):
        options = server.create_initialization_options()
        await server.run(Answering(reading, writing), writing, options)


# --- HTTP -----------------------------------------------------------------------------------------


def address(text: str) -> tuple[str, int]:
    """HOST and PORT of `HOST:PORT`, `[::1]:PORT` or `:PORT`."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and bare == host):
        raise ConfigError(f"{text!r} is not HOST:PORT", "such as 127.0.0.1:8766")
    return bare or "127.0.0.1", int(port)


def create_app(kb: KnowledgeBase, rules: Rules, until: Deadline | None = None) -> ASGIApp:
    """The ASGI application over `kb`; its clients ask at `/mcp`, and no call outlives `until`."""
    from kb.server.guard import Guard
    from kb.server.metrics import Figures

    app = make_server(kb, until).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=kb.config.serve.max_body_bytes,
        transport_security=_guarded_elsewhere(),
    )
    return Guard(_answering(app), rules, Figures(), kb.config.serve)


def _answering(app: ASGIApp) -> ASGIApp:
    """`app` without the stream that a GET would open, for messages that nobody asked for: without
    sessions there are none, and it would stay open until the end. 405 is the protocol's word."""
    from starlette.responses import Response

    refusal = Response(status_code=405, headers={"Allow": "POST"})

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
        elif scope["method"] in ("GET", "HEAD") and scope["path"] == PATH:
            await refusal(scope, receive, send)
        else:
            await _until_gone(app, scope, receive, send)

    return answer


async def _until_gone(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """`app`, cancelled when the client closes its connection: its call then stops too."""
    messages: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)

    async def pass_on() -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            await messages.put(message)

    reading = asyncio.ensure_future(pass_on())
    answering = asyncio.ensure_future(app(scope, messages.get, send))
    try:
        await asyncio.wait({reading, answering}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientGone("the client has gone")
        answering.result()
    finally:
        for task in (reading, answering):
            task.cancel()
        await asyncio.gather(reading, answering, return_exceptions=True)


def _guarded_elsewhere() -> Any:
    """The SDK's own check of Host and Origin, switched off: ours is stricter, and comes first."""
    from mcp.server.transport_security import TransportSecuritySettings

    return TransportSecuritySettings(enable_dns_rebinding_protection=False)


def serve_http(
    kb: KnowledgeBase,
    *,
    token: str | None,
    ready: Callable[[int], None],
    shutdown: Shutdown | None = None,
) -> None:
    """Answer until the process is told to stop. `ready` hears the port when it listens."""
    from kb.server.lifecycle import Listener, check_free, rules_for

    limits = kb.config.serve
    rules = rules_for(limits.host, token, limits.allow_hosts)
    check_free(limits.host, limits.port)
    until = Deadline()
    Listener(create_app(kb, rules, until), limits, ready, shutdown, until.cancel).run()
