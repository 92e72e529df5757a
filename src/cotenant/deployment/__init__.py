"""A plan as files that start it: one exporter a target, each around the flags that the engines render."""
