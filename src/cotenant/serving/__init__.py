"""The live router: an event-driven state machine over requests, engines and bytes.

Events go in with the time at which they happened (a request arrived, a first byte, an engine is up or gone, a
timer); effects come out (start, stop, put to sleep, wake, send, refuse). It opens nothing, and it cannot tell
simulated time from real time: the gateway in `edge` and the fault harness drive the same object.
"""
