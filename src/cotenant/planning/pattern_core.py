"""The search of `patterns` over arrays, to be compiled where numba is installed: the same steps in the same order.

Models are numbered by the search ("groups"); a group has seats (values change from call to call), a seat has
options. `patterns` holds the plain version and the meaning; a test holds both equal, pattern for pattern.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cotenant.planning.loading import may_join
from cotenant.planning.pattern_times import TIME_CELLS, TIME_UNIT, time_cell

_EPSILON = 1e-9


def search(
    group_start: Any,
    place_seat: Any,
    place_claim: Any,
    option_start: Any,
    option_claim: Any,
    option_busy: Any,
    option_patience: Any,
    option_overshoot: Any,
    option_processes: Any,
    apart_start: Any,
    apart: Any,
    alone: Any,
    values: Any,
    least: float,
    room: int,
    load: int,
    unit: int,
    floor: float,
    limit: int,
    every: bool,
    tight: bool,
    minds: bool,
    processes: int,
) -> Any:
    """(places and options of the patterns found, one after the other; where each ends; most; nodes; complete).

    Places of group g are group_start[g]..group_start[g+1]-1, options of place p likewise; groups apart from g are
    apart[apart_start[g]..]. `values` are by seat. Everything else as `PatternSearch` has it.
    """  # fmt: skip
    order, first, last, places = _ordered(group_start, place_seat, place_claim, values, least)
    count = len(order)
    bounds = _bounds(order, first, last, places, place_seat, place_claim, values, room, unit)
    times = _times(order, first, last, places, place_seat, option_start, option_busy, values, minds)
    most_time = times.shape[1] - 1
    frames = np.zeros((9, count + 2), np.int64)  # what each depth has come to
    at_index, at_place, at_option, rooms = frames[0], frames[1], frames[2], frames[3]
    chosen_place, chosen_option, claims, overshoots = frames[4], frames[5], frames[6], frames[7]
    free = frames[8]  # places for processes
    figures = np.zeros((3, count + 2), np.float64)
    worths, busies, caps = figures[0], figures[1], figures[2]
    blocked = np.zeros(len(alone), np.int64)
    alone_taken = 0
    found_places, found_options, found_ends = (
        np.zeros(1024, np.int64),
        np.zeros(1024, np.int64),
        np.zeros(64, np.int64),
    )
    used = patterns = nodes = 0
    depth = 0
    rooms[0], caps[0], free[0] = room, np.inf, processes
    entering = True
    while depth >= 0:
        if entering:
            nodes += 1
            if worths[depth] >= floor and depth > 0:
                if used + depth > len(found_places):
                    found_places, found_options = _longer(found_places, depth), _longer(found_options, depth)
                if patterns == len(found_ends):
                    found_ends = _longer(found_ends, 1)
                for each in range(depth):
                    found_places[used + each] = chosen_place[each]
                    found_options[used + each] = chosen_option[each]
                used += depth
                found_ends[patterns] = used
                patterns += 1
                if not every:
                    floor = worths[depth] + _EPSILON
            at_place[depth] = -1
            entering = False
        # find the next child of this depth
        index, place, option = at_index[depth], at_place[depth], at_option[depth]
        value, left, busy, cap = worths[depth], rooms[depth], busies[depth], caps[depth]
        cells, spell = left // unit, time_cell(cap - busy, most_time)
        descend = False
        while index < count:
            if place < 0:
                if value + min(bounds[index, cells], times[index, spell]) < floor or nodes > limit:
                    break
                group = order[index]
                if blocked[group] > 0 or alone_taken > 0 or (alone[group] and depth > 0):
                    index += 1
                    continue
                place = first[index]
                option = -1
            while place < last[index]:
                here = places[place]
                worth = values[place_seat[here]]
                if option < 0:
                    if (
                        place_claim[here] > left
                        or value + worth + bounds[index + 1, (left - place_claim[here]) // unit] < floor
                    ):
                        place += 1
                        continue
                    option = option_start[here]
                while option < option_start[here + 1]:
                    claim = option_claim[option]
                    both = min(cap, option_patience[option])
                    if (
                        claim <= left
                        and option_processes[option] <= free[depth]
                        and busy + option_busy[option] <= both + _EPSILON
                        and value + worth + bounds[index + 1, (left - claim) // unit] >= floor
                        and value
                        + worth
                        + times[index + 1, time_cell(both - busy - option_busy[option], most_time)]
                        >= floor
                        and (
                            not tight or may_join(claims, overshoots, depth, claim, option_overshoot[option], load)
                        )
                    ):
                        descend = True
                        break
                    option += 1
                if descend:
                    break
                place += 1
                option = -1
            if descend:
                break
            index += 1
            place = -1
        if descend:
            here = places[place]
            chosen_place[depth], chosen_option[depth] = here, option
            claims[depth], overshoots[depth] = option_claim[option], option_overshoot[option]
            at_index[depth], at_place[depth], at_option[depth] = index, place, option + 1
            group = order[index]
            alone_taken += alone[group]
            for each in range(apart_start[group], apart_start[group + 1]):
                blocked[apart[each]] += 1
            depth += 1
            at_index[depth] = index + 1
            rooms[depth] = left - option_claim[option]
            free[depth] = free[depth - 1] - option_processes[option]
            worths[depth] = value + values[place_seat[here]]
            busies[depth] = busy + option_busy[option]
            caps[depth] = min(cap, option_patience[option])
            entering = True
        else:
            depth -= 1
            if depth >= 0:
                group = order[at_index[depth]]
                alone_taken -= alone[group]
                for each in range(apart_start[group], apart_start[group + 1]):
                    blocked[apart[each]] -= 1
    complete = nodes <= limit
    most = floor if complete else bounds[0, room // unit]
    return found_places[:used], found_options[:used], found_ends[:patterns], most, nodes, complete


def _longer(array: Any, more: int) -> Any:
    """A copy with room for `more` entries and as many again as there are."""
    longer = np.zeros(2 * len(array) + more, np.int64)
    longer[: len(array)] = array
    return longer


def _ordered(group_start: Any, place_seat: Any, place_claim: Any, values: Any, least: float) -> Any:
    """Groups with a seat worth more than `least`, the most valuable by the byte first; the places of each from
    first[i] to last[i] of `places`, by value."""
    groups = len(group_start) - 1
    places = np.zeros(len(place_seat), np.int64)
    density = np.zeros(groups, np.float64)
    begin, end, kept = np.zeros_like(group_start), np.zeros_like(group_start), np.zeros_like(group_start)
    used = count = 0
    for group in range(groups):
        start = used
        for place in range(group_start[group], group_start[group + 1]):
            value = values[place_seat[place]]
            if not value > least:
                continue
            spot = used
            while spot > start:  # by value, claim, seat: few, so insertion does
                other = places[spot - 1]
                known = values[place_seat[other]]
                if known > value or (
                    known == value
                    and (
                        place_claim[other] < place_claim[place]
                        or (place_claim[other] == place_claim[place] and place_seat[other] < place_seat[place])
                    )
                ):
                    break
                places[spot] = other
                spot -= 1
            places[spot] = place
            used += 1
            here = value / max(1, place_claim[place])
            if used == start + 1 or here > density[count]:
                density[count] = here
        if used > start:
            begin[count], end[count], kept[count] = start, used, group
            count += 1
    by = np.argsort(-density[:count], kind="mergesort")
    return kept[by], begin[by], end[by], places


def _bounds(
    order: Any,
    first: Any,
    last: Any,
    places: Any,
    place_seat: Any,
    place_claim: Any,
    values: Any,
    room: int,
    unit: int,
) -> Any:
    """bounds[j, cells] is the most that groups j.. can be worth in that many cells, one seat each."""
    cells = room // unit + 1
    bounds = np.zeros((len(order) + 1, cells), np.float64)
    for index in range(len(order) - 1, -1, -1):
        for cell in range(cells):
            bounds[index, cell] = bounds[index + 1, cell]
        least = room + 1
        for place in range(first[index], last[index]):
            here = places[place]
            claim = place_claim[here]
            if claim < least:  # else a seat worth no less takes no more
                least, taken, value = claim, claim // unit, values[place_seat[here]]
                for cell in range(taken, cells):
                    worth = bounds[index + 1, cell - taken] + value
                    if worth > bounds[index, cell]:
                        bounds[index, cell] = worth
    return bounds


def _times(
    order: Any,
    first: Any,
    last: Any,
    places: Any,
    place_seat: Any,
    option_start: Any,
    option_busy: Any,
    values: Any,
    minds: bool,
) -> Any:
    """times[j, cells] is the most that groups j.. can be worth in that many cells of busy share; the last cell is
    for all that is more, and has no bound."""
    if not minds:
        return np.full((len(order) + 1, 1), np.inf)
    cells = TIME_CELLS
    times = np.zeros((len(order) + 1, cells + 1), np.float64)
    times[len(order), cells] = np.inf
    for index in range(len(order) - 1, -1, -1):
        for cell in range(cells + 1):
            times[index, cell] = times[index + 1, cell]
        least = cells
        for place in range(first[index], last[index]):
            here = places[place]
            busy = np.inf
            for option in range(option_start[here], option_start[here + 1]):
                busy = min(busy, option_busy[option])
            taken, value = int(busy * TIME_UNIT), values[place_seat[here]]
            if taken < least:  # else a seat worth no less takes no more
                least = taken
                for cell in range(taken, cells):
                    worth = times[index + 1, cell - taken] + value
                    if worth > times[index, cell]:
                        times[index, cell] = worth
    return times


USED = (_longer, _ordered, _bounds, _times)
"""What is compiled with `search`."""
