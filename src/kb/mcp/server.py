"""The official SDK's server around the tools, over stdio or streamable HTTP.

HTTP is stateless, so that clients survive a restart of the server, and nothing is kept for clients
that have disconnected. `kb.server.guard` controls access, as for `kb serve`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from kb import __version__
from kb.deadline import Deadline
from kb.errors import Cancelled, ClientGone, ConfigError, KbError, NotFound, short_repr
from kb.library.knowledge_base import KnowledgeBase
from kb.library.limited import Views
from kb.logs import logger
from kb.mcp import formatting
from kb.mcp.stdio_messages import (
    PendingRequests,
    TrackedReplies,
    ValidMessages,
    has_invalid_id,
    invalid_id,
    stdin_lines,
)
from kb.mcp.tools import INSTRUCTIONS, TOOLS, Tool
from kb.server.access import REFUSALS, AuditLog, check_right, describe_write, identity_of
from kb.shutdown import Shutdown
from kb.types import JsonDict
from mcp import types

if TYPE_CHECKING:
    import anyio
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kb.embedding.worker import Worker
    from kb.server.guard import AccessRules

PATH = "/mcp"
_PARSED_COPIES = 3  # of a message: as JSON, as a model, and as the arguments of a tool
_THREADS_PER_TOOL = 4
_BUG = "code: internal_error\nmessage: internal error in kb\nhint: please report this error"
_log = logger("kb.mcp")


def make_server(
    kb: KnowledgeBase, until: Deadline | None = None, on_end: Callable[[], None] = lambda: None
) -> Server[None]:
    """Return a server with the four tools over `kb`, which the caller closes. It embeds new notes
    while it runs. All calls end when the deadline `until` is canceled; `on_end` is called when
    shutdown begins."""
    stopping = until or Deadline()
    tools = {tool.name: tool for tool in TOOLS}
    tool_list = types.ListToolsResult(tools=[_tool_spec(tool) for tool in TOOLS])
    # Dedicated threads, since each keeps a connection to the store; and a pool per tool, so that
    # slow searches do not delay the other tools.
    threads = {name: ThreadPoolExecutor(_THREADS_PER_TOOL, f"kb-mcp-{name}") for name in tools}
    worker, views = kb.worker(), Views(kb)

    @asynccontextmanager
    async def lifespan(_server: Server[None]) -> AsyncIterator[None]:
        worker.start()
        try:
            yield
        finally:
            on_end()
            stopping.cancel(Cancelled("the server is shutting down", "retry when it is back"))
            for each in threads.values():
                each.shutdown(cancel_futures=True)
            worker.stop()

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return tool_list

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool, arguments = tools.get(params.name), params.arguments or {}
        scope = {} if context.request is None else context.request.scope
        if tool is None:
            known = ", ".join(tools)
            error = NotFound(f"unknown tool {short_repr(params.name)}", f"available tools: {known}")
            return _result(formatting.format_error(error), is_error=True)
        timeout_s = kb.config.serve.request_timeout_s if tool.reads else None
        deadline = Deadline(timeout_s, setting="serve.request_timeout_s", outer=stopping)

        def call() -> types.CallToolResult:
            with deadline if timeout_s is not None else nullcontext():  # writes are not interrupted
                return _call(views, worker, tool, arguments, scope)

        try:
            return await asyncio.get_running_loop().run_in_executor(threads[tool.name], call)
        finally:  # also if the agent canceled the call or disconnected
            deadline.cancel(ClientGone("the client disconnected"))

    return Server(
        "kb",
        version=__version__,
        title="Knowledge base",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool_spec(tool: Tool) -> types.Tool:
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
        output_schema=tool.output,
        annotations=hints,
    )


def _call(
    views: Views,
    worker: Worker,
    tool: Tool,
    arguments: Mapping[str, Any],
    scope: MutableMapping[str, Any],
) -> types.CallToolResult:
    """Call a tool in a worker thread. An error is a result too: the agent can correct its call.
    `scope` is that of the HTTP request, which identifies the agent."""
    identity = identity_of(scope)
    try:
        if not tool.reads:
            describe_write(scope, tool=tool.name)
            if identity is not None:
                check_right(identity, "write")
        result = tool.call(views.of(identity), arguments)
    except KbError as error:
        if not tool.reads or error.http_status in REFUSALS:
            describe_write(scope, tool=tool.name, status=error.http_status)
        return _result(formatting.format_error(error), is_error=True)
    except Exception:  # noqa: BLE001  # the last resort: clients get no details
        _log.exception("internal error in the tool %s", tool.name)
        if not tool.reads:
            describe_write(scope, status=500)
        return _result(_BUG, is_error=True)
    if not tool.reads:
        describe_write(scope, document=result.written)
        worker.wake()
    return _result(result.text, result.data)


def _result(
    text: str, data: JsonDict | None = None, *, is_error: bool = False
) -> types.CallToolResult:
    """Return `text` as a result, with characters that UTF-8 cannot encode escaped."""
    encodable = text.encode("utf-8", "backslashreplace").decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=encodable)],
        structured_content=data,
        is_error=is_error,
    )


# --- stdio ----------------------------------------------------------------------------------------


def serve_stdio(kb: KnowledgeBase) -> None:
    """Serve until stdin is closed, then answer the requests received before. Only protocol messages
    go to stdout. A signal stops the process at once, since Python would wait for the thread that
    reads stdin; writes are transactions."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    asyncio.run(_over_stdio(make_server(kb, on_end=Shutdown().begin), kb.config.serve.drain_s))


