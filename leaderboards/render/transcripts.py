"""A response of several turns as HTML: tags as blocks, the plan as a graph, the twin as a table."""

from collections.abc import Mapping, Sequence

from harness.leaderboards.formatting import cut
from harness.leaderboards.render.markup import Markup, element, table
from harness.leaderboards.transcripts import Block, layers_of, plan_of, table_of

LETTER, HIGH, GAP = 7, 26, 34  # pixels: of a letter, a node's height, the space between nodes


def transcript(blocks: Sequence[Block]) -> Markup:
    """All blocks, in order."""
    return element("div", {"class": "transcript"}, *map(_block, blocks))


def _block(block: Block) -> Markup:
    name = block.tag or "text"
    label = f"{name}, injected" if block.injected else name
    content: list[Markup] = []
    if (plan := plan_of(block)) is not None:
        content.append(graph(plan))
    if (found := table_of(block)) is not None:
        head, *rows = ([cut(cell)[:80] for cell in row] for row in (found[0], *found[1]))
        attributes = {"class": "scroll", "role": "region", "aria-label": "Instances"}
        content.append(table(head, rows, attributes))
    text = element("pre", {"tabindex": "0"}, cut(block.text))
    if content:
        text = element("details", {"class": "response"}, element("summary", {}, "JSON"), text)
    kind = f"of-{name.replace('.', '-').replace('_', '-')}"  # no class of the page, such as `task`
    return element(
        "section",
        {"class": f"block {kind}{' injected' if block.injected else ''}", "aria-label": label},
        element("p", {"class": "tag"}, label),
        *content,
        text,
    )


def graph(plan: Mapping[str, Sequence[str]]) -> Markup:
    """Draw a plan: a column a step, an arrowless line from each node to those that need it."""
    layers = layers_of(plan)
    widths = [max(len(name) for name in layer) * LETTER + 16 for layer in layers]
    lefts = [sum(widths[:number]) + number * GAP + 1 for number in range(len(layers))]
    places = {
        name: (lefts[number], row * (HIGH + 10) + 1, widths[number])
        for number, layer in enumerate(layers)
        for row, name in enumerate(layer)
    }
    wide = lefts[-1] + widths[-1] + 1
    high = max(len(layer) for layer in layers) * (HIGH + 10)
    lines = [
        element(
            "line",
            {
                "x1": str(places[before][0] + places[before][2]),
                "y1": str(places[before][1] + HIGH // 2),
                "x2": str(places[name][0]),
                "y2": str(places[name][1] + HIGH // 2),
            },
        )
        for name, needed in plan.items()
        for before in needed
    ]
    nodes = [
        element(
            "g",
            {},
            element(
                "rect",
                {
                    "x": str(left),
                    "y": str(top),
                    "width": str(width),
                    "height": str(HIGH),
                    "rx": "4",
                },
            ),
            element("text", {"x": str(left + 8), "y": str(top + 17)}, name),
        )
        for name, (left, top, width) in places.items()
    ]
    edges = "; ".join(
        f"{name} after {', '.join(needed)}" for name, needed in plan.items() if needed
    )
    return element(
        "svg",
        {
            "class": "graph",
            "viewBox": f"0 0 {wide} {high}",
            "width": str(wide),
            "height": str(high),
            "role": "img",
            "aria-label": f"Plan: {', '.join(places)}{'. ' if edges else ''}{edges}",
        },
        *lines,
        *nodes,
    )
