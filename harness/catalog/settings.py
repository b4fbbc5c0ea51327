"""Settings of a plugin, read from its source: nothing is imported to list them.

A plugin function's keyword-only parameters are its settings. A decorator may add the fields of a
dataclass: `harness.options.with_options` those of its positional arguments. Its other arguments are
their defaults.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness import plugins
from harness.spec import Spec

Defined = TypeVar("Defined", ast.FunctionDef, ast.ClassDef)
WITHOUT = "without"
MARK = "Carried"  # says of an option that a checkpoint carries it, and nothing of its type
COMMON = (
    *("checkpoint", "backend", "base_url", "segmenter", "propagator", "frames", "max_new_tokens"),
    *("learning_rate", "max_steps", "num_generations", "per_device_train_batch_size", "finetune"),
    *("model", "temperature", "batch_size", "save_steps", "save_total_limit"),
)
"""Settings that are asked for first, wherever a plugin offers them."""
SHOWN, OWN, FEW = 10, 5, 2
"""Settings that a plugin's screen shows; how many in the order of its source come before `COMMON`;
and how many more are shown rather than left to `--all`."""
LONGEST = 100  # characters of the choices of a named type that are written out


def settings(entry: EntryPoint) -> dict[str, str]:
    """Return every setting of a plugin: its default, its choices, and its documentation.

    Its own come first, in the order of its source; then those of its engine.
    """
    return {name: setting.line() for name, setting in offered_settings(entry).items()}


def offered_settings(entry: EntryPoint) -> "dict[str, Offered]":
    """Return all that a plugin's function offers, by name; see `settings` for the order."""
    source = ModuleSource.of_module(entry.module) if plugins.folder(entry) is not None else None
    function = source.defined(ast.FunctionDef, entry.attr) if source is not None else None
    if source is None or function is None:
        return {}
    documented = documented_settings(function)
    own = {
        parameter.arg: Offered(source, parameter.annotation, default, "")
        for parameter, default in zip(
            function.args.kwonlyargs, function.args.kw_defaults, strict=True
        )
    }
    offered = {**own, **_added(source, function)}
    return {
        name: setting._replace(about=documented.get(name, setting.about))
        for name, setting in offered.items()
    }


def documented_settings(function: ast.FunctionDef) -> dict[str, str]:
    """Return the descriptions in the `Args:` of a function's docstring, by name."""
    text = ast.get_docstring(function) or ""
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", text, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _added(source: "ModuleSource", function: ast.FunctionDef) -> "dict[str, Offered]":
    """The settings that decorators add."""
    added: dict[str, Offered] = {}
    for call in function.decorator_list:
        if not isinstance(call, ast.Call):
            continue
        given = _given(source, call)
        left_out = given.pop(WITHOUT, None)
        for name in (argument.id for argument in call.args if isinstance(argument, ast.Name)):
            module = source.origin(name)
            known = module.defined(ast.ClassDef, name) if module is not None else None
            if module is None or known is None:
                continue
            for field, offered in _fields(module, known).items():
                if left_out is None or field not in ast.literal_eval(left_out):
                    own = given.get(field)
                    default = offered.default if own is None else source.value(own)
                    added[field] = offered._replace(default=default)
    return added


def _given(source: "ModuleSource", call: ast.Call) -> dict[str, ast.expr]:
    """The keyword arguments of a call, those of a table that is unpacked (`**RUNS`) among them."""
    given: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        table = source.resolve_default(keyword.value) if keyword.arg is None else None
        if keyword.arg is not None:
            given[keyword.arg] = keyword.value
        elif isinstance(table, ast.Dict):
            pairs = zip(table.keys, table.values, strict=True)
            given |= {ast.literal_eval(key): value for key, value in pairs if key is not None}
    return given


def _fields(module: "ModuleSource", known: ast.ClassDef) -> "dict[str, Offered]":
    """Every field of a dataclass and of its bases; one that a base documents may be given anew."""
    offered: dict[str, Offered] = {}
    for base in known.bases:
        if not isinstance(base, ast.Name) or (origin := module.origin(base.id)) is None:
            continue
        if (above := origin.defined(ast.ClassDef, base.id)) is not None:
            offered |= _fields(origin, above)
    following = [*known.body[1:], ast.Pass()]
    for statement, after in zip(known.body, following, strict=True):
        match statement:
            case ast.AnnAssign(annotation=ast.Subscript(value=ast.Name(id="ClassVar"))):
                continue
            case ast.AnnAssign(target=ast.Name(id=name)):
                about = _text(after)
            case _:
                continue
        if not about and name in offered:
            about = offered[name].about
        offered[name] = Offered(module, statement.annotation, statement.value, about)
    return offered


