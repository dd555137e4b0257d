from pathlib import Path

import pytest
import srsly
from lab.ablation.settings import read_ablation
from spacy.util import load_config

from spacy_krissel.errors import KrisselError


def test_rows_sets_and_curves_are_read(toy_ablation, write_ablation, toy_shards, toy_preferred):
    ablation = read_ablation(write_ablation(toy_ablation))
    assert ablation.first == "full"
    assert list(ablation.rows) == ["full", "re-ranking", "aliases", "lazy"]
    assert [ablation.trained(name) for name in ablation.rows] == ["full", "full", "aliases", "full"]
    assert [ablation.seeds_of(name) for name in ablation.rows] == [[0], [0], [3], [0]]
    assert ablation.train.mined(True) == toy_shards and ablation.train.mined(False) == toy_preferred
    assert (
        not ablation.rows["aliases"].prototypes.aliases and ablation.rows["full"].prototypes.aliases
    )
    assert ablation.curves.shots == [0, 1, "all"]


def test_overrides_replace_settings(toy_ablation, write_ablation):
    path = write_ablation(toy_ablation)
    overrides = {"sets.with.gold": "other.spacy", "seeds": [1, 2], "curves.max_k": 3}
    ablation = read_ablation(path, overrides)
    assert ablation.sets["with"].gold == Path("other.spacy")
    assert ablation.seeds_of("re-ranking") == [1, 2] and ablation.seeds_of("aliases") == [3]
    assert ablation.curves.max_k == 3
    del toy_ablation["curves"]
    assert read_ablation(write_ablation(toy_ablation), {"curves.top_k": ["full"]}).curves.top_k == [
        "full"
    ]


def test_single_keys_of_config_overrides_can_be_overridden(toy_ablation, write_ablation):
    """Keys of a training config have dots of their own."""
    overrides = {
        "train.overrides.training.max_steps": 7,
        "rows.aliases.train.system.seed": 9,
        "train.config": "x.cfg",
    }
    path = write_ablation(toy_ablation)
    before, ablation = read_ablation(path), read_ablation(path, overrides)
    assert ablation.train.overrides == {**before.train.overrides, "training.max_steps": 7}
    assert ablation.rows["aliases"].train == {**before.rows["aliases"].train, "system.seed": 9}
    assert ablation.train.config == Path("x.cfg")


def test_chosen_rows_include_the_rows_they_depend_on(toy_ablation, write_ablation):
    ablation = read_ablation(write_ablation(toy_ablation))
    assert ablation.chosen() == list(ablation.rows)
    assert ablation.chosen(["aliases"]) == ["full", "aliases"]
    assert ablation.chosen(["lazy"]) == ["full", "lazy"]
    with pytest.raises(KrisselError, match="K902.*'alias'.*full, re-ranking, aliases, lazy"):
        ablation.chosen(["full", "alias"])


def test_reranked_rows_are_those_listed(toy_ablation, write_ablation):
    path = write_ablation(toy_ablation)
    for rows in (["re-ranking"], []):
        ablation = read_ablation(path, {"reranker.rows": rows, "rows.aliases.reranker": {}})
        assert [name for name in ablation.rows if ablation.has_reranker(name)] == rows
    assert all(map(read_ablation(path).has_reranker, toy_ablation["rows"]))
    assert not any(
        map(
            read_ablation(path, {"reranker": None, "rows.aliases.reranker": {}}).has_reranker,
            ["full"],
        )
    )


def test_a_row_with_its_own_kb_may_change_kb_settings(toy_ablation, write_ablation):
    override = {"components.krissel_linker.generate_empty_kb.reference_weight": 0.5}
    toy_ablation["rows"]["full"]["pipeline"] = override
    toy_ablation["rows"]["lazy"].update(pipeline=override, prototypes={"mentions_per_entity": 1})
    ablation = read_ablation(write_ablation(toy_ablation))
    assert ablation.rows["full"].pipeline == ablation.rows["lazy"].pipeline == override


def test_a_required_row_need_not_be_the_first(toy_ablation, write_ablation):
    toy_ablation["rows"]["lazy"]["of"] = "aliases"
    assert read_ablation(write_ablation(toy_ablation)).chosen(["lazy"]) == [
        "full",
        "aliases",
        "lazy",
    ]