async def _over_stdio(server: Server[None], drain_s: float) -> None:
    lines = stdin_lines()
    async with stdio_server(cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing):
        pending = PendingRequests()
        messages = ValidMessages(incoming, lines, outgoing, pending, drain_s)
        options = server.create_initialization_options()
        await server.run(messages, TrackedReplies(outgoing, pending), options)


# --- HTTP -----------------------------------------------------------------------------------------


def address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, `[::1]:PORT` or `:PORT`."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and bare == host):
        raise ConfigError(f"{text!r} is not HOST:PORT", "use an address such as 127.0.0.1:8766")
    return bare or "127.0.0.1", int(port)


def create_app(kb: KnowledgeBase, rules: AccessRules, until: Deadline | None = None) -> ASGIApp:
    """Return the ASGI application, which serves `/mcp`. All calls end when the deadline `until` is
    canceled."""
    from kb.server.admission import Admission
    from kb.server.guard import Guard
    from kb.server.metrics import Metrics

    app = make_server(kb, until).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=kb.config.serve.max_body_bytes,
        transport_security=_no_host_check(),
    )
    checked = _check_bodies(app, kb.config.serve.max_body_bytes)
    limits = kb.config.serve
    admission = Admission.for_pools(limits, [PATH])
    audit = AuditLog(limits.audit_log)
    return Guard(_without_event_stream(checked), rules, Metrics(), limits, admission, audit=audit)


def _check_bodies(app: ASGIApp, limit_bytes: int) -> ASGIApp:
    """Wrap `app` to check each body before the SDK parses it: its size, its shape, its id, and
    whether the memory budget has room for the parsed message."""
    from starlette.requests import Request
    from starlette.responses import Response

    from kb.server import request_bodies
    from kb.server.memory import MEMORY_KEY

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        data = await request_bodies.read(Request(scope, receive), limit_bytes=limit_bytes)
        parsed_bytes = request_bodies.check_shape(data)
        scope[MEMORY_KEY].reserve_body(_PARSED_COPIES * parsed_bytes)
        if has_invalid_id(data):
            error = invalid_id().model_dump_json(by_alias=True, exclude_unset=True)
            await Response(error, 400, media_type="application/json")(scope, receive, send)
            return
        body = iter([{"type": "http.request", "body": data, "more_body": False}])

        async def receive_again() -> Any:
            return next(body, None) or await receive()

        await app(scope, receive_again, send)

    return checked


def _without_event_stream(app: ASGIApp) -> ASGIApp:
    """Wrap `app` to refuse GET, which opens a stream for server messages. A stateless server has no
    such messages, and the stream would stay open. The protocol prescribes 405."""
    from starlette.responses import Response

    refusal = Response(status_code=405, headers={"Allow": "POST"})

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
        elif scope["method"] in ("GET", "HEAD") and scope["path"] == PATH:
            await refusal(scope, receive, send)
        else:
            await _cancel_on_disconnect(app, scope, receive, send)

    return guarded


async def _cancel_on_disconnect(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Run `app`, and cancel it when the client disconnects, so that its call stops too."""
    messages: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)

    async def forward() -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            await messages.put(message)

    receiving = asyncio.ensure_future(forward())
    running = asyncio.ensure_future(app(scope, messages.get, send))
    try:
        await asyncio.wait({receiving, running}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientGone("the client disconnected")
        running.result()
    finally:
        for task in (receiving, running):
            task.cancel()
        await asyncio.gather(receiving, running, return_exceptions=True)


def _no_host_check() -> Any:
    """Disable the SDK's check of Host and Origin: ours is stricter and runs first."""
    from mcp.server.transport_security import TransportSecuritySettings

    return TransportSecuritySettings(enable_dns_rebinding_protection=False)


def serve_http(
    kb: KnowledgeBase,
    *,
    token: str | None,
    ready: Callable[[int], None],
    shutdown: Shutdown | None = None,
) -> None:
    """Serve until the process is stopped. `ready` is called with the port once it listens."""
    from kb.server.lifecycle import HttpServer, check_free, open_tokens, rules_for

    limits = kb.config.serve
    rules = rules_for(limits.host, token, limits.allow_hosts, open_tokens(kb))
    check_free(limits.host, limits.port)
    until = Deadline()
    HttpServer(create_app(kb, rules, until), limits, ready, shutdown, until.cancel).run()
