"""One question to several providers: the answers of their files, put under the requests that this question makes."""

import hashlib
from collections.abc import Sequence
from typing import Any

from websearch.fakes.server import Fakes
from websearch.taped import AT, body_of, read

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Call, NotStored, ProviderFailed, Response, WebQuery
from retrieve_cli.contracts.works import Item

QUESTION = "guide rna specificity"
K = 20


class _Asking:
    """Answers each call with the next answer of a file for its address, and keeps both as an exchange."""

    def __init__(self, name: str) -> None:
        self.exchanges: list[dict[str, Any]] = []
        self._left = list(read(name)["exchanges"])

    def __call__(self, call: Call, *, accept: Sequence[int] = (200,)) -> Response:
        method = "GET" if call.body is None else "POST"
        for exchange in self._left:
            request, response = exchange["request"], exchange["response"]
            if (request["method"], request["url"]) == (method, call.url) and response["status"] in accept:
                self._left.remove(exchange)
                body = None if call.body is None else call.body.decode()
                asked = {"method": method, "url": call.url, "parameters": dict(call.parameters), "body": body}
                self.exchanges.append({"request": asked, "response": response})
                told = body_of(response)
                return Response(
                    response["status"], response["content_type"], told, AT, hashlib.sha256(told).hexdigest()
                )
        raise ProviderFailed(NotStored())


def settle(fakes: Fakes, *providers: str, text: str = QUESTION, k: int = K, since: str = "") -> list[Item]:
    """Let the fakes answer a question to these providers, and what enrichers ask after it; return the items."""
    settings = Settings()
    items: list[Item] = []
    for name in providers:
        asking = _Asking(name)
        items += parts.provider(name, settings).search(WebQuery(text, k, since), asking).items
        fakes.add(asking.exchanges)
    for enricher in parts.enrichers(settings):
        asking = _Asking(f"{enricher.name}-enrich")
        try:
            enricher.enrich(items, asking)
        except ProviderFailed:
            continue
        fakes.add(asking.exchanges)
    return items
