import json
from pathlib import Path

from mbct import load_model
from terminal import mbct, mbct_on_terminal


def test_all_rules_and_the_top(folder: Path):
    model = load_model(folder / "paper.json")
    rules = sorted(model.rules(), key=lambda rule: -rule.effect)
    assert mbct("rules", "paper.json", cwd=folder).out.splitlines() == list(map(str, rules))
    assert len(rules) == model.model_.n_rules
    assert min(rule.rows for rule in rules) > 0
    lines = mbct("rules", "paper.json", "--top", "3", cwd=folder).out.splitlines()
    assert lines == [rule.shortened(120) for rule in rules[:3]]
    assert max(map(len, lines)) <= 120
    top = json.loads(mbct("rules", "paper.json", "--top", "2", "--json", cwd=folder).out)
    assert len(top) == 2
    assert any(condition["feature"] == "device" for rule in top for condition in rule["if"])


def test_one_tree(folder: Path):
    done = mbct("rules", "paper.json", "--tree", "1", "--json", cwd=folder)
    assert {rule["tree"] for rule in json.loads(done.out)} == {0}
    assert mbct("rules", "paper.json", "--tree", "999", cwd=folder).code == 2


def test_trees_on_a_terminal(folder: Path):
    done = mbct_on_terminal("rules", "paper.json", "--as-tree", cwd=folder)
    assert done.code == 0
    assert "tree 1 of" in done.out


def test_rules_say_what_is_certified(folder: Path):
    certificate = load_model(folder / "certified.json").certificate_
    lines = certificate.lines_of_rules()
    assert len(lines) == len(certificate.group("rules"))
    printed = mbct("rules", "certified.json", cwd=folder).out
    assert printed.count("certified within ± ") == sum(
        (rule.tree, rule.node) in lines for rule in load_model(folder / "certified.json").rules()
    )
    second = mbct("rules", "certified.json", "--tree", "2", cwd=folder).out.splitlines()
    assert {line.strip() for line in second if "certified" in line} <= {
        line for (tree, _), line in lines.items() if tree == 1
    }
    assert f"at 95%, all {len(lines)} bins at once" in printed


def test_a_method_without_rules(folder: Path):
    done = mbct("rules", "isotonic.json", cwd=folder)
    assert done.code == 2
    assert "holds a 'isotonic' calibrator, which has no rules" in done.err


def test_a_model_without_trees_is_an_empty_list_of_rules(folder: Path):
    unchanged = load_model(folder / "paper.json")
    unchanged.model_ = unchanged.model_.with_trees(())
    unchanged.save(folder / "unchanged.json")
    assert json.loads(mbct("rules", "unchanged.json", "--json", cwd=folder).out) == []
    assert "returned as they are" in mbct("rules", "unchanged.json", cwd=folder).out


def test_trees_are_no_json(folder: Path):
    done = mbct("rules", "paper.json", "--as-tree", "--json", cwd=folder)
    assert done.code == 2
    assert "--as-tree and --json exclude each other" in done.err


def test_a_row_is_explained_by_the_rules_that_apply_to_it(folder: Path):
    import polars as pl

    row = pl.read_parquet(folder / "clicks.parquet").row(2, named=True)
    calibrated = load_model(folder / "paper.json").calibrate(pl.DataFrame([row]))[0]
    done = mbct("rules", "paper.json", "--explain", "clicks.parquet", "--row", "3", cwd=folder)
    assert done.out.splitlines()[-1] == f"calibrated {calibrated:.6g}"
    written = json.dumps({name: row[name] for name in load_model(folder / "paper.json").model_.bins.names})
    assert mbct("rules", "paper.json", "--explain", written, cwd=folder).out == done.out
    found = json.loads(mbct("rules", "paper.json", "--explain", written, "--json", cwd=folder).out)
    assert abs(found["calibrated"] - calibrated) < 1e-12


def test_rows_that_cannot_be_explained(folder: Path):
    assert "has no 'pctr'" in mbct("rules", "paper.json", "--explain", "{}", cwd=folder).err
    assert "the row is no JSON" in mbct("rules", "paper.json", "--explain", "{pctr", cwd=folder).err
    assert "belongs to --explain" in mbct("rules", "paper.json", "--row", "1", cwd=folder).err
    done = mbct("rules", "paper.json", "--explain", "clicks.parquet", "--row", "99999999", cwd=folder)
    assert (done.code, "rows" in done.err) == (2, True)
