"""Where the demo keeps what it remembers: one folder that any process can open.

demo.json             the data folder and the model, so that a resume elsewhere uses the same
databases.json        the databases that the flow created: what `create_database` really changes
services_state.json   how often each service was restarted: what `restart_service` really changes
index.db              the search index, made from the documents and safe to delete
lock.db               empty; SQLite's lock on it is held while the state file is changed
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.demo import folder

BUNDLED_DATA = Path(__file__).parent / "data"
LOCK_WAIT_S = 10.0  # a restart holds the lock for milliseconds; who waits longer faces a stuck disk
MAX_LOG_CHOICES = 100  # log files offered by name: a form, and a model's context, can hold that many
KEPT_KEYS = 50  # restarts remembered by key; a call is repeated soon or never

State = dict[str, dict[str, dict[str, Any]]]


class DataNotFound(LookupError):
    """The data has no such service, environment, file or document. The message lists what there is."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What `demo.json` holds. `data=None`: the bundled incident. `model=None`: the stand-in model.

    `logs` are the log files on offer, relative to `data`. They are remembered, since a folder of logs changes
    by the minute and a question that waits for a person must still show the same choices tomorrow.
    """

    data: str | None = None
    model: str | None = None
    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """A row of `services.json`. `names` are other names that people use; `kind` is `service` or `db`."""

    id: str
    name: str
    envs: tuple[str, ...]
    names: tuple[str, ...] = ()
    kind: str = "service"
    owner: str = ""
    depends_on: tuple[str, ...] = ()
    about: str = ""


class Workspace:
    """The demo's folder. Opening one that does not exist makes it, with the bundled incident."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.directory = directory
        self.settings = settings
        self.data_dir = Path(settings.data) if settings.data else BUNDLED_DATA
        self.services = _read_services(self.data_dir)

    @classmethod
    def create(
        cls, directory: str | Path, data: str | Path | None = None, model: str | None = None
    ) -> "Workspace":
        """Make the folder, or change what it remembers; restart counters stay.

        Raises `UsageError` when `data` is no folder.
        """
        home = Path(directory).absolute()
        home.mkdir(parents=True, exist_ok=True)
        settings = Settings(model=model)
        if data is not None:
            root = _data_folder(data)
            settings = Settings(str(root), model, _offered_logs(root, home))
        _write_json(home / "demo.json", asdict(settings))
        workspace = cls(home, settings)
        workspace._add_missing_counters()
        return workspace

    @classmethod
    def open(cls, directory: str | Path) -> "Workspace":
        """The workspace as `create` left it. Raises `UsageError` when its data folder or settings are gone."""
        home = Path(directory).absolute()
        if not (home / "demo.json").exists():
            return cls.create(home)
        return cls(home, _read_settings(home / "demo.json"))

    @property
    def state_file(self) -> Path:
        """JSON: service -> environment -> `{"restarts": N, "last_restart": ISO time or null, ...}`."""
        return self.directory / "services_state.json"

    @property
    def index_file(self) -> Path:
        """The SQLite file of the search index."""
        return self.directory / "index.db"

    @property
    def environments(self) -> tuple[str, ...]:
        """All environments of the services table, in its order; empty when there is no table."""
        return tuple(dict.fromkeys(env for service in self.services for env in service.envs))

    def documents(self) -> list[Path]:
        """The documents that can be searched now."""
        return folder.documents(self.data_dir, without=self.directory)

    def log_file(self, name: str) -> Path:
        """The log `name`, relative to the data folder. Raises `DataNotFound`, also for a way out of the folder."""
        path = (self.data_dir / name).resolve()
        if not path.is_relative_to(self.data_dir.resolve()) or not path.is_file():
            raise DataNotFound(f"there is no log {name!r} in the data folder")
        return path

    def service_log(self, service_id: str, environment: str) -> Path:
        """The log of a service in an environment. Raises `DataNotFound` when there is none."""
        service = self.service(service_id)
        if environment not in service.envs:
            raise DataNotFound(
                f"{service_id} does not run in {environment}; it runs in {', '.join(service.envs)}"
            )
        return self.log_file(f"logs/{environment}/{service_id}.log")

    def service(self, service_id: str) -> Service:
        """The service with this id. Raises `DataNotFound`."""
        for service in self.services:
            if service.id == service_id:
                return service
        known = ", ".join(service.id for service in self.services)
        raise DataNotFound(f"there is no service {service_id!r}; there are {known}")

    def state(self) -> State:
        """The state file's content. Another process may change it right after."""
        if not self.state_file.exists():
            return {}
        state: State = json.loads(self.state_file.read_text(encoding="utf-8"))
        return state

    def restarts(self, service_id: str, environment: str) -> int:
        """How often the service was restarted."""
        return int(self.state().get(service_id, {}).get(environment, {}).get("restarts", 0))

    def restart(self, service_id: str, environment: str, *, key: str, approved_by: str | None = None) -> int:
        """Count one restart and return the new counter.

        The same `key` again counts nothing and returns the counter. Safe from several processes at once: the
        file is replaced whole, under a lock. Raises `DataNotFound` for a service that does not run there.
        """
        if environment not in self.service(service_id).envs:
            raise DataNotFound(f"{service_id} does not run in {environment}")
        with self._locked():
            state = self.state()
            entry = state.setdefault(service_id, {}).setdefault(environment, _no_restart())
            if key not in entry["keys"]:
                _count(entry, key, approved_by)
                _write_json(self.state_file, state)
            return int(entry["restarts"])

    def databases(self, service_id: str) -> list[str]:
        """The databases that were created for a service, oldest first."""
        return [one["name"] for one in self._created() if one["service_id"] == service_id]

    def create_database(self, service_id: str, environment: str, *, key: str) -> str:
        """Create a database and give its name; the same `key` again creates nothing and gives the same name."""
        with self._locked():
            created = self._created()
            known = next((one for one in created if one["key"] == key), None)
            if known is not None:
                return str(known["name"])
            name = f"db-{service_id.removeprefix('svc-')}-{environment}-{len(created) + 1}"
            entry = {"name": name, "service_id": service_id, "environment": environment, "key": key}
            _write_json(self.directory / "databases.json", [*created, entry])
            return name

    def _created(self) -> list[dict[str, Any]]:
        file = self.directory / "databases.json"
        created: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
        return created

    def _add_missing_counters(self) -> None:
        with self._locked():
            state = self.state()
            for service in self.services:
                for env in service.envs if service.kind == "service" else ():
                    state.setdefault(service.id, {}).setdefault(env, _no_restart())
            _write_json(self.state_file, state)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # SQLite's file lock works on every system and ends with its process, which a lock file does not
        with closing(
            sqlite3.connect(self.directory / "lock.db", timeout=LOCK_WAIT_S, isolation_level=None)
        ) as lock:
            lock.execute("BEGIN IMMEDIATE")
            yield


