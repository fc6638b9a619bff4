"""The library: `KnowledgeBase`, the API that every interface calls.

    knowledge_base  `KnowledgeBase`: ingest, search, embed, read and maintain a store
    notes           checks the attributes of a note before it is stored
    passages        opens citations, and compares the text with what was indexed
    status          describes a store: contents, vectors, pending work
    archive         exports, imports, and attaching imported folders
    doctor          checks a store and repairs what can be rebuilt

Import `KnowledgeBase` from `kb`.
"""
