"""kb in the tools of others. Each module needs an extra of the same name.

Modules:

    http_client   AsyncClient, for a server that `kb serve` runs
    langchain     KbRetriever, a retriever of LangChain
    llama_index   KbRetriever, a retriever of LlamaIndex
    llm_plugin    search as a tool and as fragments of the program `llm`
    passages      the passages of a search, as the integrations hand them on
"""
