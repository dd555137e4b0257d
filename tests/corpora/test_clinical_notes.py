"""ShARe's and n2c2's clinical notes, and COMETA's table, in their own layouts."""

import gzip

import pytest
import spacy

from spacy_krissel.corpora.convert import convert, read_docs
from spacy_krissel.corpora.readers import READERS, detect_format
from spacy_krissel.corpora.readers.cometa import read_cometa
from spacy_krissel.corpora.readers.semeval import read_semeval
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.gold_mentions import gold_mentions

TEXT = "Pain and swelling in knee.\nNo fever; some malaise."
read_share, read_n2c2 = READERS["share"], READERS["n2c2"]
NOTE = "00098-016139-DISCHARGE_SUMMARY"
MENTIONS = [
    (((0, 4), (21, 25)), "Pain knee", "C0231749"),
    (((30, 35),), "fever", "C0015967"),
    (((42, 49),), "malaise", "NIL"),
]
PLACES = ("C0231749||0||4||21||25", "C0015967||30||35", "CUI-less||42||49")
SHARE = "".join(f"{NOTE}.txt||Disease_Disorder||{places}\n" for places in PLACES)
N2C2 = "".join(f"N{number:03}||{places}\n" for number, places in enumerate(PLACES))
HEADER = (
    "ID\tTerm\tGeneral SNOMED Label\tGeneral SNOMED ID\tSpecific SNOMED Label\tSpecific SNOMED ID\t"
    "Example\n"
)
COMETA = HEADER + (
    "0\theadaches\tHeadache\t25064002\tMigraine\t37796009\tMy Headaches  are back.\n"
    '1\tbad knee\tKnee pain\t30989003\tKnee pain\t30989003\t"A ""bad  knee"" again"\n'
    '2\tzoloft\tSertraline\t372594008\tZoloft\t1\t"Zolofts are no zoloft\n'
    "3\tgout\tGout\t90560007\tGout\t90560007\tMy toe hurts.\n"
)


def states(note):
    return [(each.fragments, each.text, each.kb_id) for each in note.mentions]


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf8", newline="")
        return path

    return write


@pytest.mark.parametrize(
    "read, lines, files, label",
    [
        (read_share, SHARE, (f"{NOTE}.pipe.txt", f"{NOTE}.txt"), "Disease_Disorder"),
        # As SemEval-2014 names the files.
        (read_semeval, SHARE, (f"{NOTE}.pipe", f"{NOTE}.text"), "Disease_Disorder"),
        (read_n2c2, N2C2, (f"{NOTE}.norm", f"{NOTE}.txt"), ""),
    ],
)
def test_notes_keep_all_fragments_and_concepts(write, read, lines, files, label):
    path = write(files[0], lines.replace("\n", "\r\n"))
    write(files[1], TEXT)
    report = CorpusReport()
    (note,) = read(path, report=report)
    assert (note.id, note.text, states(note), report.to_dict()["counts"]) == (
        NOTE,
        TEXT,
        MENTIONS,
        {},
    )
    assert {each.label for each in note.mentions} == {label}
    (doc,) = read_docs(path.parent, spacy.blank("en"))
    assert [each.kb_id for each in gold_mentions(doc)] == ["C0015967", "NIL", "C0231749"]


def test_texts_in_a_separate_folder_are_found(write, tmp_path):
    write("train/train_norm/0034.norm", N2C2)
    write("train/train_note/0034.txt", TEXT)
    folders = {
        "inputs": tmp_path / "train" / "train_norm",
        "documents": tmp_path / "train" / "train_note",
    }
    assert convert(**folders, output=tmp_path / "n2c2.spacy")["mentions_read"] == 3


