"""The library: `KnowledgeBase`, the API that every interface calls.

    knowledge_base        `KnowledgeBase`: ingest, search, embed, read and maintain a store
    async_knowledge_base  the same methods for programs that use asyncio
    conversation          answers that a language model writes, with checked citations
    ingestion             runs an ingest, for paths and for uploads
    services              the parts that are loaded when they are first used
    overview              maps and statistics, computed again when the store changes
    retriever_searches    searches with a fixed set of retrievers
    lookup                finds documents and passages by name
    notes                 adds and edits notes, and changes tags
    passages              opens citations, and compares the text with what was indexed
    images                images that a document shows
    rendering             the text of a document as elements for the web page
    rendering_process     the same for long documents, in a parser process under limits
    markdown_math         formulas in Markdown
    tex_math              formulas in TeX as MathML elements
    library_map           the library as a map of documents
    statistics            figures: growth, most read, stale, orphan and near-duplicate documents
    status                describes a store: contents, vectors, pending work
    archive               exports, imports, and attaching imported folders
    store_copy            copies a store into another one, and verifies the copy
    limited               views for callers that may see only some documents
    doctor                checks a store and repairs what can be rebuilt

Import `KnowledgeBase` from `kb`.
"""
