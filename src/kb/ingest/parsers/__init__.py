"""One module per format. Each turns a source into blocks; none cuts, stores or searches."""
