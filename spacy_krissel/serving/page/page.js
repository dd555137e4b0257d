// What the page knows: the text, its mentions as /link gave them, and which one is looked at.
"use strict";
const $ = (id) => document.getElementById(id);
const state = { text: "", chars: [], mentions: [], chosen: -1, threshold: null, selection: null, file: "", documents: [], finds: true, asked: 0 };
const PARTS = ["vector", "lexical", "species", "spelling", "coherence"];
const COLOURS = 6;

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, does] of Object.entries(value)) node.addEventListener(event, does);
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function say(message) { $("status").textContent = message; }

async function ask(path, options = {}) {
  const headers = { ...(options.body ? { "content-type": "application/json" } : {}) };
  const key = sessionStorage.getItem("key");
  if (key) headers.authorization = `Bearer ${key}`;
  const answer = await fetch(path, { ...options, headers });
  const data = await answer.json().catch(() => ({ error: `${answer.status} ${answer.statusText}` }));
  if (answer.status === 401) $("key-row").hidden = false;
  if (!answer.ok) throw new Error(data.error || answer.statusText);
  return data;
}

// Runs what a click or key asks for; what goes wrong is said.
function guarded(work) {
  return async (event) => {
    if (event) event.preventDefault();
    try { await work(event); } catch (error) { say(error.message); }
  };
}

// Places of mentions count characters, and JavaScript's strings are made of halves of some.
function slice(start, end) { return state.chars.slice(start, end).join(""); }

// Links -------------------------------------------------------------------------------------------------------------

async function link(mentions) {
  const document_ = { text: state.text, id: state.file };
  // A later question may be answered first.
  const asked = ++state.asked;
  if (mentions) document_.mentions = mentions.map(({ start, end, label }) => ({ start, end, label }));
  const answer = await ask("link", { method: "POST", body: JSON.stringify({ documents: [document_] }) });
  if (asked !== state.asked) return;
  state.mentions = answer.documents[0].mentions;
  if (state.chosen >= state.mentions.length) state.chosen = -1;
  draw();
}

// What the slider makes of a link: below it, no entity.
function linked(mention) {
  const best = mention.candidates[0];
  if (state.threshold === null || !best) return mention.kb_id;
  const value = best.confidence === undefined ? best.score : best.confidence;
  return value < state.threshold ? "NIL" : best.id;
}

function candidate(mention, id) { return mention.candidates.find((each) => each.id === id); }

function colour(label) {
  const labels = [...new Set(state.mentions.map((each) => each.label))].sort();
  return `c${labels.indexOf(label) % COLOURS}`;
}

function draw() {
  $("links").hidden = !state.text;
  const text = $("text");
  text.replaceChildren();
  let end = 0;
  const order = state.mentions.map((_, i) => i).sort((a, b) => state.mentions[a].start - state.mentions[b].start);
  for (const i of order) {
    const mention = state.mentions[i];
    // Of overlapping mentions the first is drawn.
    if (mention.start < end) continue;
    text.append(piece(end, mention.start), button(mention, i));
    end = mention.end;
  }
  text.append(piece(end, state.chars.length));
  $("legend").replaceChildren(
    ...[...new Set(state.mentions.map((each) => each.label))].sort().map((each) => make("li", { class: colour(each) }, each || "mention")),
    make("li", { class: "nil" }, "no entity"),
  );
  drawMention();
}

function piece(start, end) { return make("span", { "data-start": start }, slice(start, end)); }

function button(mention, i) {
  const id = linked(mention);
  const best = candidate(mention, id);
  const name = best ? best.name : "no entity";
  const words = slice(mention.start, mention.end);
  return make(
    "button",
    {
      type: "button", class: best ? colour(mention.label) : "nil", "data-start": mention.start,
      "aria-pressed": String(i === state.chosen), "aria-label": `${words} ${name}, ${mention.label}`, on: { click: () => choose(i) },
    },
    words, " ", make("small", {}, name),
  );
}

function choose(i) {
  state.chosen = i;
  draw();
  $("mention").focus();
  $("mention").scrollIntoView({ block: "nearest" });
}

// Why ---------------------------------------------------------------------------------------------------------------

function drawMention() {
  const mention = state.mentions[state.chosen];
  $("mention").hidden = !mention;
  $("found").replaceChildren();
  if (!mention) return;
  const id = linked(mention);
  $("h-mention").textContent = `“${slice(mention.start, mention.end)}”, ${mention.label}`;
  $("why").textContent = why(mention, id);
  $("candidates").replaceChildren(...mention.candidates.map((each) => shown(mention, each, id)));
}

function why(mention, id) {
  const [first, second] = mention.candidates;
  if (!first) return "Nothing in the vocabulary is like it.";
  if (id === "NIL") return "No entity: the best candidate is not sure enough.";
  if (!second) return "There is no other candidate.";
  const gains = PARTS.filter((part) => part in first && part in second).map((part) => [part, first[part] - second[part]]);
  gains.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const said = gains.filter(([, gain]) => Math.abs(gain) >= 0.005).map(([part, gain]) => `${part} ${gain > 0 ? "+" : "−"}${Math.abs(gain).toFixed(2)}`);
  const ahead = (first.score - second.score).toFixed(2);
  return `${first.name} is ${ahead} ahead of ${second.name}${said.length ? `: ${said.join(", ")}` : ""}.`;
}

