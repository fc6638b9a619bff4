"""The watching door: `kb watch`, a store that follows its folders.

    places     what is watched, and whether it is still what it was
    changes    from changed paths to the folders that are to be read again
    watcher    the loop: changes in, ingests and events out

Thin: what is read, removed or recognised as renamed is for `KnowledgeBase.ingest` to find out. Only
`watcher` imports `watchfiles`, which needs the extra `watch`.
"""
