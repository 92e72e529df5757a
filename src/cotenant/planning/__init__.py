"""The planner: candidates for each model, an exact packing beside a greedy one, and a check of its own.

solve          from a fleet to a checked plan: the line through this room
solved         the search: candidates, cards, placement
candidates     every way in which a model may be served on a type of card, sized from its traffic
splits         tensor parallel, pipeline stages, whole experts: how one replica may be split in a node
folding, folds adapters on one base as one process, where that costs less; folds_check holds it against the fleet
cards          the cards of the fleet as places
problem        candidates and cards as one combinatorial problem; what a placement is
placing        which solver for which size: compact, by card patterns, with neighbourhoods
greedy         the baseline: largest first, on the cheapest card that still takes it
packing        the compact mixed-integer program; the reference
partition      card patterns by column generation (sites, patterns, relaxation, seating, program, ties, listing)
neighbourhoods parts of a large plan solved anew
resource_bound a floor from memory alone
assembly       a placement as replicas and cards: ports, start order
launch         how a replica is told to its engine, and what it takes beside others
why, warnings  the reasons, the runner-ups, and what a reader must know
naive          what the usual sizing would have taken
nearest        where nothing fits: the nearest plan, the shortfall, the remedies that were tried
check          the independent verifier: no plan leaves this room without it
"""
