"""Settings of a plugin, read from its source without importing it; `harness list` shows them.

A plugin function's keyword-only parameters are its settings. A decorator may add the fields of
dataclasses: `@with_options(Composition, max_new_tokens=2048)` adds those of `Composition`, with
another default for `max_new_tokens` (see `harness.options`). Sources are parsed with `ast`, and
names in them are looked up across modules, so that slow imports (torch) are avoided.
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
WITHOUT_KEYWORD = "without"  # of `with_options`: names of fields that the plugin does not offer
CARRIED_TYPE = "Carried"  # `Carried[int]`: a checkpoint carries the option; its type is `int`
COMMON_SETTINGS = (
    *("checkpoint", "backend", "base_url", "segmenter", "propagator", "frames", "max_new_tokens"),
    *("learning_rate", "max_steps", "num_generations", "per_device_train_batch_size", "finetune"),
    *("model", "temperature", "batch_size", "save_steps", "save_total_limit"),
)
"""Settings that users ask for most, whichever plugin offers them."""
MAX_SHOWN, N_OWN_FIRST, MAX_OVER = 10, 5, 2
"""MAX_SHOWN: settings on a plugin's screen without `--all`. N_OWN_FIRST: the plugin's own settings
that come before `COMMON_SETTINGS`. MAX_OVER: nothing is cut if at most so many exceed MAX_SHOWN."""
MAX_CHOICES_LENGTH = 100  # characters: longer lists of choices of a named type are left out


def settings(entry: EntryPoint) -> dict[str, str]:
    """Return each setting of a plugin by name, as a line with default, choices and documentation.

    Parameters of the plugin's function come first, then the settings that its decorators add.
    """
    return {name: setting.line() for name, setting in offered_settings(entry).items()}


def offered_settings(entry: EntryPoint) -> "dict[str, Offered]":
    """Return each setting of a plugin by name, in the order of `settings`; {} without a source."""
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
    # An entry is `    canvas: Side of the image`; lines that continue it are indented by 8 or more.
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", text, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _added(source: "ModuleSource", function: ast.FunctionDef) -> "dict[str, Offered]":
    """Return the settings that decorators add: fields of the classes in their arguments."""
    added: dict[str, Offered] = {}
    for call in function.decorator_list:
        if not isinstance(call, ast.Call):
            continue
        defaults = _keywords(source, call)
        left_out = defaults.pop(WITHOUT_KEYWORD, None)
        for name in (argument.id for argument in call.args if isinstance(argument, ast.Name)):
            module = source.origin(name)
            dataclass_node = module.defined(ast.ClassDef, name) if module is not None else None
            if module is None or dataclass_node is None:
                continue
            for field, offered in _fields(module, dataclass_node).items():
                if left_out is None or field not in ast.literal_eval(left_out):
                    changed = defaults.get(field)
                    default = offered.default if changed is None else source.value(changed)
                    added[field] = offered._replace(default=default)
    return added


def _keywords(source: "ModuleSource", call: ast.Call) -> dict[str, ast.expr]:
    """Return the keyword arguments of a call, with those of an unpacked dictionary (`**RUNS`)."""
    keywords: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        if keyword.arg is not None:
            keywords[keyword.arg] = keyword.value
            continue
        unpacked = source.resolve_default(keyword.value)
        if isinstance(unpacked, ast.Dict):
            pairs = zip(unpacked.keys, unpacked.values, strict=True)
            keywords |= {ast.literal_eval(key): value for key, value in pairs if key is not None}
    return keywords


def _fields(module: "ModuleSource", dataclass_node: ast.ClassDef) -> "dict[str, Offered]":
    """Return each field of a dataclass and of its bases, by name.

    A field that a class repeats without a docstring keeps the docstring of the base's field.
    """
    offered: dict[str, Offered] = {}
    for base in dataclass_node.bases:
        if not isinstance(base, ast.Name) or (origin := module.origin(base.id)) is None:
            continue
        if (base_node := origin.defined(ast.ClassDef, base.id)) is not None:
            offered |= _fields(origin, base_node)
    following = [*dataclass_node.body[1:], ast.Pass()]  # a field's docstring is the next statement
    for statement, next_statement in zip(dataclass_node.body, following, strict=True):
        match statement:
            case ast.AnnAssign(annotation=ast.Subscript(value=ast.Name(id="ClassVar"))):
                continue
            case ast.AnnAssign(target=ast.Name(id=name)):
                about = _docstring_text(next_statement)
            case _:
                continue
        if not about and name in offered:
            about = offered[name].about
        offered[name] = Offered(module, statement.annotation, statement.value, about)
    return offered


def _docstring_text(statement: ast.stmt) -> str:
    """Return a statement's text on one line if it is a text alone, as a docstring is; else ""."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


