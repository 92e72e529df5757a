"""Text and bytes to values: configs, file headers, raw figures, fleet files. Strict, bounded, opening nothing."""
