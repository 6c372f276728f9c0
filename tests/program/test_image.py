"""The image: built and run if there is a Docker daemon; otherwise its steps, one by one, in a clean folder.

Of the steps, those are left to the image that need its base or the network: users, and packages from the registry,
which the installed ones stand for.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from program.test_docker import final, instructions
from samples import ROOT
from waiting import PATIENCE_S, until

WITHOUT = ("python -m venv", "groupadd")
"""Beginnings or parts of the steps that need the base of the image, or the network."""


def run(command: list[Any], **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **options)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A virtual environment beside the installed packages, at the place of the image's own."""
    folder = tmp_path / "opt" / "retrieve"
    run([sys.executable, "-m", "venv", "--without-pip", folder])
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "installed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_the_steps_of_the_image_install_a_server_that_is_healthy(tmp_path: Path, scratch: Path) -> None:
    source, data = tmp_path / "src", tmp_path / "data"
    (data / "artifacts").mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    source.mkdir()
    environment = {"PATH": f"{scratch / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(data / "cache")}
    environment |= {"HOME": str(data), "RETRIEVE_TRUST": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = []
    for name, argument in instructions():
        if name == "COPY" and not argument.startswith("--from="):
            *names, target = argument.split()
            for each in names:
                copy = shutil.copytree if (ROOT / each).is_dir() else shutil.copy
                copy(ROOT / each, source / (target if (ROOT / each).is_dir() else each))
        elif name == "RUN" and not any(part in argument for part in WITHOUT):
            command = argument.replace("/tmp/", f"{tmp_path / 'tmp'}/")
            offline = f"{sys.executable} -m pip --python {scratch / 'bin' / 'python'} install --no-deps --no-index"
            command = command.replace("pip install", f"{offline} --no-build-isolation --quiet")
            run(["sh", "-ec", command], cwd=source if "pip" in command else data, env=environment)
            ran.append(argument.split()[0])
    assert ran == ["pip", "pip", "echo"]
    found = run(
        [scratch / "bin" / "python", "-c", "import retrieve_cli; print(retrieve_cli.__file__)"],
        cwd=data,
        env=environment,
    )
    assert Path(found.strip()).is_relative_to(scratch)
    serve = [*json.loads(final()["ENTRYPOINT"]), *json.loads(final()["CMD"])]
    serve[0] = str(scratch / "bin" / serve[0])
    (data / "a.jsonl").write_text('{"id": "a", "name": "a", "description": "a"}\n')
    run([serve[0], "build", "--catalog", "a.jsonl"], cwd=data, env=environment)
    run([serve[0], "keys", "create", "--scope", "search"], cwd=data, env=environment)
    serve[-1] = "0"
    with subprocess.Popen([*serve, "--json"], stdout=subprocess.PIPE, text=True, cwd=data, env=environment) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["url"].rpartition(":")[2]
            check = json.loads(re.sub(r"^.* CMD ", "", final()["HEALTHCHECK"]).replace("8100", port))
            until(lambda: subprocess.run(check, env=environment, timeout=PATIENCE_S, check=False).returncode == 0)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
    assert process.returncode == 0
