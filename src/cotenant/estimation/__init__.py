"""General formulas applied to an engine's rules: bytes of the four terms, step times, demand, precision.

weights, kv_cache, activations, runtime     the four terms, each with its interval
memory, verdict                             one replica on one type of card, and whether it fits
roofline, step_time                         seconds of a step from the card's data sheet
demand (lengths, in_flight, service, ...)   what traffic needs, at an overflow probability
precision, quality_evidence, matrix         which format on which card, and why
question, options, sizing                   one question about one replica, from options to answer
anatomy                                     a model taken apart
"""
