"""llama.cpp: which build does what (builds), where layers lie (placement), what they cache (cache), and the graphs
that compute buffers are reserved for (shape, worst_case, graph, ggml, compute, reserve); put together in buffers,
told in engine and options."""
