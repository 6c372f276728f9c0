"""Options of `retrieve serve` on access: keys, accepted host names and web pages, and TLS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from retrieve_cli.cli.options import Shared, option

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.http.secrets import Secret
    from retrieve_cli.server.http.callers import Callers, Hosts

Insecure = Annotated[bool, option("--insecure", "Let other machines ask without a key.")]
AllowedHosts = Annotated[
    list[str] | None, option("--allowed-host", "Host header to accept too: example.org, *.example.org.", "HOST")
]
AllowedOrigins = Annotated[
    list[str] | None, option("--allowed-origin", "Web pages of this origin may use the server (CORS).", "ORIGIN")
]
RootPath = Annotated[
    str,
    option("--root-path", "Path below which a proxy has it, /search; or the proxy sends X-Forwarded-Prefix.", "PATH"),
]
TlsCertificate = Annotated[Path | None, option("--tls-cert", "Certificate of the server (PEM), for https.", "FILE")]
TlsKey = Annotated[Path | None, option("--tls-key", "Private key of that certificate.", "FILE")]


class ServerAccess(NamedTuple):
    """Callers of a server, its TLS options, and the host names and origins that it accepts."""

    callers: Callers
    tls: Mapping[str, Any]
    """Options of uvicorn; empty without TLS."""
    host: str
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]

    @property
    def scheme(self) -> str:
        """The scheme of its address."""
        return "https" if self.tls else "http"

    def hosts(self) -> Hosts:
        """Return the names that the server accepts. Raises: UsageError if a name is invalid."""
        from retrieve_cli.server.http.callers import Hosts

        allowed = {"allowed_hosts": self.allowed_hosts, "allowed_origins": self.allowed_origins}
        return Hosts(self.host, scheme=self.scheme, **allowed)


def warn_without_tenants(callers: Callers, index: Index, say: Callable[[str], None]) -> None:
    """Warn the operator if credentials have tenants and no record does: their callers would find nothing."""
    from retrieve_cli.errors import UsageError
    from retrieve_cli.search.access import of_tenant

    if not callers.confined:
        return
    try:
        with index.reading() as generation:
            of_tenant(generation, "any")
    except UsageError as error:
        say(f"warning: requests with a tenant find nothing: {error.message}; {error.hint}")


def access_of(
    shared: Shared,
    settings: Settings,
    key: Secret | None,
    *,
    host: str,
    insecure: bool,
    certificate: tuple[Path | None, Path | None],
    allowed: tuple[list[str] | None, list[str] | None],
) -> ServerAccess:
    """Return the access settings of the flags and the configuration, checked before anything starts.

    Raises:
        UsageError: other machines could ask without a key, or a certificate, a host or an origin is invalid.
        RetrieveError: the keys cannot be read.
    """
    from retrieve_cli.http.listening import check_pair
    from retrieve_cli.server.http.callers import callers_of, expect_safe

    callers = callers_of(shared.artifacts, settings, key=key, say=shared.talk.say)
    expect_safe(host, callers, insecure=insecure)
    pair = check_pair(*certificate, warn=shared.talk.say)
    tls = {} if pair is None else {"ssl_certfile": str(pair[0]), "ssl_keyfile": str(pair[1])}
    hosts, origins = (tuple(given or ()) for given in allowed)
    settings.expect_trusted("serve")
    own = settings.serve
    access = ServerAccess(callers, tls, host, (*own.allowed_hosts, *hosts), (*own.allowed_origins, *origins))
    access.hosts()
    return access
