"""The page in a real browser: linked, looked at, corrected, undone, loaded again."""

import re
import shutil

import pytest
import spacy

from spacy_krissel import Entity, build
from spacy_krissel.serving.corrected import CorrectedLinker
from spacy_krissel.serving.corrections import CorrectionLog

pytest.importorskip("fastapi")
webdriver = pytest.importorskip("selenium.webdriver")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

from spacy_krissel.serving.app import make_app  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver")
# Two characters that JavaScript has in halves, and markup.
TEXT = "𝛽𝛽 He had a cold, MS and a mild <b> chill."


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--window-size=1440,1000",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=DRIVER)
    )
    yield driver
    driver.quit()


class Page:
    """Actions of a person on the page."""

    def __init__(self, browser, address):
        self.browser = browser
        browser.get(address)
        self.until(lambda: "Entities" in self.text("facts"))

    def __getitem__(self, id_):
        return self.browser.find_element(By.ID, id_)

    def text(self, id_):
        # Messages that others see elsewhere are for those who listen.
        return self[id_].get_attribute("textContent") if id_ == "status" else self[id_].text

    def until(self, condition):
        WebDriverWait(self.browser, 20).until(lambda _: condition())

    def link(self, text):
        if not self["given"].is_displayed():
            self.button("Edit text").click()
        # The driver types no characters beyond the first plane.
        self.browser.execute_script("given.value = arguments[0]", text)
        self.button("Link").click()
        self.until(lambda: re.search(r"\d mentions?$", self.text("status")))

    def mentions(self):
        return [each.text for each in self["text"].find_elements(By.TAG_NAME, "button")]

    def mention(self, begins):
        return next(
            each
            for each in self["text"].find_elements(By.TAG_NAME, "button")
            if each.text.startswith(begins)
        )

    def button(self, name):
        return next(
            each
            for each in self.browser.find_elements(By.TAG_NAME, "button")
            if each.is_displayed() and name in (each.get_attribute("aria-label") or each.text)
        )

    def problems(self):
        return [
            each["message"] for each in self.browser.get_log("browser") if each["level"] == "SEVERE"
        ]


@pytest.fixture
def page(browser, nlp, make_service, served, tmp_path):
    service = make_service(CorrectedLinker(nlp), log=CorrectionLog(tmp_path / "corrections.jsonl"))
    return Page(browser, served(make_app(service)))


def test_correction_counts_and_can_be_undone(page):
    page.link(TEXT)
    before = page.mentions()
    assert [each.replace("\n", " ") for each in before] == [
        "cold common cold",
        "MS mass spectrometry",
    ]
    # Markup of the text is text.
    assert "<b>" in page.text("text") and not page["text"].find_elements(By.TAG_NAME, "b")

    page["author"].send_keys("Ada")
    page.mention("cold").click()
    page.until(lambda: "common cold" in page.text("entity"))
    assert "linked" in page.text("entity") and "D2" in page.text("entity")
    page["query"].send_keys("cold injury", Keys.ENTER)
    page.until(lambda: "cold injury" in page.text("found"))
    page["found"].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    # It is looked at first.
    page.until(lambda: "not linked" in page.text("entity") and "cold injury" in page.text("entity"))
    page.button("This is right: cold injury").send_keys(Keys.ENTER)
    page.until(lambda: "in force" in page.text("status"))
    # Whoever has no mouse goes on from there.
    assert page.browser.switch_to.active_element.get_attribute("id") == "mention"
    assert page.mention("cold").text.endswith("cold injury") and page.mentions()[1:] == before[1:]
    assert "“cold” is D3 Ada, 20" in page.text("corrections").replace("\n", " ")

    # Still there after the page was loaded anew.
    page.browser.refresh()
    page.until(lambda: "Undo" in page.text("corrections"))
    page.link(TEXT)
    assert page.mention("cold").text.endswith("cold injury")
    page.button("Undo").click()
    page.until(lambda: "taken back" in page.text("status"))
    assert page.mentions() == before and page.text("no-corrections") == "None."
    assert page.problems() == []


def test_wrong_link_can_be_rejected_and_the_rejection_undone(page):
    page.link(TEXT)
    before = page.mentions()
    page.mention("cold").click()
    page.until(lambda: "common cold" in page.text("entity"))
    page.button("This is wrong: common cold").send_keys(Keys.ENTER)
    page.until(lambda: "in force" in page.text("status"))
    assert "“cold” is not D2" in page.text("corrections")
    assert page.mentions() != before and "common cold" not in page.mention("cold").text
    page.button("Undo").click()
    page.until(lambda: "taken back" in page.text("status"))
    assert page.mentions() == before and page.problems() == []


