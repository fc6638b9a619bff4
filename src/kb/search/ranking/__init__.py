"""Ranking: from the lists of several retrievers to one list. Pure functions.

fusion                  several ranked lists -> one
calibration             scores of different retrievers on comparable scales
adaptive                weights that depend on the query
agreement               weights that depend on how well the lists agree
word_match              weights that depend on how well words match
code                    weights for queries that code answers
literal                 passages that contain the query as it was typed come first
coverage                weights that depend on how many candidates have vectors
boosts                  factors for the kind, the accesses and the age of a document
duplicates              passages whose text repeats that of a better one
repetition              short texts that many pages share, such as footers
prose                   an explanation before the synopsis of its document
diversity               at most a few passages of a document among the first hits
relevance               the probability that a hit is about what the query asks
relevance_parameters    its parameters, which training writes
"""
