import json
from pathlib import Path

from mbct import load_model
from terminal import mbct, mbct_on_terminal


def test_all_rules_and_the_top(folder: Path):
    rules = list(load_model(folder / "paper.json").rules())
    assert mbct("rules", "paper.json", cwd=folder).out.splitlines() == list(map(str, rules))
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