def test_mentions_the_pipeline_missed_can_be_added(page):
    page.link(TEXT)
    page.browser.execute_script(
        "const last = document.querySelector('#text > span:last-child').firstChild;"
        "const start = last.data.indexOf('mild');"
        "document.getSelection().setBaseAndExtent(last, start, last, start + 8);"
    )
    page.until(lambda: page["words"].get_attribute("value") == "mild <b>")
    page["add"].click()
    # Nothing is added without a label.
    assert (
        page.browser.switch_to.active_element.get_attribute("id") == "label"
        and len(page.mentions()) == 2
    )
    page["label"].send_keys("Finding", Keys.ENTER)
    page.until(lambda: "mild <b>" in page.text("h-mention") and "Finding" in page.text("h-mention"))
    assert len(page.mentions()) == 3 and page.mention("mild <b>")
    # By the keyboard alone.
    page["words"].send_keys("had", Keys.ENTER)
    page.until(lambda: "“had”" in page.text("h-mention"))
    page["words"].clear()
    page["words"].send_keys("nowhere", Keys.ENTER)
    page.until(lambda: "not in the text" in page.text("status"))
    page.mention("mild").click()
    page.button("No entity").click()
    page.until(lambda: "“mild <b>” is no entity" in page.text("corrections"))
    assert page.problems() == []


