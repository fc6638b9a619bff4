"""The HTTP door: `kb serve`, its routes and its web page.

    serving    one server from start to end: token, address, uvicorn, shutdown
    api        the application, put together
    guard      who may ask: Host, Origin, token, content type; what every answer carries
    connections
               how many there are, who gives way, how each of them ends
    traffic    bodies and answers on their way: in time, and within the memory there is
    memory     the memory that they take, all clients together
    bodies     what clients send, read within limits
    lanes      the knowledge base in threads, so much at a time, and not for clients that have gone
    desk       what the routes share: the knowledge base, its worker, the lanes, the limits
    warming    the model, loaded at the start
    events     progress, told to everyone who listens (server-sent events)
    figures    counts and times for /metrics
    contract   the OpenAPI document, from the shapes of `kb/schemas`
    failures   every error as error.v1
    uploads    files that came through the browser
    files      the files of the web page, which lie in web/
    search, documents, ingest, standing
               the routes

Thin: routes turn requests into calls of `KnowledgeBase`, and its answers into `wire` shapes. Needs
the extra `serve`; nothing here is imported before `kb serve` is run.
"""
