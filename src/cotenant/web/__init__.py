"""The page and its server: the face's functions behind a typed HTTP API. Loaded by `cotenant ui` alone."""
