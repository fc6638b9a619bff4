"""Search: query -> analyse -> retrieve -> fuse -> cut -> hits. Reads only; never speaks SQL."""
