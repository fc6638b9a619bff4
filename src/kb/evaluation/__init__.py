"""How well kb finds what it should: measures, judged data, runs over it, and their report.

    beir -> runs (ranking, metrics, bootstrap) -> report

Above search and ingest, below the app. Knows no store: a method under test is a function from a
query to ranked document ids.
"""
