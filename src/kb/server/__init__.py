"""The HTTP server: `kb serve`, its routes and its web page.

    lifecycle        one server from start to shutdown: token, address, uvicorn
    api              builds the application from its parts
    guard            access checks and security headers for every request
    access           the rights and the rate of a token, and the audit log
    tokens           named tokens: their file, and who sends a request
    admission        limits on requests in progress
    connections      limits on open connections, and how each one ends
    start_queue      spreads the start of requests over turns of the event loop
    transfer_limits  time, speed and memory limits on bodies and responses
    memory           the memory budget that all clients share
    request_bodies   reads JSON bodies within limits
    context          what the routes share: knowledge base, worker pools, limits
    worker_pool      runs knowledge base calls in threads, a bounded number at a time
    warmup           loads the model at startup
    events           progress as server-sent events
    metrics          counters and latencies for `/metrics`
    openapi          the OpenAPI document, built from `kb/schemas`
    error_responses  errors as `error.v1`
    upload_folder    the folder of uploaded files
    file_lock        a lock for each file that several processes write
    upload_owner     which store an upload folder belongs to
    static_files     the files of the web page, from `web/`
    search           routes: search, compare, evaluate, similar, highlights, profiles
    asking           routes: answers, quoted or written by a language model
    documents        routes: documents, passages, chunks, tags
    reading          routes: renderings, page images, images, originals
    ingest           routes: ingest, embed, progress
    uploads          route: uploads
    status           routes: status, map, statistics, jobs, health, metrics

Routes turn requests into calls of `KnowledgeBase`, and its results into `wire` shapes. Needs the
extra `serve`; imported only by `kb serve`.
"""
