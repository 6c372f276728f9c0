"""Run the checks in order, the checks of the configuration among them; one that fails does not stop the others.

Check of web and literature search: usable providers, and missing keys. Nothing is sent.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from retrieve_cli.assemble.unapplied import summary, unapplied
from retrieve_cli.config import loading
from retrieve_cli.config.index_settings import SERVERS
from retrieve_cli.config.loading import override
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.config.settings import NOT_AGREED, Settings
from retrieve_cli.contracts import Request
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.http.addresses import shown
from retrieve_cli.http.transport import check_secure_url
from retrieve_cli.operations.doctor import checks, engines
from retrieve_cli.operations.doctor.subject import Check, Fault, Subject, check_of, ok, some, warn
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.records.columns import Columns, columns_of

if TYPE_CHECKING:
    from retrieve_cli.config.query_settings import WebSettings
    from retrieve_cli.contracts.websearch import Provider


CONTACT = "contact address"
"""Purpose of a variable (`contracts.websearch.Need`) with the address of a person whom a server may write to."""
_WITHOUT_KEYS = "ddg, pubmed, biorxiv, s2, arxiv"
"""Providers that need no keys."""


def web(subject: Subject) -> Check | None:
    """Check that questions can be asked, by whom, and how they are sent; None if web search is off."""
    chosen = subject.settings.web
    if not chosen.enabled:
        return None
    providers, faults = _configured(subject)
    usable = [provider for provider in providers if not _missing(provider)]
    if missing := {provider.name: _missing(provider) for provider in providers if provider not in usable}:
        names = ", ".join(f"{name} ({', '.join(variables)})" for name, variables in missing.items())
        exports = " ".join(f"{variable}=…" for variables in missing.values() for variable in variables)
        others = ", ".join(provider.name for provider in usable) or _WITHOUT_KEYS
        fix = f"export {exports}, or set web.providers: [{others}]"
        faults.append(Fault("warn", f"skipped, because the environment does not have their keys: {names}", fix))
    for provider in usable:
        for need in provider.needs:
            if not need.required and need.purpose == CONTACT and not _is_set(need.variable):
                message = f"{provider.name}: {need.variable} is not set, and its server asks for a contact address"
                faults.append(Fault("warn", message, f"export {need.variable}=you@example.org"))
    faults += _endpoints(chosen, {server for provider in providers for server in provider.servers})
    if not usable:
        fix = "" if faults else f"set web.providers: [{_WITHOUT_KEYS}]"
        faults.insert(0, Fault("fail", "web search is enabled, and no configured provider can be asked", fix))
    if not faults:
        names = ", ".join(provider.name for provider in usable)
        return Check("web", "ok", f"{some(len(usable), 'provider')} can be asked: {names}")
    return check_of("web", faults)


def _configured(subject: Subject) -> tuple[list[Provider], list[Fault]]:
    """Return the configured providers, and a fault for each name that is not one of them."""
    from retrieve_cli.assemble import websearch

    providers: list[Provider] = []
    faults = []
    for name in dict.fromkeys(subject.settings.web.providers):
        try:
            providers.append(websearch.provider(name, subject.settings))
        except RetrieveError as error:
            faults.append(Fault("fail", error.message, error.hint))
    return providers, faults


def _missing(provider: Provider) -> list[str]:
    """Return the variables without which a provider cannot be asked, and that are not set."""
    return [need.variable for need in provider.needs if need.required and not _is_set(need.variable)]


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _endpoints(chosen: WebSettings, origins: Set[str]) -> Iterator[Fault]:
    """Yield faults of configured endpoints: unencrypted ones, and ones that no provider uses."""
    for origin, other in chosen.endpoints.items():
        called = f"the server for {quoted(shown(origin))} in web.endpoints"
        try:
            check_secure_url(other, called=called)
        except UsageError as error:
            yield Fault("fail", error.message, f"{error.hint}, or remove it from web.endpoints")
            continue
        if urlsplit(other).path.strip("/"):
            yield Fault("fail", f"{called} has a path", "write scheme, host and port: https://HOST:PORT")
        if origin not in origins:
            message = f"no configured provider sends requests to {quoted(shown(origin))}, a key of web.endpoints"
            yield Fault("warn", message, f"name one of {', '.join(sorted(origins))}")


_THRESHOLDS = {"search": ("grade", "max_distance", "min_score"), "rerank": ("min_score",)}
_QUERIES = 8
"""Queries that are answered to find out if a threshold leaves anything."""
_NO_TAGS = str.maketrans("[]", "  ")
_LOCAL = (*TOKEN_BACKENDS, "cross_encoder")
"""Rerankers that are run for it: servers cost time and money."""


def _settings(subject: Subject) -> Fault:
    """Check that a sync with these settings would not change how the index is built."""
    if subject.manifest is None:
        return ok("skipped: there is no index to compare with")

    @cache
    def columns() -> Columns:
        with open_generation(subject.store) as generation:
            return columns_of(generation)

    if subject.given is None:
        return ok("skipped: the configuration is invalid")
    differing = unapplied(subject.settings, subject.manifest.recipe, columns=columns)
    if not differing:
        return ok("the index is built as configured")
    message = f"{summary(differing, subject.given)}, until a sync"
    return warn(message, subject.sync() or subject.build() or subject.build_from())


def _thresholds(subject: Subject) -> Fault | None:
    """Check that the thresholds leave some results to queries that are names of records, which match well."""
    chosen = [
        f"{section}.{key}"
        for section, keys in _THRESHOLDS.items()
        for key in keys
        if getattr(getattr(subject.settings, section), key) is not None
    ]
    if subject.manifest is None or not chosen:
        return None
    free = {"search": {"require_tenant": False, "deadline_ms": None}, "gating": {"enabled": False}}
    opened = Opened.of(subject.store, override(subject.settings, free, where="doctor"))
    records = opened.generation.records
    rows = sorted({row * len(records) // _QUERIES for row in range(_QUERIES)}) if len(records) else []
    names = dict.fromkeys(str(records[row]["name"]).translate(_NO_TAGS).strip() for row in rows)
    rerank = None if subject.settings.rerank.backend in _LOCAL else False
    options = opened.options(rerank=rerank, expand=False, k=1)
    requests = [Request(name) for name in names if name]
    answers = Searcher(opened, options).answer(requests)
    counts = sum((Counter(answer.removed) for answer in answers), Counter[str]())
    removed = max(counts, key=counts.__getitem__, default=None)
    if removed is None or any(answer.results for answer in answers):
        return ok(f"{' and '.join(chosen)} leave results to queries of the index's own names")
    reason = next((notice for answer in answers for notice in answer.notices if removed in notice), removed)
    message = f"none of {len(answers)} queries, each the name of a record, has a result: {reason}"
    return warn(message, f"set {removed.partition(' ')[0]}: null in config.yaml")


_CHECKS: Mapping[str, Callable[[Subject], Check | Fault | Sequence[Fault] | None]] = {
    "artifacts": checks.artifacts,
    "index": checks.index,
    "inbox": partial(checks.own, "inbox"),
    "keys": partial(checks.own, "keys"),
    "settings": _settings,
    "thresholds": _thresholds,
    "generations": checks.generations,
    "lock": checks.who_writes,
    "disk": checks.disk,
    "model": checks.model,
    "languages": checks.languages,
    "servers": checks.model_servers,
    **{name: partial(engines.engine, name) for name in SERVERS},
    "gpu": checks.gpu,
    "packages": checks.packages,
    "sources": checks.sources,
    "documents": checks.documents,
    "sandbox": checks.sandbox,
    "cache": checks.cache,
    "web": web,
}
_IN_THE_FOLDER = {"index", "settings", "generations", "lock", "disk", "cache"}
"""Checks that are skipped if the artifacts path cannot be a folder."""


def examine(artifacts: Path, file: Path | None) -> list[Check]:
    """Return every finding. An invalid configuration is one of them; the other checks then use the defaults."""
    subject, first = configured(artifacts, file)
    added = (name for name in subject.settings.engines.in_use if name not in _CHECKS)
    checks = (_look(subject, name) for name in (*_CHECKS, *added))
    return [first, *(check for check in checks if check is not None)]


def check(artifacts: Path, settings: Settings, names: Sequence[str]) -> list[Check]:
    """Return the findings of some checks under settings that were read already."""
    subject = Subject(artifacts, None, settings)
    return [finding for name in names if (finding := _look(subject, name)) is not None]


def configured(artifacts: Path, file: Path | None) -> tuple[Subject, Check]:
    """Return the subject of the checks, and the finding about its configuration."""
    given: dict[str, str] = {}
    settings, first = _configuration(file, given)
    return Subject(artifacts, file, settings, given=None if first.status == "fail" else given), first


def _configuration(file: Path | None, given: dict[str, str]) -> tuple[Settings, Check]:
    shown = file or (loading.DEFAULT_FILE if os.path.lexists(loading.DEFAULT_FILE) else None)
    try:
        settings = loading.load(file, given=given)
    except UsageError as error:
        return Settings(), Check("config", "fail", f"{error.message}; the other checks use the defaults", error.hint)
    except Exception as error:  # noqa: BLE001  the other checks go on
        return Settings(), _broken("config", error)
    if settings.withheld:
        message = f"{shown} {NOT_AGREED.format(', '.join(settings.withheld))}"
        named = [] if file is None else ["--config", str(file)]
        return settings, Check("config", "warn", message, shlex.join(["retrieve", "trust", *named]))
    none = f"defaults: there is no {loading.DEFAULT_FILE} here"
    return settings, Check("config", "ok", f"{shown} is valid" if shown else none)


def _look(subject: Subject, name: str) -> Check | None:
    """Return the finding of one check; None if it does not apply."""
    try:
        if name in _IN_THE_FOLDER:
            try:
                _ = subject.store
            except UsageError as error:
                return Check(name, "warn", f"skipped: {error.message}", error.hint)
        found = (_CHECKS.get(name) or partial(engines.engine, name))(subject)
        return found if found is None or isinstance(found, Check) else check_of(name, found)
    except RetrieveError as error:
        return Check(name, "fail", error.message, error.hint)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return Check(name, "fail", message, "fix its permissions, or the disk")
    except Exception as error:  # noqa: BLE001  a check that breaks must not stop the others
        return _broken(name, error)


def _broken(name: str, error: Exception) -> Check:
    message = f"this check failed: {type(error).__name__}: {error}"
    return Check(name, "fail", message, "report it: this is a bug in retrieve")