function number(value) { return value.toFixed(3); }

function shown(mention, each, id) {
  const parts = [`score ${number(each.score)}`];
  if (each.confidence !== undefined) parts.push(`confidence ${number(each.confidence)}`);
  parts.push(...PARTS.filter((part) => part in each).map((part) => `${part} ${number(each[part])}`));
  const details = make("span", {});
  const more = make("button", { type: "button", "aria-expanded": "false", "aria-label": `More about ${each.name}`, on: { click: guarded(async () => { more.setAttribute("aria-expanded", "true"); await describe(each.id, details); }) } }, "More");
  return make(
    "li", {},
    make("strong", {}, each.name), ` ${each.id} `, each.id === id ? "(linked) " : "",
    make("span", { class: "parts" }, parts.join(" · ")),
    make("span", { class: "evidence" }, each.evidence, ...(each.doc ? [` (${each.kind}, `, document_(each.doc), ")"] : each.source ? [` (${each.source})`] : [])),
    details,
    make("span", { class: "row" }, make("button", { type: "button", "aria-label": `This is right: ${each.name}`, on: { click: guarded(() => correct([each.id])) } }, "This is right"), more),
  );
}

function document_(id) {
  const pmid = /^(?:PMID:?)?(\d{5,8})$/i.exec(id);
  return pmid ? make("a", { href: `https://pubmed.ncbi.nlm.nih.gov/${pmid[1]}/`, rel: "noreferrer" }, `PMID ${pmid[1]}`) : id;
}

async function describe(id, place) {
  const entity = await ask(`entities/${encodeURIComponent(id)}`);
  const lines = [];
  if (entity.definition) lines.push(entity.definition);
  if (entity.aliases.length) lines.push(`Also: ${entity.aliases.slice(0, 20).join("; ")}`);
  if (entity.types.length) lines.push(`Types: ${entity.types.join("; ")}`);
  const parents = await Promise.all(entity.parents.slice(0, 5).map((each) => ask(`entities/${encodeURIComponent(each)}`).then((found) => found.name, () => each)));
  if (parents.length) lines.push(`Below: ${parents.join("; ")}`);
  place.replaceChildren(...(lines.length ? lines : ["Nothing more is known."]).map((line) => make("span", { class: "definition" }, line)));
  if (/^https:/.test(entity.url)) place.append(make("a", { href: entity.url, rel: "noreferrer" }, entity.url));
}

// Corrections -------------------------------------------------------------------------------------------------------

async function correct(right) {
  const mention = state.mentions[state.chosen];
  const body = { text: state.text, start: mention.start, end: mention.end, right, linked: linked(mention), doc: state.file, author: $("author").value };
  await ask("corrections", { method: "POST", body: JSON.stringify(body) });
  await link(state.mentions);
  await drawCorrections();
  // What was clicked may be gone.
  $("mention").focus();
  say("The correction is in force.");
}

async function drawCorrections() {
  const { corrections, total } = await ask("corrections");
  $("no-corrections").hidden = total > 0 && corrections.length === total;
  $("no-corrections").textContent = total ? `The last ${corrections.length.toLocaleString("en")} of ${total.toLocaleString("en")}.` : "None.";
  $("corrections").replaceChildren(...corrections.reverse().map((each) => {
    const said = `“${each.mention}” is ${each.right.join(", ") || "no entity"}`;
    const by = [each.author, each.time.replace("T", " ").replace("+00:00", " UTC")].filter(Boolean).join(", ");
    const undo = guarded(async () => {
      await ask(`corrections/${each.id}?author=${encodeURIComponent($("author").value)}`, { method: "DELETE" });
      if (state.text) await link(state.mentions);
      await drawCorrections();
      $("h-corrections").focus();
      say("The correction is taken back.");
    });
    return make("li", { title: each.context }, `${said} `, make("small", {}, by), " ", make("button", { type: "button", "aria-label": `Undo: ${said}`, on: { click: undo } }, "Undo"));
  }));
}

async function search() {
  const { entities } = await ask(`search?q=${encodeURIComponent($("query").value.trim())}`);
  $("found").replaceChildren(...entities.map((each) => make(
    "li", {}, make("strong", {}, each.name), ` ${each.id} `, make("small", {}, each.types.join("; ")), " ",
    make("button", { type: "button", "aria-label": `This is right: ${each.name}`, on: { click: guarded(() => correct([each.id])) } }, "This is right"),
  )));
  say(`${entities.length} entities found`);
}

// Mentions that were not found --------------------------------------------------------------------------------------

function offset(node, place) {
  const piece_ = (node.nodeType === Node.TEXT_NODE ? node.parentElement : node).closest("[data-start]");
  if (!piece_ || piece_.firstChild !== node) return null;
  return Number(piece_.dataset.start) + Array.from(node.data.slice(0, place)).length;
}

