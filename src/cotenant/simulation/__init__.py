"""A plan replayed token by token: what each request waited for, and what that says of the plan.

`replica` is the textbook: one engine, step by step. `kernel` runs several beside each other on shared cards.
`fast` jumps from event to event in closed form and must agree with them event for event. `metrics` turns times
into the figures that an SLO is about, `arrivals` makes the traffic. All time is integer: nanoseconds outside,
femtoseconds within a step.
"""
