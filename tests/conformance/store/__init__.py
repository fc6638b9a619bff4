"""One suite for the store ports, run against every kind of store.

conftest          opens stores by URL; a kind of store adds one entry to LOCATIONS
samples           documents, models and vectors for the tests
test_store        creation, locations and snapshots
test_catalog      documents, chunks, tags, roots and filters
test_returning    documents that are removed and come back
test_fulltext     retrieval by words
test_vectors      models, their vectors, model switches and retrieval by vectors
test_queue        jobs, leases and failures
test_maintenance  checks, backups, exports and imports
test_coverage     every method of every port is called by this suite
"""
