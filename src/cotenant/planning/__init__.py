"""The planner: candidates for each model, an exact packing beside a greedy one, and a check of its own.

candidates   every way in which a model may be served on a type of card, sized from its traffic
problem      candidates and cards as one combinatorial problem; what a placement is
greedy       the baseline: largest first, on the cheapest card that still takes it
packing      the exact optimum as a mixed-integer program
assembly     a placement as a plan: ports, start order, commands, reasons
naive        what the usual sizing would have taken
nearest      where nothing fits: the nearest plan, the shortfall, the remedies that were tried
check        the independent verifier: no plan leaves this room without it
"""