def test_damaged_lines_of_a_note_are_bad_records(write):
    write("1.txt", TEXT)
    write("2.txt", TEXT)
    bad = [
        "a",
        "a||b",
        "a||b||C1",
        "a||b||C1||0",
        "a||b||C1||0||99",
        "a||b||C1||4||4",
        "a||b|| ||0||4",
        "a||b||C1||x||4",
    ]
    report = CorpusReport()
    (note,) = read_share(write("1.pipe.txt", SHARE + "\n".join(bad) + "\n"), report=report)
    assert (len(note.mentions), report["bad_records"]) == (3, len(bad))
    report = CorpusReport()
    bad = ["a", "a||C1", "a||C1||0", "a||C1||0||4||5", "a||||0||4"]
    (note,) = read_n2c2(write("2.norm", N2C2 + "\n".join(bad) + "\n"), report=report)
    assert (len(note.mentions), report["bad_records"]) == (3, len(bad))
    with pytest.raises(KrisselError, match=r"K236\].*1\.pipe\.txt.*line 1 is 'T1"):
        list(read_share(write("1.pipe.txt", "T1 Finding\n")))
    with pytest.raises(KrisselError, match=r"K226\].*3\.norm.*'3\.txt'"):
        list(read_n2c2(write("3.norm", N2C2)))


@pytest.mark.parametrize("ids", ["General", "Specific"])
def test_cometa_terms_are_found_in_their_examples_with_the_chosen_id(write, ids):
    path = write("train.csv", COMETA)
    report = CorpusReport()
    found = list(read_cometa(path, ids=ids, report=report))
    assert [each.id for each in found] == [f"train.csv:{line}" for line in (2, 3, 4, 5)]
    assert [each.text for each in found[:2]] == ["My Headaches  are back.", 'A "bad  knee" again']
    expected = {
        "General": ["25064002", "30989003", "372594008", "90560007"],
        "Specific": ["37796009", "30989003", "1", "90560007"],
    }
    assert states(found[0]) == [(((3, 12),), "Headaches", f"SNOMEDCT:{expected[ids][0]}")]
    assert [each.mentions[0].kb_id for each in found] == [
        f"SNOMEDCT:{id_}" for id_ in expected[ids]
    ]
    # The whole word; a term without its example is a text by itself.
    assert states(found[2])[0][:2] == (((16, 22),), "zoloft")
    assert (found[3].text, report.to_dict()["counts"]) == ("gout", {"without_example": 1})


def test_cometa_columns_may_have_another_order_or_separator(write, tmp_path):
    path = write(
        "a.csv", 'Term,Specific SNOMED ID,General SNOMED ID,Example\ngout,2,1,"Gout, again"\n'
    )
    report = convert(path, tmp_path / "a.spacy", format="cometa-specific")
    assert (report["mentions"], report["bad_records"]) == (1, 0)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    (found,) = read_cometa(tmp_path / "b.csv.gz", ids="General")
    assert (found.text, states(found)) == ("Gout, again", [(((0, 4),), "Gout", "SNOMEDCT:1")])


def test_damaged_cometa_lines_are_bad_records(write):
    bad = (
        "4\tgout\ta\t1\ta\t1\n5\tgout\ta\tx\ta\t1\tGout\n6\t \ta\t1\ta\t1\tGout\n"
        "7\tg\x01\ta\t1\ta\t1\tb\n"
    )
    report = CorpusReport()
    assert len(list(read_cometa(write("a.csv", COMETA + bad), ids="General", report=report))) == 4
    assert report["bad_records"] == 4
    with pytest.raises(KrisselError, match=r"K237\].*b\.csv.*line 1 is 'D1.*Specific SNOMED ID"):
        list(read_cometa(write("b.csv", "D1\tGout\tgout\n"), ids="General"))


def test_formats_are_detected_by_file_names(write, tmp_path):
    assert detect_format(write("a/1.pipe.txt", SHARE)) == "share" == detect_format(tmp_path / "a")
    assert detect_format(write("b/1.norm", N2C2)) == "n2c2" == detect_format(tmp_path / "b")
    with pytest.raises(KrisselError, match=r"K228\].*\.pipe\.txt and \.norm"):
        detect_format(tmp_path)
