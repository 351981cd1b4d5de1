"""Are the numbers that this GPU gives possible, and do they agree with one another?"""

import pytest

import roofline_kit as rk
from roofline_kit import jobs
from roofline_kit.record import OPERATIONS
from roofline_kit.roofline import ABOVE
from roofline_kit.sustained import roofline

from . import laws

CLOCKS = ("throughput", "cold", "graph")
POINTS = ("copy", "triad", "gemm large", "layernorm", "softmax unfused", "matvec int8")


def job(device, name):
    operation = next(operation for operation in OPERATIONS if operation.name == name)
    return operation.make(device, *operation.gpu)


def test_the_card_keeps_to_the_datasheet(card, holds):
    name = laws.chip(card.data["device"]["name"])
    if name is None:
        pytest.skip(f"{card.data['device']['name']} has no row in the table of datasheets")
    holds(*laws.of_datasheet(card, name))


def test_a_launch_costs_microseconds_and_less_in_a_graph(card, holds):
    holds(*laws.of_any(card))


def test_the_clocks_agree_on_a_large_copy(device, holds):
    copy = job(device, "copy")
    holds(*laws.of_clocks([rk.measure(copy.call, name="copy", clock=clock, device=device) for clock in CLOCKS]))


def test_a_node_of_a_graph_costs_less_than_a_launch(device, holds):
    graph, launches = (rk.measure(jobs.empty(device).call, clock=clock, device=device).seconds
                       for clock in ("graph", "throughput"))
    holds(("an empty kernel: in a graph / launched", graph / launches, 0, 1))


@pytest.mark.parametrize("name", POINTS)
def test_a_point_lies_under_its_roof(device, card, holds, name):
    found = job(device, name)
    roof = roofline(card, found.work.dtype)
    run = rk.measure(found.call, found.work, clock="cold", roof=roof, device=device)
    holds((f"{name} / its roof", roof.seconds(found.work, clock="cold") / run.seconds, 0, ABOVE))
