"""The gallery of one run: figures of its best, median and worst samples."""

from harness.leaderboards import formatting
from harness.leaderboards.board import Entry
from harness.leaderboards.formatting import cut
from harness.leaderboards.gallery import Exhibit
from harness.leaderboards.render.markup import Markup, element, join
from harness.leaderboards.render.transcripts import transcript

VIEWS = ("prediction", "ground_truth", "image")


def gallery(entry: Entry, *, prefix: str) -> Markup:
    """A run's samples, closed; `prefix` makes the ids of its switch unique on the page."""
    shown = entry.gallery
    summary = join("Samples of ", element("b", {}, entry.row.name))
    content = []
    if shown.note:
        content.append(element("p", {"class": "note"}, shown.note))
    if any("prediction" in exhibit.views for exhibit in shown.exhibits):
        content.extend(_switch(prefix))
    content.append(element("div", {"class": "groups"}, *_groups(entry)))
    return element("details", {"class": "samples"}, element("summary", {}, summary), *content)


def _groups(entry: Entry) -> list[Markup]:
    """Best, median and worst beside each other; strips of frames below each other."""
    by_standing: dict[str, list[Markup]] = {}
    for exhibit in entry.gallery.exhibits:
        figure = _figure(exhibit, entry.row.headline)
        by_standing.setdefault(exhibit.standing, []).append(figure)
    wide = any(exhibit.wide for exhibit in entry.gallery.exhibits)
    return [
        element(
            "section",
            {"class": "group wide" if wide else "group"},
            element("h3", {}, standing.capitalize()),
            *figures,
        )
        for standing, figures in by_standing.items()
    ]


def _switch(prefix: str) -> list[Markup]:
    """Radio buttons and their labels; the style sheet shows the images of the one chosen."""
    buttons = []
    for index, view in enumerate(VIEWS):
        attributes: dict[str, str | None] = {
            "type": "radio",
            "class": f"view view-{view}",
            "name": prefix,
            "id": f"{prefix}-{view}",
        }
        if index == 0:
            attributes["checked"] = None
        buttons.append(element("input", attributes))
        buttons.append(element("label", {"for": f"{prefix}-{view}"}, _view_name(view).capitalize()))
    legend = element(
        "span",
        {"class": "legend"},
        element("i", {"class": "swatch ground_truth"}),
        "ground truth",
        element("i", {"class": "swatch prediction"}),
        "prediction",
    )
    return [*buttons, legend]


def _view_name(view: str) -> str:
    """The view's name in words."""
    return view.replace("_", " ")


def _figure(exhibit: Exhibit, headline: str) -> Markup:
    lines = [
        ("Ground truth", exhibit.ground_truth),
        ("Answer", exhibit.answer),
        ("Failure", exhibit.failure),
    ]
    text = [
        element(
            "div",
            {"class": name.lower().replace(" ", "_")},
            element("dt", {}, name),
            element("dd", {}, cut(t)),
        )
        for name, t in lines
        if t
    ]
    caption = [
        element(
            "p",
            {"class": "value"},
            f"{headline} ",
            element("b", {}, formatting.number(exhibit.value)),
        ),
        element("p", {"class": "question"}, cut(exhibit.question)),
        _options(exhibit),
        element("dl", {}, *text),
        *_requests(exhibit),
        *_responses(exhibit),
        element("p", {"class": "id"}, _identity(exhibit)),
    ]
    return element(
        "figure",
        {"class": "wide" if exhibit.wide else "card"},
        _images(exhibit),
        element("figcaption", {}, *caption),
    )


def _images(exhibit: Exhibit) -> Markup:
    """Draw the views; a view that cannot be drawn is replaced by the plain image."""
    if not exhibit.views:
        return element("p", {"class": "blank"}, "no image")
    classes: dict[str, list[str]] = {}
    for view in VIEWS:
        classes.setdefault(exhibit.views.get(view) or exhibit.views["image"], []).append(view)
    images = [
        element(
            "img",
            {
                "src": uri,
                "class": " ".join(f"of-{view}" for view in views),
                "alt": f"{exhibit.sample}: {' and '.join(map(_view_name, views))}",
                "decoding": "async",
            },
        )
        for uri, views in classes.items()
    ]
    frame: dict[str, str | None] = {"class": "frame"}
    if exhibit.wide:
        frame |= {"tabindex": "0", "role": "region", "aria-label": f"Frames of {exhibit.sample}"}
    return element("div", frame, *images)


def _options(exhibit: Exhibit) -> Markup:
    if not exhibit.options:
        return Markup("")
    options = [element("li", {}, cut(option)) for option in exhibit.options]
    return element("ol", {"class": "options"}, *options)


def _requests(exhibit: Exhibit) -> list[Markup]:
    if not exhibit.requests:
        return []
    texts = [f"{name}: {cut(text)}" for name, text in exhibit.requests.items()]
    return [_details_element("Requests" if len(texts) > 2 else "Request", "\n\n".join(texts))]


def _details_element(name: str, text: str) -> Markup:
    return element(
        "details",
        {"class": "response"},
        element("summary", {}, name),
        element("pre", {"tabindex": "0"}, text),
    )


def _responses(exhibit: Exhibit) -> list[Markup]:
    if exhibit.blocks:
        name = f"Response of {len(exhibit.responses)} turns"
        summary = element("summary", {}, name)
        return [element("details", {"class": "response"}, summary, transcript(exhibit.blocks))]
    many = len(exhibit.responses) > 1
    return [
        _details_element(f"Response {number}" if many else "Response", cut(response))
        for number, response in enumerate(exhibit.responses, 1)
    ]


def _identity(exhibit: Exhibit) -> str:
    if exhibit.unit_size == 1:
        return exhibit.sample
    return f"{exhibit.sample}, first of {exhibit.unit_size} scored together"
