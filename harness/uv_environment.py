"""Python environments, made by uv, for models whose packages cannot be installed beside harness's.

    qwen_vl(checkpoint=…,backend=uv(requirements="transformers==5.17.0 torch<3",python="3.12"))
    external(command='python run.py …',environment=uv(requirements=/opt/LISA/requirements.txt))

`harness env prepare` makes one in the user's cache; nothing else downloads. In `backend=` it runs
the model's whole adapter and also holds harness's requirements, which the given ones override, and
links to this copy of harness. In `environment=` it runs an external program.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from importlib import metadata
from pathlib import Path

from harness.errors import MissingDependency, UsageError
from harness.files import temporary_beside
from harness.spec import Spec, Value

PACKAGE = "visual-reasoning-harness"
UV = "uv"
BACKEND, ENVIRONMENT = "backend", "environment"
"""Arguments that name an environment: `backend` of a model, `environment` of `external`."""
TORCH_EXTRA = "torch"
"""Extra whose packages a model's environment holds."""
READY_FILE = "packages.json"
"""File that is written last, so that it marks a complete environment: versions by package."""
REVEALING = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Environment variables by which an interpreter would find another environment's packages."""
NESTED_FILE = re.compile(r"\s*(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)")
"""Line of a requirements file that names another, such as `-r base.txt`."""
MAX_OUTPUT = 1500
"""Number of characters at the end of uv's output that an error shows."""


@dataclass(frozen=True)
class UvEnvironment:
    """An environment in the user's cache, named by a hash of all that it is made from."""

    requirements: str
    """Requirements with spaces between them, or the path of a requirements file."""
    python: str = ""
    """Version or path of its interpreter, as uv takes it; empty: uv's choice."""
    holds_harness: bool = False
    """True for a model's adapter, False for an external program."""

    def __str__(self) -> str:
        settings = {"requirements": self.requirements, "python": self.python}
        return str(Spec(UV, {key: value for key, value in settings.items() if value}))

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines of the requirements.

        Raises:
            UsageError: their file cannot be read.
        """
        if not self.requirements.endswith((".txt", ".in")):
            # A blank separates two requirements unless a comparison is beside it: `torch >= 2.3`.
            return re.split(r"(?<![<>=!~,])\s+(?![<>=!~,])", self.requirements.strip())
        try:
            return Path(self.requirements).expanduser().read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                str(self),
                expected="a requirements file",
                found=getattr(error, "strerror", None) or "no text in UTF-8",
            ) from error

    @cached_property
    def folder(self) -> Path:
        """Folder in the user's cache (`XDG_CACHE_HOME`), named by a hash of its content."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        parts = [*self.lines, *self._nested(), self.python]
        parts += [*map(str, self._linked()), *self._own_requirements()]
        name = blake2b("\n".join(parts).encode(), digest_size=10).hexdigest()
        return cache / "harness" / "environments" / name

    @property
    def programs(self) -> Path:
        """Folder of its programs, among them `python`.

        Raises:
            MissingDependency: it is not prepared.
        """
        if not (self.folder / READY_FILE).is_file():
            where = f"{BACKEND if self.holds_harness else ENVIRONMENT}={self}"
            raise MissingDependency(
                str(self),
                expected="an environment that is prepared",
                found="none",
                fix=f"Make it: `harness env prepare --model SPEC`, with the SPEC that has {where}.",
            )
        return self.folder / "bin"

    @property
    def packages(self) -> Mapping[str, str]:
        """Versions of its packages by name, for the record.

        Raises:
            MissingDependency: it is not prepared.
        """
        ready = self.programs.parent / READY_FILE
        versions: dict[str, str] = json.loads(ready.read_text("utf-8"))
        return versions

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""
        return {"python": self.python, "packages": self.packages}

    def prepare(self) -> bool:
        """Make the environment with uv, in one process at a time; return False if it was there.

        Raises:
            MissingDependency: there is no uv, or it cannot install the requirements.
        """
        if (self.folder / READY_FILE).is_file():
            return False
        shutil.rmtree(self.folder, ignore_errors=True)  # a preparation that was killed
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._uv("venv", *(("--python", self.python) if self.python else ()), str(self.folder))
        interpreter = ("--python", str(self.folder / "bin" / "python"))
        with tempfile.TemporaryDirectory() as folder:
            given_file = self._file or Path(folder, "requirements.txt")
            own_file = Path(folder, "harness.txt")
            if self._file is None:
                given_file.write_text("\n".join(self.lines))
            own_file.write_text("\n".join(self._own_requirements()))
            files = ("-r", str(given_file), "-r", str(own_file), "--overrides", str(given_file))
            self._uv("pip", "install", *interpreter, *files)
        (packages,) = self.folder.glob("lib/python*/site-packages")
        for path in self._linked():
            (packages / path.name).symlink_to(path)
        listed = json.loads(self._uv("pip", "list", *interpreter, "--format", "json"))
        versions = {package["name"]: package["version"] for package in listed}
        temporary = temporary_beside(self.folder / READY_FILE)
        temporary.write_text(json.dumps(versions), "utf-8")
        temporary.replace(self.folder / READY_FILE)
        return True

    @property
    def _file(self) -> Path | None:
        """Path of the requirements file; None: they are given as text."""
        is_file = self.requirements.endswith((".txt", ".in"))
        return Path(self.requirements).expanduser().absolute() if is_file else None

    def _nested(self) -> Sequence[str]:
        """Return the texts of all files that the requirements file names by `-r` or `-c`."""
        texts: list[str] = []
        unread = [] if self._file is None else [(self._file, self.lines)]
        visited = {self._file}
        while unread:
            file, lines = unread.pop()
            for line in lines:
                match = NESTED_FILE.match(line)
                path = file.parent / match[1] if match else None
                if path is None or path in visited or not path.is_file():
                    continue
                visited.add(path)
                text = path.read_text("utf-8", "replace")
                texts.append(text)
                unread.append((path, text.splitlines()))
        return texts

    def _own_requirements(self) -> Sequence[str]:
        return harness_requirements() if self.holds_harness else ()

    def _linked(self) -> Sequence[Path]:
        """Return the folders of this copy of harness: its code, and its metadata with plugins."""
        if not self.holds_harness:
            return ()
        distribution = metadata.distribution(PACKAGE)
        (entry_points,) = (
            path for path in distribution.files or () if path.name == "entry_points.txt"
        )
        return Path(__file__).resolve().parent, Path(
            str(distribution.locate_file(entry_points))
        ).parent

    def _uv(self, *arguments: str) -> str:
        """Run uv and return its output; raise MissingDependency if it is absent or fails."""
        program = shutil.which(UV)
        if program is None:
            raise MissingDependency(
                "program uv", expected="it installed", found="none", fix="pip install uv"
            )
        process = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        if process.returncode != 0:
            raise MissingDependency(
                str(self),
                expected=f"uv {' '.join(arguments[:2])} to succeed",
                found=process.stderr.strip()[-MAX_OUTPUT:],
            )
        return process.stdout


