"""Scenes that allow every type of question: different things, some of which come into view."""

from harness.world.draws import Draws
from harness.world.scene import COLOURS, SHAPES, Background, Scene, Thing

SIZE = (224, 168)  # width and height in pixels
FRAMES = 8
RESTING, COMING = 4, 3
ROW, TOP = 22, 18  # pixels from one thing's row to the next, and of the first


def street(seed: int, index: int) -> Scene:
    """Return four things that rest, two of them of one shape, and three that enter one by one.

    Those come from the left; each thing has its own row and depth.
    """
    draws = Draws(seed, "street", index)
    different = draws.shuffle(SHAPES)[: RESTING + COMING - 1]
    shapes = (different[0], *different)
    colours = draws.shuffle(tuple(COLOURS))
    rows = draws.shuffle(range(len(shapes)))
    depths = draws.shuffle(range(len(shapes)))
    things = []
    for place, shape in enumerate(shapes):
        coming = place - RESTING  # from 0 for those that come; they are whole in frame 1, 3, 5
        speed = draws.integer_between(20, 24) if coming >= 0 else 0
        x = -2 * coming * speed if speed else 40 + 48 * place
        thing = Thing(
            shape=shape,
            colour=colours[place],
            size="small",
            x=x,
            y=TOP + ROW * rows[place],
            depth=depths[place],
            dx=speed,
        )
        things.append(thing)
    return Scene(
        seed=seed,
        family="street",
        split="train",
        index=index,
        width=SIZE[0],
        height=SIZE[1],
        background=Background("plain", draws.integer_below(2**32)),
        things=tuple(things),
        frames=FRAMES,
    )
