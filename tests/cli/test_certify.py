import json
from pathlib import Path

from mbct import load_model
from mbct.model.certificate import Certificate
from terminal import mbct


def test_a_certificate_is_printed_written_and_attached(folder: Path, tmp_path: Path):
    arguments = ["certify", folder / "paper.json", folder / "holdout.parquet", "--by", "device", "--top", "3"]
    done = mbct(*arguments, "-o", "certificate.json", "--attach", "certified.json", cwd=tmp_path)
    assert done.code == 0, done.err
    certificate = Certificate.from_json((tmp_path / "certificate.json").read_bytes())
    assert done.out.splitlines()[:3] == list(certificate.lines())
    assert "device: within ± " in done.out
    assert load_model(tmp_path / "certified.json").certificate_.to_json() == certificate.to_json()
    printed = mbct(*arguments, "--json", cwd=tmp_path)
    assert json.loads(printed.out) == json.loads(certificate.to_json())


def test_rows_of_the_fit_are_refused(folder: Path, tmp_path: Path):
    done = mbct("certify", folder / "paper.json", folder / "clicks.parquet", "-o", "c.json", cwd=tmp_path)
    assert done.code == 2
    assert "rows of the fit are among the rows to certify with" in done.err
    assert not (tmp_path / "c.json").exists()


def test_weights_and_methods_without_bins_are_refused(folder: Path, tmp_path: Path):
    weighted = mbct("certify", folder / "paper.json", folder / "holdout.parquet", "--weight", "age", cwd=tmp_path)
    assert (weighted.code, "a certificate counts every row once" in weighted.err) == (2, True)
    done = mbct("certify", folder / "isotonic.json", folder / "holdout.parquet", cwd=tmp_path)
    assert (done.code, "which has no bins; fit 'mbct'" in done.err) == (2, True)


def test_a_fit_certifies_itself(folder: Path, tmp_path: Path):
    settings = ["--preset", "fast", "--set", "certify=0.3", "--set", "max_error=0.1", "--set", "max_trees=2"]
    done = mbct("fit", folder / "clicks.parquet", *settings, "-o", "model.json", cwd=tmp_path)
    assert done.code == 0, done.err
    certificate = load_model(tmp_path / "model.json").certificate_
    assert max(found.bound for found in certificate.group("partition")) <= 0.1
    assert all(f"certified {line}" in done.out for line in certificate.lines())
