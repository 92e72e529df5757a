"""A plan's promises held against its live engines: the checklist as plain steps, judged without touching anything.

`campaign` says what is done and in which order through the ports of `ports`; `judge` holds what came back
against the plan; `fit` makes a calibration of it.
"""