class Offered(NamedTuple):
    """A setting as it is written in a source."""

    source: "ModuleSource"
    """The module where names in the annotation and the default are defined or imported."""
    annotation: ast.expr | None
    default: ast.expr | None
    """None: the setting is required."""
    about: str
    """The setting's entry in the function's `Args:`, or else the field's docstring."""

    def line(self) -> str:
        """Return `=DEFAULT (one of CHOICES. ABOUT)`, such as `=8 (Rollouts of a prompt)`."""
        choices = ", ".join(self.source.choices(self.annotation))
        value = "= needed"
        if self.default is not None:
            value = f"={_word(self.source.value(self.default))}"
        remarks = [f"one of {choices}"] if choices else []
        about = re.sub(r"\bNone\b", "none", self.about).rstrip(".")
        remarks += [about] if about else []
        return f"{value} ({'. '.join(remarks)})" if remarks else value


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
        as_spec = str(Spec("x", {"x": constant}))  # puts quotes where a SPEC needs them
        return as_spec.removeprefix("x(x=").removesuffix(")")
    return repr(constant)


def main_settings(offered: "Mapping[str, Offered]") -> list[str]:
    """Return the names of the settings that are shown without `--all`, in this order.

    Required ones come first, then the first `N_OWN_FIRST` in the source, `COMMON_SETTINGS`, and the
    others. `MAX_SHOWN` of them are returned, or all if there are at most `MAX_OVER` more.
    """
    needed = [name for name, setting in offered.items() if setting.default is None]
    common = [name for name in COMMON_SETTINGS if name in offered]
    ordered = list(dict.fromkeys([*needed, *list(offered)[:N_OWN_FIRST], *common, *offered]))
    return ordered if len(ordered) <= MAX_SHOWN + MAX_OVER else ordered[:MAX_SHOWN]


@dataclass(frozen=True)
class ModuleSource:
    """A module's source, in which names are looked up without importing it."""

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

    def defined(self, node_type: type[Defined], name: str) -> Defined | None:
        """Return a function or a class of the module by name; None if it is not defined here."""
        definitions = (
            node for node in self.tree.body if isinstance(node, node_type) and node.name == name
        )
        return next(definitions, None)

    def origin(self, name: str) -> "ModuleSource | None":
        """Return the module that a name is imported from, this one if it is defined here.

        None if neither is found.
        """
        for module, names in self._imports():
            if name in names:
                return ModuleSource.of_module(module)
        here = self.defined(ast.FunctionDef, name) or self.defined(ast.ClassDef, name)
        return self if here else None

    def choices(self, annotation: ast.expr | None) -> list[str]:
        """Return the values of a `Literal` in a type, wherever it is defined; [] without one."""
        match annotation:
            case ast.BinOp(left=first, right=second):  # `Kind | None`
                listed = [*self.choices(first), *self.choices(second)]
                has_none = any(isinstance(member, ast.Constant) for member in (first, second))
                return [*listed, "none"] if has_none and listed else listed
            case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=values)):
                return [_word(value) for value in values]
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, *_])):
                return self.choices(inner)
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name == CARRIED_TYPE:
                return self.choices(inner)
            case ast.Name(id=name):
                module, alias = self._find_definition(name)
                listed = [] if alias is None else module.choices(alias)
                return listed if sum(map(len, listed)) <= MAX_CHOICES_LENGTH else []
        return []

    def value(self, default: ast.expr) -> ast.expr:
        """Return a default as it is shown: a name that stands for a constant or call, resolved."""
        resolved = self.resolve_default(default)
        return resolved if isinstance(resolved, (ast.Constant, ast.UnaryOp, ast.Call)) else default

    def resolve_default(self, default: ast.expr | None) -> ast.expr | None:
        """Return the expression that a name stands for; other defaults unchanged."""
        return self._find_definition(default.id)[1] if isinstance(default, ast.Name) else default

    def _find_definition(self, name: str) -> tuple["ModuleSource", ast.expr | None]:
        """Return the module that gives a name its value, and the value; None if not found."""
        if name in (values := self._names()):
            return self, values[name]
        for module, names in self._imports():
            if name in names and module.partition(".")[0] == "harness":
                source = ModuleSource.of_module(module)
                if source is not None:
                    return source._find_definition(name)
        return self, None

    def _imports(self) -> Iterator[tuple[str, set[str]]]:
        """Yield each module that `from module import …` names, with the names taken from it."""
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                yield node.module, {alias.asname or alias.name for alias in node.names}

    def _names(self) -> Mapping[str, ast.expr]:
        """Return the module's names with their values: `Kind: TypeAlias = …`, `A = B = 5`."""
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