FILES = {
    "a.txt": ("He had a cold.", ["a.txt"]),
    "bioc.xml": (
        "<collection><document><id>7</id><passage><offset>0</offset><text>He had a cold.</text>"
        "</passage><passage><text>MS &lt;b&gt;</text></passage></document><document><id>8</id>"
        "<passage><text>x</text></passage></document></collection>",
        ["7", "8"],
    ),
    "pubmed.xml": (
        "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>9</PMID><Article><ArticleTitle>He "
        'had a cold.</ArticleTitle><Abstract><AbstractText Label="X">MS &lt;b&gt;</AbstractText>'
        "</Abstract></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>",
        ["9"],
    ),
    "a.pubtator": (
        "1|t|He had a cold.\n1|a|MS <b>\n1\t9\t13\tcold\tX\tD2\n\n2|t|x\n2|a|\n",
        ["1", "2"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_text_of_a_file_is_shown(page, name):
    content, ids = FILES[name]
    page.browser.execute_script(
        "const data = new DataTransfer(); data.items.add(new File([arguments[0]], arguments[1]));"
        "given.dispatchEvent(new DragEvent('drop', {dataTransfer: data, cancelable: true}))",
        content,
        name,
    )
    page.until(lambda: page["given"].get_attribute("value").startswith("He had a cold."))
    options = [each.text for each in page["document"].find_elements(By.TAG_NAME, "option")]
    assert options == (ids if len(ids) > 1 else []) and page["document-row"].is_displayed() is (
        len(ids) > 1
    )
    if len(ids) > 1:
        page["document"].send_keys(Keys.ARROW_DOWN)
        page.until(lambda: page["given"].get_attribute("value") == "x")
        page["document"].send_keys(Keys.ARROW_UP)
    page.until(
        lambda: (
            page["given"].get_attribute("value")
            == ("He had a cold." if name == "a.txt" else "He had a cold.\nMS <b>")
        )
    )
    page.button("Link").click()
    page.until(lambda: "Linked text" in page.text("links"))
    page.until(page.mentions)
    page.mention("cold").click()
    page.button("No entity").click()
    # The correction says of which document it is.
    page.until(lambda: "“cold” is no entity" in page.text("corrections"))
    assert page.browser.execute_script("return state.file") == ids[0] and page.problems() == []


def test_threshold_changes_the_links(page):
    page.link(TEXT)
    before, shown = page.mentions(), page.text("shown")
    # The number of the pipeline, and how many mentions it leaves out.
    assert re.fullmatch(r"0\.\d\d: leaves out 0 of 2 mentions", shown)
    assert not page["reset"].is_enabled()
    page.browser.execute_script("threshold.value = 1; threshold.dispatchEvent(new Event('input'))")
    assert page.text("shown") == "1.00: leaves out 2 of 2 mentions"
    assert [
        each.get_attribute("title") for each in page["text"].find_elements(By.TAG_NAME, "button")
    ] == ["no entity"] * 2
    page["reset"].click()
    assert page.mentions() == before and page.text("shown") == shown


def test_entities_are_counted_and_lead_to_their_mentions(page):
    page.link("cold, MS and cold")
    rows = [each.text for each in page["entities"].find_elements(By.CSS_SELECTOR, "tbody tr")]
    assert rows == ["common cold D2 X 2", "mass spectrometry C1 X 1"]
    # The first mention is chosen already.
    for start in ("13", "0", "13"):
        page["entities"].find_element(By.TAG_NAME, "button").click()
        pressed = page["text"].find_element(By.CSS_SELECTOR, "[aria-pressed=true]")
        assert pressed.get_attribute("data-start") == start


def test_parents_and_aliases_are_shown_once_and_can_be_opened(page):
    page.link(TEXT)
    page.mention("cold").click()
    page.until(lambda: "common cold" in page.text("entity"))
    assert page.text("candidates").splitlines()[1] == "D2 · another name"
    # The mention is the alias that won: said by the heading alone.
    assert not page["evidence"].is_displayed() and page.text("entity").count("cold") == 2
    page.button("disease").click()
    page.until(lambda: "D0" in page.text("entity"))
    page.button("Back to the link").click()
    page.until(lambda: "D2" in page.text("entity"))
    page["query"].send_keys("mass spectrometri", Keys.ENTER)
    page.until(lambda: "C1" in page.text("found"))
    assert "“" not in page.text("found").partition("\n")[0]
    page["query"].clear()
    page["query"].send_keys("MS", Keys.ENTER)
    page.until(lambda: "“MS”" in page.text("found"))


def test_links_are_saved_as_they_are_shown(page):
    page.link(TEXT)
    page.browser.execute_script("threshold.value = 1; threshold.dispatchEvent(new Event('input'))")
    page.browser.execute_script(
        "window.saved = [];URL.createObjectURL = (blob) => { blob.text().then((text) => "
        "saved.push(text)); return 'blob:x'; };HTMLAnchorElement.prototype.click = function () { "
        "saved.push(this.download); };"
    )
    page["format"].send_keys(".tsv")
    page.button("Save").click()
    page.until(lambda: "exported" in page.text("status"))
    page.until(lambda: page.browser.execute_script("return saved.length") == 2)
    name, content = sorted(page.browser.execute_script("return saved"), key=len)
    assert name == "links.tsv"
    assert [line.split("\t")[5] for line in content.splitlines()] == ["id", "NIL", "NIL"]
    assert page.problems() == []


def test_page_fits_a_phone_without_sideways_scrolling(page):
    try:
        page.browser.set_window_size(390, 844)
        page.link(TEXT)
        page.mention("MS").click()
        width = page.browser.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]"
        )
        assert width[0] <= width[1]
    finally:
        page.browser.set_window_size(1440, 1000)


def test_page_works_with_a_pipeline_that_finds_nothing(browser, nlp, make_service, served):
    nlp.remove_pipe("entity_ruler")
    page = Page(browser, served(make_app(make_service(CorrectedLinker(nlp)))))
    assert "no component" in page.text("facts")
    page.link(TEXT)
    assert page.mentions() == [] and "cold" in page.text("text")
    page["label"].send_keys("X")
    page["words"].send_keys("cold", Keys.ENTER)
    page.until(
        lambda: [each.replace("\n", " ") for each in page.mentions()] == ["cold common cold"]
    )


def test_page_asks_for_the_key(browser, nlp, make_service, served):
    try:
        page = Page(browser, served(make_app(make_service(CorrectedLinker(nlp)), key="sesame")))
        page.until(lambda: page["key"].is_displayed() and "key" in page.text("status"))
        page["key"].send_keys("sesame", Keys.ENTER)
        page.until(lambda: not page["key"].is_displayed())
        page.link(TEXT)
        assert len(page.mentions()) == 2
        assert all("401" in each for each in page.problems())
    finally:
        browser.execute_script("sessionStorage.clear()")


HOSTILE = "<img src=x onerror=alert(1)>"


def test_page_treats_ontology_content_as_text(browser, make_service, served, tmp_path):
    """Names, ids and definitions are text, also those that would be markup or addresses of
    scripts."""
    evil = Entity(
        "javascript://%0aalert(1)",
        f"{HOSTILE} sarcoma",
        (HOSTILE,),
        (HOSTILE,),
        (HOSTILE,),
        HOSTILE,
        parents=("P",),
    )
    finder = spacy.blank("en")
    finder.add_pipe("entity_ruler").add_patterns([{"label": HOSTILE, "pattern": "sarcoma"}])
    finder.to_disk(tmp_path / "finder")
    build(
        [evil, Entity("P", HOSTILE), Entity("Q", "fever")],
        tmp_path / "linker",
        ner=str(tmp_path / "finder"),
        precision=0.01,
    )
    page = Page(
        browser, served(make_app(make_service(CorrectedLinker(spacy.load(tmp_path / "linker")))))
    )
    page.link(f"A sarcoma {HOSTILE}.")
    page.until(lambda: HOSTILE in page.text("entity"))
    page["query"].send_keys("sarcoma", Keys.ENTER)
    page.until(lambda: HOSTILE in page.text("found"))
    assert not page.browser.find_elements(By.TAG_NAME, "img")
    addresses = [
        each.get_attribute("href") for each in page.browser.find_elements(By.TAG_NAME, "a")
    ]
    assert all(each.startswith("http") for each in addresses)
    assert page.problems() == []
