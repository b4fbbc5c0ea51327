"""Spatial tasks with stored responses."""

from pathlib import Path

from harness.card import Card
from harness.tasks.spar_bench import task as spar
from harness.tasks.sti_bench import task as sti
from harness.tasks.v_star import task as vstar
from harness.tasks.vsi_bench import task as vsi

MODULES = {"sti_bench": sti, "vsi_bench": vsi, "spar_bench": spar, "v_star": vstar}
NAMES = sorted(MODULES)


def card(name):
    return Card.read(Path(MODULES[name].__file__).parent / "card.toml")
