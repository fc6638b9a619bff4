"""Integrations of kb with other tools. Most need an extra of the same name.

Modules:

    http_client   AsyncClient, for a server that `kb serve` runs
    langchain     KbRetriever, a retriever for LangChain
    llama_index   KbRetriever, a retriever for LlamaIndex
    llm_plugin    search as a tool and as fragments for the program `llm`
    passages      the passages of a search, as the integrations return them
"""
