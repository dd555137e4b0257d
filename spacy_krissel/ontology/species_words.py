"""Words that texts use for a species and its members, beyond its names: "patients", "murine"."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from .entity import Entity

# Id in NCBI's Taxonomy -> its scientific name, then other words.
SPECIES_WORDS: dict[str, str] = {
    "9606": (
        "Homo sapiens|human|humans|patient|patients|man|men|woman|women|person|persons|people|"
        "child|children|infant|infants|boy|boys|girl|girls|volunteer|volunteers|participant|"
        "participants|proband|probands"
    ),
    "10090": "Mus musculus|mouse|mice|murine",
    "10116": "Rattus norvegicus|rat|rats",
    "7227": "Drosophila melanogaster|fruitfly",
    "4932": "Saccharomyces cerevisiae|yeast|yeasts|budding yeast",
    "4896": "Schizosaccharomyces pombe|fission yeast",
    "3702": "Arabidopsis thaliana",
    "6239": "Caenorhabditis elegans",
    "7955": "Danio rerio|zebrafish",
    "8364": "Xenopus tropicalis",
    "8355": "Xenopus laevis",
    "9913": "Bos taurus|bovine|cow|cows|calf|cattle",
    "9823": "Sus scrofa|porcine|pig|pigs|swine|piglet|piglets",
    "9031": "Gallus gallus|chicken|chickens|chick|chicks",
    "9615": "Canis lupus familiaris|dog|dogs|canine|canines",
    "9986": "Oryctolagus cuniculus|rabbit|rabbits",
    "9940": "Ovis aries|sheep|ovine|lamb|lambs",
    "9544": "Macaca mulatta|rhesus",
    "10029": "Cricetulus griseus|hamster|hamsters",
    "10141": "Cavia porcellus|guinea pig|guinea pigs",
    "562": "Escherichia coli",
}
_BY_NAME = {words.partition("|")[0]: tuple(words.split("|")) for words in SPECIES_WORDS.values()}


def with_species_words(entities: Collection[Entity]) -> Iterator[Entity]:
    """Yield the entities with the words of `SPECIES_WORDS` as names of the species.

    A word is a name of its species alone: other taxa that have it as a synonym lose it, as the
    genus Mus loses "mouse".
    """
    owner: dict[str, str] = {}
    for entity in entities:
        for word in _words(entity)[1:]:
            owner.setdefault(word, entity.id)
    prefixes = {id_.rpartition(":")[0] for id_ in owner.values()}
    for entity in entities:
        is_taxon = entity.id.rpartition(":")[0] in prefixes
        names = dict.fromkeys((*entity.aliases, *_words(entity)[1:]))
        kept = tuple(
            name for name in names if not is_taxon or owner.get(name, entity.id) == entity.id
        )
        yield entity if kept == entity.aliases else replace(entity, aliases=kept)


def _words(entity: Entity) -> tuple[str, ...]:
    return next((_BY_NAME[name] for name in entity.names if name in _BY_NAME), ())
