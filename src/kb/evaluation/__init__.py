"""How well kb finds what it should, and which settings find more.

    beir, judged_csv -> judged            queries, and which documents answer them
    searched, named                       the store that is searched: a scratch one, or the user's,
                                          and which of its documents a judgment names
    trial -> runs (metrics, bootstrap)    methods by name, asked and measured
    report, html (plots)                  what was measured, to be read
    tuning (candidates, grid)             a profile's fusion fitted, and measured on other queries

Above search and ingest, below the app. `runs` knows no store: a method under test is a function
from a query to ranked document ids.
"""