def _no_restart() -> dict[str, Any]:
    return {"restarts": 0, "last_restart": None, "approved_by": None, "keys": []}


def _count(entry: dict[str, Any], key: str, approved_by: str | None) -> None:
    entry["restarts"] += 1
    entry["last_restart"] = datetime.now(UTC).isoformat(timespec="seconds")
    entry["approved_by"] = approved_by
    entry["keys"] = [*entry["keys"], key][-KEPT_KEYS:]


def _data_folder(data: str | Path) -> Path:
    root = Path(data).expanduser().resolve()
    if not root.is_dir():
        raise UsageError(f"{data} is no folder; --data takes a folder of logs and documents")
    return root


def _offered_logs(root: Path, home: Path) -> tuple[str, ...]:
    found = folder.log_files(root, without=home)[:MAX_LOG_CHOICES]
    return tuple(path.relative_to(root).as_posix() for path in found)


def _read_settings(file: Path) -> Settings:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        settings = Settings(stored.get("data"), stored.get("model"), tuple(stored.get("logs", ())))
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f"{file} does not hold the demo's settings; delete it to start anew") from error
    if settings.data is not None and not Path(settings.data).is_dir():
        raise UsageError(f"the data folder {settings.data} that {file} names is gone")
    return settings


def _read_services(data_dir: Path) -> tuple[Service, ...]:
    file = data_dir / "services.json"
    if not file.is_file():
        return ()
    try:
        return tuple(_service(row) for row in json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f'{file} is no services table: it takes a list of {{"id", "name", "envs": [...]}} objects'
        ) from error


def _service(row: dict[str, Any]) -> Service:
    return Service(
        id=str(row["id"]),
        name=str(row["name"]),
        envs=tuple(row["envs"]),
        names=tuple(row.get("names", ())),
        kind=str(row.get("kind", "service")),
        owner=str(row.get("owner", "")),
        depends_on=tuple(row.get("depends_on", ())),
        about=str(row.get("about", "")),
    )


def _write_json(file: Path, value: object) -> None:
    # written beside and moved over: a reader sees the old file or the new one, never half of one
    beside = file.with_name(f"{file.name}.{os.getpid()}.new")
    with beside.open("w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False, indent=2)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)
