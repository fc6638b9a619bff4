"""Search quality on judged queries, and tuning of profiles.

    qrels            queries with relevance judgments
    qrels_csv        judgments from one CSV file
    beir             judgments in BEIR's layout
    corpus_store     the store that is searched: a temporary one, or the user's
    document_lookup  the document that a judgment refers to
    encoding_cache   an encoder that caches its vectors on disk
    experiment       an evaluation: judged data, searched by several methods
    runs             runs each method over the queries, measures and compares
    metrics          nDCG, recall, precision, MRR and success of one ranking
    bootstrap        confidence intervals of means and differences
    report           the results as JSON, text and Markdown
    html             the results as one HTML file
    plots            the SVG plots in it
    tuning           fits a profile's fusion to judged queries
    candidate_lists  the candidates of every retriever, kept to be fused many times
    grid             the settings that tuning tries
    profile_file     writes a tuned profile into a `config.toml`
    tuning_report    the result of tuning as JSON and text

`runs` does not depend on a store: a method is a function from a query to ranked document ids.
"""
