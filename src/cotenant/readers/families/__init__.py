"""Model families, one file each: config.json to parameters and layer groups."""