def _text(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


class Offered(NamedTuple):
    """A setting as its source has it."""

    source: "ModuleSource"
    """The module that names of its type and default are of."""
    kind: ast.expr | None
    default: ast.expr | None
    about: str
    """Words of the function on it, or else its field's docstring."""

    def line(self) -> str:
        """Return the setting as a SPEC gives it: `=8 (Rollouts of a prompt)`, choices by name."""
        choices = ", ".join(self.source.choices(self.kind))
        value = "= needed"
        if self.default is not None:
            value = f"={_word(self.source.value(self.default))}"
        words = [f"one of {choices}"] if choices else []
        about = re.sub(r"\bNone\b", "none", self.about).rstrip(".")
        words += [about] if about else []
        return f"{value} ({'. '.join(words)})" if words else value


def _word(value: ast.expr) -> str:
    """Return a default as a SPEC writes it."""
    if isinstance(value, ast.Call) and len(value.args) == 1:  # a part's SPEC: `Spec("still")`
        return _word(value.args[0])
    if not isinstance(value, ast.Constant):
        return ast.unparse(value)
    constant = value.value
    if constant is None or isinstance(constant, bool):
        return str(constant).lower()
    if isinstance(constant, str):
        return str(Spec("x", {"x": constant}))[4:-1]  # in quotes where a SPEC needs them
    return repr(constant)


def main_settings(offered: "Mapping[str, Offered]") -> list[str]:
    """Return the names of the settings that are shown first: `SHOWN`, or all if few are left.

    Those that are needed, then the first in the order of the source, which are the plugin's own,
    then `COMMON`, then the others.
    """
    needed = [name for name, setting in offered.items() if setting.default is None]
    common = [name for name in COMMON if name in offered]
    ordered = list(dict.fromkeys([*needed, *list(offered)[:OWN], *common, *offered]))
    return ordered if len(ordered) <= SHOWN + FEW else ordered[:SHOWN]


@dataclass(frozen=True)
class ModuleSource:
    """A module's source."""

    tree: ast.Module

    @classmethod
    def of_module(cls, module: str) -> "ModuleSource | None":
        """Read the source of an installed module; None if it has none."""
        try:
            spec = find_spec(module)
        except (ImportError, ValueError):
            return None
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            return None
        return cls(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))

    def defined(self, kind: type[Defined], name: str) -> Defined | None:
        """A function or a class of the module, by name."""
        definitions = (
            node for node in self.tree.body if isinstance(node, kind) and node.name == name
        )
        return next(definitions, None)

    def origin(self, name: str) -> "ModuleSource | None":
        """The module that a name is imported from; this one if it is defined here."""
        for module, names in self._imports():
            if name in names:
                return ModuleSource.of_module(module)
        here = self.defined(ast.FunctionDef, name) or self.defined(ast.ClassDef, name)
        return self if here else None

    def choices(self, annotation: ast.expr | None) -> list[str]:
        """Return the values that a type lists (`Literal`), wherever it is defined; else none."""
        match annotation:
            case ast.BinOp(left=left, right=right):
                sides = [self.choices(left), self.choices(right)]
                nothing = any(isinstance(side, ast.Constant) for side in (left, right))
                return [*sides[0], *sides[1], *(["none"] if nothing and any(sides) else [])]
            case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=values)):
                return [_word(value) for value in values]
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
                return self.choices(kind)
            case ast.Subscript(value=ast.Name(id=name), slice=kind) if name == MARK:
                return self.choices(kind)
            case ast.Name(id=name):
                module, alias = self._find_definition(name)
                listed = [] if alias is None else module.choices(alias)
                return listed if sum(map(len, listed)) <= LONGEST else []
        return []

    def value(self, default: ast.expr) -> ast.expr:
        """A default as it is shown: a named number or text, wherever it is defined, is itself."""
        resolved = self.resolve_default(default)
        return resolved if isinstance(resolved, (ast.Constant, ast.UnaryOp, ast.Call)) else default

    def resolve_default(self, default: ast.expr | None) -> ast.expr | None:
        """Return a default, or the default that a name stands for."""
        return self._find_definition(default.id)[1] if isinstance(default, ast.Name) else default

    def _find_definition(self, name: str) -> tuple["ModuleSource", ast.expr | None]:
        """The module that gives a name its value, and the value; None if that is not found."""
        if name in (own := self._names()):
            return self, own[name]
        for module, names in self._imports():
            if name in names and module.partition(".")[0] == "harness":
                source = ModuleSource.of_module(module)
                if source is not None:
                    return source._find_definition(name)
        return self, None

    def _imports(self) -> Iterator[tuple[str, set[str]]]:
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                yield node.module, {alias.asname or alias.name for alias in node.names}

    def _names(self) -> Mapping[str, ast.expr]:
        """Names that are given a value: `Kind: TypeAlias = …`, `LIMIT = 5` and `A = B = 5`."""
        values: dict[str, ast.expr] = {}
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=targets, value=value):
                    values |= {
                        target.id: value for target in targets if isinstance(target, ast.Name)
                    }
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    values[name] = value
        return values
