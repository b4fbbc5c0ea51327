"""Generators of phrases and questions that refer to things in a video by their motion."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.world.language import Noun, Question, nouns
from harness.world.raster import is_inside, is_outside
from harness.world.scene import Scene, Thing

Test = Callable[[Scene, Thing], bool]


@dataclass(frozen=True, slots=True)
class Motion:
    """A kind of motion, with its words and its tests of things."""

    one: tuple[str, ...]
    """Verb phrases after `that`: `moves to the right`."""
    many: tuple[str, ...]
    """The same in the plural: `move to the right`."""
    doing: str
    """The participle after the noun, `moving to the right`; empty if none is used."""
    is_referent: Test
    """True for things with this motion."""
    possible: Test
    """True for things of which a person could say that they have it; such a question is left out
    if the two tests differ."""


def _motion_along(dx: int, dy: int, where: str) -> Motion:
    """Return the motion of things with heading (dx, dy), −1 to 1 each, y downwards."""

    def is_referent(scene: Scene, thing: Thing) -> bool:
        return thing.heading == (dx, dy)

    def possible(scene: Scene, thing: Thing) -> bool:
        """Return True also for diagonal motion: it may be called a motion to the right."""
        across, down = thing.heading
        along = (dx and across == dx) or (dy and down == dy)
        return is_referent(scene, thing) if dx and dy else bool(along)

    return Motion((f"moves {where}",), (f"move {where}",), f"moving {where}", is_referent, possible)


def _rests(scene: Scene, thing: Thing) -> bool:
    return not thing.is_moving


def _is_moving(scene: Scene, thing: Thing) -> bool:
    return thing.is_moving


def _leaves(scene: Scene, thing: Thing) -> bool:
    return is_inside(scene, thing, 0) and is_outside(scene, thing, scene.frames - 1)


def _is_going(scene: Scene, thing: Thing) -> bool:
    return is_inside(scene, thing, 0) and not is_inside(scene, thing, scene.frames - 1)


def _is_entering(scene: Scene, thing: Thing) -> bool:
    return is_outside(scene, thing, 0) and is_inside(scene, thing, scene.frames - 1)


def _is_coming(scene: Scene, thing: Thing) -> bool:
    return not is_inside(scene, thing, 0) and is_inside(scene, thing, scene.frames - 1)


MOTIONS: tuple[Motion, ...] = (
    _motion_along(-1, 0, "to the left"),
    _motion_along(1, 0, "to the right"),
    _motion_along(0, -1, "upwards"),
    _motion_along(0, 1, "downwards"),
    _motion_along(-1, -1, "to the top left"),
    _motion_along(1, -1, "to the top right"),
    _motion_along(-1, 1, "to the bottom left"),
    _motion_along(1, 1, "to the bottom right"),
    Motion(
        ("moves", "changes its place"), ("move", "change their place"), "", _is_moving, _is_moving
    ),
    Motion(("stands still", "does not move"), ("stand still", "do not move"), "", _rests, _rests),
    Motion(
        ("leaves the picture", "goes out of view"),
        ("leave the picture", "go out of view"),
        "leaving the picture",
        _leaves,
        _is_going,
    ),
    Motion(
        ("comes into the picture", "comes into view"),
        ("come into the picture", "come into view"),
        "coming into the picture",
        _is_entering,
        _is_coming,
    ),
)


def motions(scene: Scene) -> Iterator[Question]:
    """`the circle moving to the right`, `Which objects stand still?`.

    They are yielded only if other things of the same name move otherwise, so that one frame is not
    enough for an answer.
    """
    for noun, members in nouns(scene):
        for motion in MOTIONS:
            target, possible = (
                tuple(index for index in members if test(scene, scene.things[index]))
                for test in (motion.is_referent, motion.possible)
            )
            if target and target == possible and len(target) < len(members):
                yield from _motion_questions(noun, motion, target, members)


def speeds(scene: Scene) -> Iterator[Question]:
    """`the fastest circle`, if it moves at least 1.4 times as fast as the next one."""
    for noun, members in nouns(scene):
        moving = [index for index in members if scene.things[index].is_moving]
        if len(moving) < 2:
            continue
        squares = {index: scene.things[index].squared_speed for index in moving}
        first, second = sorted(moving, key=squares.__getitem__, reverse=True)[:2]
        if squares[first] >= 2 * squares[second]:
            yield Question(
                kind="speed",
                texts=(f"the fastest {noun.words()}", f"the {noun.words()} that moves fastest"),
                is_sentence=False,
                referents=(first,),
            )


def _motion_questions(
    noun: Noun, motion: Motion, target: tuple[int, ...], among: tuple[int, ...]
) -> Iterator[Question]:
    """Yield phrases, "the circle moving up", and questions, "Which circle moves up?"."""
    plural = len(target) > 1
    verbs, name = (motion.many if plural else motion.one), noun.words(plural=plural)
    start = f"all {name}" if plural else f"the {name}"
    phrases = [f"{start} {motion.doing}"] if motion.doing else []
    phrases += [f"{start} that {verb}" for verb in verbs]
    questions = [f"Which {name} {verb}?" for verb in verbs]
    for texts, is_sentence in ((phrases, False), (questions, True)):
        yield Question(
            kind="motion",
            texts=tuple(texts),
            is_sentence=is_sentence,
            referents=target,
            among=among,
        )