def test_a_row_includes_the_row_it_is_compared_with(toy_ablation, write_ablation):
    toy_ablation["rows"]["lazy"]["baseline"] = "re-ranking"
    assert read_ablation(write_ablation(toy_ablation)).chosen(["lazy"]) == [
        "full",
        "re-ranking",
        "lazy",
    ]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"cake": 1}, "cake"),
        ({"train.cake": 1}, "train.cake"),
        ({"rows.full.treshold": 1}, "rows.full.treshold"),
        ({"rows.full.prototypes": {"alias": False}}, "prototypes.alias"),
        ({"sets.with.gold": None}, "sets.with.gold"),
        ({"seeds": "many"}, "seeds"),
        ({"seeds": []}, "seeds is empty"),
        ({"rows.full.seeds": []}, "rows.full.seeds: is empty"),
        ({"sets": {}}, "sets is empty"),
        ({"rows.re-ranking.of": "cake"}, "'cake' is no row"),
        ({"rows.re-ranking.of": "lazy"}, "'lazy' is no row above it"),
        ({"rows.re-ranking.of": "aliases"}, "'aliases' is no row above it"),
        ({"rows.re-ranking.baseline": "lazy"}, "'lazy' is no row above it"),
        ({"rows.re-ranking.train": {"a.b": 1}}, "rows.re-ranking.train: it trains nothing"),
        ({"rows.re-ranking.seeds": [1]}, "rows.re-ranking.seeds: it trains nothing"),
        (
            {
                "rows.re-ranking.pipeline.components.krissel_linker.generate_empty_kb.reference_weight": 0.5  # noqa: E501
            },
            (
                "krissel_linker.generate_empty_kb.reference_weight: it has the knowledge base of "
                "'full'"
            ),
        ),
        ({"reranker": None}, "rows.aliases.reranker: there is no re-ranker"),
        ({"reranker.rows": ["lazy"]}, "rows.aliases.reranker: there is no re-ranker"),
        ({"reranker.rows": ["cake"]}, "reranker.rows: there is no row 'cake'"),
        ({"train.mentions": None}, "train.mentions: the re-ranker"),
        ({"train.mentions_without_aliases": None}, "train.mentions_without_aliases: row 'aliases'"),
        ({"sets.without.mentions_without_aliases": None}, "sets.without.mentions_without_aliases"),
        ({"sets.with.examples": None}, "rows.lazy.examples: no set"),
        ({"curves.top_k": ["full", "cake"]}, "there is no row 'cake'"),
        ({"curves.max_k": 0}, "curves.max_k"),
        ({"rows.a/b": {"title": "x"}}, "rows.a/b: the name is no file name"),
    ],
)
def test_invalid_settings_raise(toy_ablation, write_ablation, change, message):
    with pytest.raises(KrisselError, match="K901") as caught:
        read_ablation(write_ablation(toy_ablation), change)
    assert message in str(caught.value)


def test_missing_and_invalid_files_raise(tmp_path):
    path = tmp_path / "ablation.yml"
    with pytest.raises(KrisselError, match="K001.*ablation.yml"):
        read_ablation(path)
    for content in ("- a\n- b\n", "rows: [unclosed", ""):
        path.write_text(content)
        with pytest.raises(KrisselError, match="K901"):
            read_ablation(path)


def test_overrides_of_the_shipped_rows_exist_in_their_configs(configs):
    """Every row that the project ships has switches that its training config knows."""
    ablation = read_ablation(
        configs.parent / "experiments" / "krissbert" / "configs" / "ablation.yml"
    )
    assert {
        "re-ranking",
        "mention-pairs",
        "aliases",
        "hierarchy",
        "description",
        "initialisation",
    } < set(ablation.rows)
    assert ablation.rows["mention-pairs"].train == {
        "components.krissel_linker.objective.alpha": 0.0
    }
    for name, row in ablation.rows.items():
        for config, overrides in (
            (ablation.train.config, row.train),
            (ablation.reranker.config, row.reranker),
        ):
            section = load_config(
                configs.parent / "experiments" / "krissbert" / config, interpolate=False
            )
            for key in overrides:
                found = section
                for part in key.split(".")[:-1]:
                    assert part in found, (name, key)
                    found = found[part]
                # Where the config leaves a setting to its default, the component knows it.
                assert key.rpartition(".")[2] in found or key.endswith("max_names"), (name, key)


def test_yaml_and_json_give_the_same_ablation(toy_ablation, write_ablation, tmp_path):
    srsly.write_json(tmp_path / "ablation.json", toy_ablation)
    assert read_ablation(tmp_path / "ablation.json") == read_ablation(write_ablation(toy_ablation))