def harness_requirements() -> list[str]:
    """Return the requirements of harness with torch, as this installation states them."""
    requirements = []
    for line in metadata.requires(PACKAGE) or ():
        requirement, _, marker = line.partition(";")
        if not marker or marker.strip() == f"extra == '{TORCH_EXTRA}'":
            requirements.append(requirement.strip())
    return requirements


def uv_environment(spec: Spec, *, holds_harness: bool) -> UvEnvironment:
    """Return the environment that `uv(requirements=…,python=…)` names.

    Raises:
        UsageError: it names something else.
    """
    arguments = dict(spec.arguments)
    arguments.pop(BACKEND, None)
    if isinstance(arguments.get("python"), float):  # 3.10 and 3.1 are one number
        raise UsageError(
            str(spec), expected='the version in quotes, such as python="3.12"', found="a number"
        )
    texts = {key: str(value) for key, value in arguments.items() if value is not None}
    if spec.name != UV or "requirements" not in texts or set(texts) - {"requirements", "python"}:
        raise UsageError(
            str(spec),
            expected='uv(requirements="PACKAGE==VERSION …" or FILE.txt, python="VERSION")',
            found="another form",
        )
    return UvEnvironment(**texts, holds_harness=holds_harness)


def without_environment(spec: Spec) -> tuple[Spec, UvEnvironment | None]:
    """Return a model's SPEC without `backend=uv(…)`, and the environment named there, if any.

    Raises:
        UsageError: its parts ask for several environments.
    """
    environments = set[UvEnvironment]()

    def without(part: Spec) -> Spec:
        arguments: dict[str, Value] = {}
        for key, value in part.arguments.items():
            if key == BACKEND and isinstance(value, Spec) and value.name == UV:
                environments.add(uv_environment(value, holds_harness=True))
                if BACKEND in value.arguments:
                    arguments[key] = value.arguments[BACKEND]
            else:
                arguments[key] = without(value) if isinstance(value, Spec) else value
        return Spec(part.name, arguments)

    stripped = without(spec)
    if len(environments) > 1:
        raise UsageError(str(spec), expected="one environment a model", found="several")
    return stripped, next(iter(environments), None)


def environments_of(spec: Spec) -> Iterator[UvEnvironment]:
    """Yield all environments that a model's SPEC names."""
    stripped, environment = without_environment(spec)
    if environment is not None:
        yield environment
    for key, value in stripped.arguments.items():
        if isinstance(value, Spec):
            if key == ENVIRONMENT and value.name == UV:
                yield uv_environment(value, holds_harness=False)
            else:
                yield from environments_of(value)
