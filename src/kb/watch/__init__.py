"""The watcher: `kb watch` keeps a store up to date with its folders.

    changes    which watched paths have changed, and which folders to read again
    watcher    the loop: waits until changes pause, ingests them, emits events

`KnowledgeBase.ingest` decides what is read, removed or recognized as renamed. Only `watcher`
imports `watchfiles`, which needs the extra `watch`."""
