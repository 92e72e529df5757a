"""The hands of `cotenant verify`: engines, samples, loads and journals that are real."""