document.addEventListener("selectionchange", () => {
  const selection = document.getSelection();
  state.selection = null;
  if (selection.rangeCount && !selection.isCollapsed && $("text").contains(selection.anchorNode)) {
    const range = selection.getRangeAt(0);
    const [start, end] = [offset(range.startContainer, range.startOffset), offset(range.endContainer, range.endOffset)];
    if (start !== null && end !== null && start < end) state.selection = { start, end };
  }
  if (state.selection) $("words").value = slice(state.selection.start, state.selection.end);
});

// The words that are selected, or those that are typed: the first that no mention has yet.
function place(words) {
  const { selection } = state;
  if (selection && slice(selection.start, selection.end) === words) return selection;
  for (let at = state.text.indexOf(words); words && at >= 0; at = state.text.indexOf(words, at + 1)) {
    const start = Array.from(state.text.slice(0, at)).length;
    const end = start + Array.from(words).length;
    if (!state.mentions.some((each) => each.start < end && each.end > start)) return { start, end };
  }
  throw new Error("These words are not in the text, or are a mention already.");
}

// A button takes the selection with it where it takes the focus.
$("add").addEventListener("pointerdown", (event) => event.preventDefault());
$("add-form").addEventListener("submit", guarded(async () => {
  const { start, end } = place($("words").value);
  const others = state.mentions.filter((each) => each.end <= start || each.start >= end);
  await link([...others, { start, end, label: "MENTION" }]);
  choose(state.mentions.findIndex((each) => each.start <= start && each.end >= end));
}));

// Files -------------------------------------------------------------------------------------------------------------

async function open(file) {
  if (!file) return;
  state.documents = documentsOf(await file.text(), file.name.slice(0, 200));
  const many = state.documents.length > 1;
  $("document-row").hidden = !many;
  $("document").replaceChildren(...(many ? state.documents.map((each) => make("option", {}, each.id)) : []));
  show(state.documents[0]);
  say(many ? `${state.documents.length} documents` : "");
}

function show(document_) {
  $("given").value = document_.text;
  state.file = document_.id;
}

// Of a PubMed, BioC XML or PubTator file; any other is one text.
function documentsOf(content, name) {
  let found = [];
  if (content.trimStart().startsWith("<")) {
    const xml = new DOMParser().parseFromString(content, "application/xml");
    const texts = (node, selector) => [...node.querySelectorAll(selector)].map((each) => each.textContent.trim()).filter(Boolean);
    const read = (nodes, id, selector) => [...xml.querySelectorAll(nodes)].map((node) => ({ id: texts(node, id)[0], text: texts(node, selector).join("\n") }));
    found = [...read("collection > document", "id", "passage > text, sentence > text"), ...read("PubmedArticle, PubmedBookArticle", "PMID", "ArticleTitle, Abstract > AbstractText")];
  } else {
    const titles = content.matchAll(/^([^|\t\n]+)\|t\|(.*)\r?\n\1\|a\|(.*)$/gm);
    found = Array.from(titles, ([, id, title, abstract]) => ({ id, text: [title, abstract].filter(Boolean).join("\n") }));
  }
  found = found.filter((each) => each.text).map((each) => ({ ...each, id: (each.id || name).slice(0, 200) }));
  return found.length ? found : [{ id: name, text: content }];
}

$("form").addEventListener("submit", guarded(async () => {
  if ($("key").value) sessionStorage.setItem("key", $("key").value);
  localStorage.setItem("author", $("author").value);
  Object.assign(state, { text: $("given").value, chars: Array.from($("given").value), mentions: [], chosen: -1 });
  say("Linking …");
  // Where nothing in the pipeline finds mentions, a person does.
  await link(state.finds ? null : []);
  await drawCorrections();
  say(`${state.mentions.length} mentions`);
}));
$("given").addEventListener("drop", (event) => {
  const file = event.dataTransfer.files[0];
  // Text that is dropped is the browser's work.
  if (file) guarded(() => open(file))(event);
});
$("file").addEventListener("change", guarded(() => open($("file").files[0])));
$("document").addEventListener("change", () => show(state.documents[$("document").selectedIndex]));
$("given").addEventListener("input", () => { state.file = ""; });
$("threshold").addEventListener("input", () => {
  state.threshold = Number($("threshold").value);
  $("shown").textContent = state.threshold.toFixed(2);
  draw();
});
$("reset").addEventListener("click", () => {
  state.threshold = null;
  $("threshold").value = "0";
  $("shown").textContent = "as the pipeline has it";
  draw();
});
$("search").addEventListener("submit", guarded(search));
$("none").addEventListener("click", guarded(() => correct([])));
$("author").value = localStorage.getItem("author") || "";
guarded(async () => {
  const health = await ask("health");
  state.finds = health.finds_mentions;
  $("about").textContent = `${health.entities.toLocaleString("en")} entities`;
  await drawCorrections();
})();
