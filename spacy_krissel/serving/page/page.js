// The text, its mentions as /link gave them, the one that is chosen, and the entity that is looked at.
"use strict";
const $ = (id) => document.getElementById(id);
const state = {
  text: "", chars: [], mentions: [], chosen: -1, viewed: "", threshold: null, selection: null, file: "", documents: [],
  about: { finders: [], labels: [], formats: [], min_confidence: null }, asked: 0, all: false,
};
// Numbers of a candidate that are no part of its score.
const NO_PARTS = ["score", "confidence"];
// How the name of a candidate was found.
const MATCHES = {
  label: "preferred name", synonym: "another name", mention: "annotated mention", abbreviation: "abbreviation in this text",
  spelling: "another spelling", similar: "similar name", context: "no similar name",
};
const COLOURS = 6;
// Candidates, names and hits of a search that are shown; seconds for which a message is.
const MAX_SHOWN = 7;
const MAX_NAMES = 12;
const MAX_FOUND = 6;
// Characters of the evidence on each side of its mention.
const MAX_NEAR = 120;
const SECONDS = 8;
const EXAMPLE = `A 54-year-old woman with type 2 diabetes mellitus and rheumatoid arthritis was admitted with fever, recurrent nosebleeds and seizures. She had taken methotrexate and metformin for six years. Examination showed hepatomegaly, ataxia and hearing loss, and the platelet count was low: a pancytopenia due to methotrexate was suspected. Her brother has epilepsy with a mutation of SCN1A.

The fever and the seizures resolved within a week, and the nosebleeds did not return.`;

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

// Ids, names and addresses are an ontology's: only the web's own schemes become links.
function linkTo(address, text) {
  return /^https?:\/\//i.test(address) ? make("a", { href: address, rel: "noreferrer", target: "_blank" }, text) : text;
}

// kind: an "error" stays until something else is said; what is "unseen" can be seen elsewhere.
let silence = 0;
function say(message, kind = "") {
  clearTimeout(silence);
  $("status").className = kind;
  $("status").textContent = message;
  if (kind !== "error") silence = setTimeout(() => say(""), 1000 * SECONDS);
}

async function ask(path, options = {}) {
  const headers = { ...(options.body ? { "content-type": "application/json" } : {}) };
  const key = sessionStorage.getItem("key");
  if (key) headers.authorization = `Bearer ${key}`;
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) $("key-form").hidden = false;
  if (answer.ok) return answer;
  const data = await answer.json().catch(() => ({}));
  throw new Error(data.error || `${answer.status} ${answer.statusText}`);
}

async function get(path) { return (await ask(path)).json(); }

function post(path, data) { return ask(path, { method: "POST", body: JSON.stringify(data) }); }

// Runs what a click or key asks for; what goes wrong is said.
function guarded(work) {
  return async (event) => {
    if (event) event.preventDefault();
    try { await work(event); } catch (error) { say(error.message, "error"); }
  };
}

// Places of mentions count characters, and JavaScript's strings are made of halves of some.
function slice(start, end) { return state.chars.slice(start, end).join(""); }

function words(mention) { return slice(mention.start, mention.end); }

function isSame(one, other) { return one.trim().toLowerCase() === other.trim().toLowerCase(); }

function count(n, one) { return `${n.toLocaleString("en")} ${n === 1 ? one : `${one}s`}`; }

// Links -------------------------------------------------------------------------------------------------------------

function asked(mentions) {
  const document_ = { text: state.text, id: state.file };
  if (mentions) document_.mentions = mentions.map(({ start, end, label }) => ({ start, end, label }));
  return document_;
}

async function link(mentions) {
  // A later question may be answered first.
  const number = ++state.asked;
  const answer = await (await post("link", { documents: [asked(mentions)] })).json();
  if (number !== state.asked) return;
  state.mentions = answer.documents[0].mentions;
  if (state.chosen >= state.mentions.length) state.chosen = -1;
  if (state.chosen < 0) state.chosen = inOrder()[0] ?? -1;
  state.viewed = "";
  draw();
}

// What the slider makes of a link: below it, no entity.
function linked(mention) {
  const best = mention.candidates[0];
  if (state.threshold === null || !best) return mention.kb_id;
  return best.confidence < state.threshold ? "NIL" : best.id;
}

function candidate(mention, id) { return mention.candidates.find((each) => each.id === id); }

// A link that someone set by hand may be of no candidate.
function nameOf(mention) {
  const id = linked(mention);
  const best = candidate(mention, id);
  return best ? best.name : id === "NIL" ? "no entity" : id;
}

function inOrder() {
  return state.mentions.map((_, i) => i).sort((a, b) => state.mentions[a].start - state.mentions[b].start);
}

function labels() { return [...new Set(state.mentions.map((each) => each.label))].sort(); }

function colour(label) { return `c${labels().indexOf(label) % COLOURS}`; }

function draw() {
  const isLinked = Boolean(state.text);
  for (const id of ["links", "summary"]) $(id).hidden = !isLinked;
  const text = $("text");
  text.replaceChildren();
  let end = 0;
  let hidden = 0;
  for (const i of inOrder()) {
    const mention = state.mentions[i];
    // Of overlapping mentions the first is drawn; the table has all.
    if (mention.start < end) { hidden += 1; continue; }
    text.append(piece(end, mention.start), button(mention, i));
    end = mention.end;
  }
  text.append(piece(end, state.chars.length));
  $("overlaps").hidden = !hidden;
  $("overlaps").textContent = `${count(hidden, "mention")} within others: choose them by their entities below.`;
  $("legend").replaceChildren(
    ...labels().map((each) => make("li", { class: colour(each) }, each || "mention")),
    ...(state.mentions.some((each) => linked(each) === "NIL") ? [make("li", { class: "nil" }, "no entity")] : []),
  );
  drawThreshold();
  drawEntities();
  drawMention();
}

function piece(start, end) { return make("span", { "data-start": start }, slice(start, end)); }

function button(mention, i) {
  const id = linked(mention);
  const name = nameOf(mention);
  const isNew = id !== "NIL" && !isSame(name, words(mention));
  return make(
    "button",
    {
      type: "button", class: id === "NIL" ? "nil" : colour(mention.label), "data-start": mention.start, "data-mention": i, title: id === "NIL" ? name : id,
      "aria-pressed": String(i === state.chosen), "aria-label": `${words(mention)}: ${name}, ${mention.label}`, on: { click: () => choose(i) },
    },
    words(mention), ...(isNew ? [" ", make("small", {}, name)] : []),
  );
}

function drawThreshold() {
  const least = state.about.min_confidence;
  $("threshold-row").hidden = least === null;
  if (least === null) return;
  const value = state.threshold ?? least;
  if (state.threshold === null) $("threshold").value = String(least);
  const left = state.mentions.filter((each) => linked(each) === "NIL").length;
  $("shown").textContent = `${value.toFixed(2)}: leaves out ${left} of ${count(state.mentions.length, "mention")}`;
  $("reset").disabled = state.threshold === null;
}

// A row for each entity with its label, the most frequent first; at last what has none.
function drawEntities() {
  const rows = new Map();
  for (const i of inOrder()) {
    const mention = state.mentions[i];
    const id = linked(mention);
    const key = JSON.stringify([id, mention.label]);
    if (!rows.has(key)) rows.set(key, { id, name: nameOf(mention), label: mention.label, mentions: [] });
    rows.get(key).mentions.push(i);
  }
  const sorted = [...rows.values()].sort((a, b) => (a.id === "NIL") - (b.id === "NIL") || b.mentions.length - a.mentions.length);
  $("entities").tBodies[0].replaceChildren(...sorted.map((row) => make(
    "tr", {},
    make("td", {}, make("button", { type: "button", class: "quiet", on: { click: () => choose(after(row.mentions)) } }, row.name)),
    make("td", { class: "id" }, row.id === "NIL" ? "" : row.id),
    make("td", {}, row.label),
    make("td", { class: "number" }, String(row.mentions.length)),
  )));
  // Addresses of records come with their entities.
  sorted.forEach(({ id }, i) => { if (id !== "NIL") addLink(id, $("entities").tBodies[0].rows[i].cells[1]); });
}

async function addLink(id, cell) {
  const found = await entity(id).catch(() => null);
  if (found) cell.replaceChildren(linkTo(found.url, id));
}

// The next of these mentions behind the chosen one.
function after(mentions) { return mentions[(mentions.indexOf(state.chosen) + 1) % mentions.length]; }

function choose(i) {
  Object.assign(state, { chosen: i, viewed: "", all: false });
  $("found").replaceChildren();
  $("query").value = "";
  draw();
  view(state.viewed, true);
  $("mention").scrollTop = 0;
  $("mention").focus({ preventScroll: true });
  // On a phone it is below the text.
  const { top } = $("mention").getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) $("mention").scrollIntoView();
}

// The chosen mention ------------------------------------------------------------------------------------------------

const entities = new Map();

// What the vocabulary has of an entity does not change while the service runs.
function entity(id) {
  if (!entities.has(id)) {
    const found = get(`entities/${encodeURIComponent(id)}`);
    entities.set(id, found);
    found.catch(() => entities.delete(id));
  }
  return entities.get(id);
}

function drawMention() {
  const mention = state.mentions[state.chosen];
  $("chosen").hidden = !mention;
  $("nothing").hidden = Boolean(mention);
  if (state.text && !mention) $("nothing").textContent = "There are no mentions. Select words of the text, or type them, to add one.";
  if (!mention) return;
  $("h-mention").replaceChildren(`“${words(mention)}”`, make("span", { class: `label ${colour(mention.label)}` }, mention.label));
  view(state.viewed || linked(mention));
  drawParts(mention);
}

// Shows one entity: what is linked, or a candidate, a parent, or a hit of the search.
// isAsked: by a person, who may not see it.
function view(id, isAsked = false) {
  const mention = state.mentions[state.chosen];
  const best = mention.candidates[0];
  state.viewed = id;
  drawCandidates(mention);
  drawEvidence(mention, candidate(mention, id));
  for (const each of $("found").querySelectorAll("button")) each.setAttribute("aria-current", String(each.dataset.id === id));
  if (id === "NIL") {
    const why = best ? "None of the candidates is likely enough." : "Nothing in the vocabulary is like it, or a person said that it has none.";
    $("entity").replaceChildren(make("h3", { class: "name" }, "No entity"), make("p", { class: "soft" }, why), make("p", { class: "row" }, none("This is right")));
    if (isAsked) say("No entity", "unseen");
    return;
  }
  guarded(async () => {
    const found = await entity(id);
    if (state.viewed !== id) return;
    $("entity").replaceChildren(...card(mention, found));
    if (isAsked) say(`${found.name}, ${found.id}`, "unseen");
  })();
}

// Looks at another entity, for whoever has no mouse too.
function look(id) {
  view(id, true);
  $("mention").scrollTop = 0;
  $("entity").focus({ preventScroll: true });
}

function looker(each) {
  return each.name ? make("button", { type: "button", class: "quiet", title: each.id, on: { click: () => look(each.id) } }, each.name) : each.id;
}

const NONE = "No entity of the vocabulary";
function none(text) {
  return make("button", { type: "button", "aria-label": text === NONE ? NONE : `${text}: ${NONE}`, on: { click: guarded(() => correct([])) } }, text);
}

function card(mention, found) {
  const id = linked(mention);
  const isLinked = found.id === id;
  const names = found.aliases.filter((each) => !isSame(each, found.name));
  const more = names.length > MAX_NAMES ? `; and ${names.length - MAX_NAMES} more` : "";
  const others = found.parents.slice(1);
  const actions = [
    make("button", { type: "button", class: isLinked ? "" : "main", "aria-label": `This is right: ${found.name}`, on: { click: guarded(() => correct([found.id])) } }, "This is right"),
    none(NONE),
    ...(isLinked ? [make("button", { type: "button", "aria-label": `This is wrong: ${found.name}`, on: { click: guarded(() => correct([], [found.id])) } }, "This is wrong")] : [make("button", { type: "button", on: { click: () => look(id) } }, "Back to the link")]),
  ];
  return [
    make("h3", { class: "name" }, found.name),
    make("p", { class: "row" }, make("span", { class: "id" }, linkTo(found.url, found.id)), ...found.types.map((each) => make("small", {}, each)), make("small", {}, isLinked ? "linked" : "not linked")),
    ...(found.definition ? [make("p", { class: "definition" }, found.definition)] : []),
    ...(names.length ? [make("p", { class: "soft" }, `Also ${names.slice(0, MAX_NAMES).join("; ")}${more}`)] : []),
    ...(found.path.length ? [make("ul", { class: "path", "aria-label": "Above it, from the top" }, ...found.path.map((each) => make("li", {}, looker(each))))] : []),
    ...(others.length ? [make("p", { class: "path" }, make("span", { class: "soft" }, "Also below"), ...others.map(looker))] : []),
    ...(found.tree_numbers.length ? [make("p", { class: "soft" }, `Tree numbers ${found.tree_numbers.join(", ")}`)] : []),
    make("p", { class: "row" }, ...actions),
  ];
}

function drawCandidates(mention) {
  const first = state.all ? mention.candidates : mention.candidates.slice(0, MAX_SHOWN);
  const top = Math.max(...mention.candidates.map((each) => each.score));
  const left = mention.candidates.length - first.length;
  $("h-candidates").hidden = !first.length;
  $("candidates").replaceChildren(...first.map((each) => {
    const value = each.confidence ?? each.score;
    const fill = make("span");
    // By the style sheet's own interface: the policy forbids attributes.
    fill.style.width = `${100 * Math.max(0, Math.min(1, each.confidence ?? each.score / top))}%`;
    const measure = make("span", { class: "measure" }, make("span", { class: "bar", "aria-hidden": "true" }, fill), value.toFixed(2));
    const about = [each.id, MATCHES[each.match]].filter(Boolean).join(" · ");
    return choice(each, make("small", {}, about), measure);
  }));
  if (left > 0) {
    const all = make("button", { type: "button", on: { click: () => { state.all = true; drawCandidates(mention); } } }, `${left} more`);
    $("candidates").append(make("li", {}, all));
  }
}

function choice(each, ...about) {
  const attributes = { type: "button", "data-id": each.id, "aria-current": String(each.id === state.viewed), on: { click: () => look(each.id) } };
  return make("li", {}, make("button", attributes, make("span", {}, each.name), ...about));
}

// The text of the prototype that won; a bare name only where it is neither the mention nor the entity's own.
function drawEvidence(mention, each) {
  const quoted = each ? each.evidence.split(/[⟦⟧]/) : [];
  const isName = quoted.length === 3 && !quoted[0] && !quoted[2];
  const isSaid = isName && (isSame(quoted[1], words(mention)) || isSame(quoted[1], each.name));
  const from = each ? [each.doc && document_(each.doc), each.source].filter(Boolean).flatMap((part, i) => [i ? ", " : "From ", part]) : [];
  $("evidence").hidden = !each || (isSaid && !from.length);
  if ($("evidence").hidden) return;
  const content = quoted.map((part, i) => (i % 2 ? make("mark", {}, part) : near(part, i)));
  $("evidence").replaceChildren(
    make("h3", {}, "Evidence"),
    ...(isName ? (isSaid ? [] : [make("p", {}, "Nearest name: ", make("strong", {}, quoted[1]))]) : [make("p", { class: "quote" }, ...content)]),
    ...(from.length ? [make("p", { class: "soft" }, ...from)] : []),
  );
}

// The words of a long context that are next to the mention, on its left (0) or right.
function near(text, side) {
  if (text.length <= MAX_NEAR) return text;
  return side ? `${text.slice(0, MAX_NEAR).replace(/\S*$/, "")}…` : `…${text.slice(-MAX_NEAR).replace(/^\S*/, "")}`;
}

function document_(id) {
  const pmid = /^(?:PMID:?)?(\d{5,8})$/i.exec(id);
  return pmid ? linkTo(`https://pubmed.ncbi.nlm.nih.gov/${pmid[1]}/`, `PMID ${pmid[1]}`) : id;
}

// Parts that are of no candidate say nothing.
function drawParts(mention) {
  const { candidates } = mention;
  const columns = parts(candidates).filter((part) => candidates.some((each) => Math.abs(each[part] ?? 0) >= 0.0005));
  $("parts").hidden = !candidates.length;
  $("why").textContent = why(candidates, columns);
  const [table] = $("parts").getElementsByTagName("table");
  const cells = (each) => ["score", ...columns].map((part) => make("td", { class: "number" }, Math.abs(each[part] ?? 0) >= 0.0005 ? each[part].toFixed(3) : ""));
  table.tHead.replaceChildren(make("tr", {}, make("th", { scope: "col" }, "Candidate"), ...["score", ...columns].map((part) => make("th", { scope: "col", class: "number" }, part))));
  table.tBodies[0].replaceChildren(...candidates.slice(0, MAX_SHOWN).map((each) => make("tr", {}, make("td", {}, each.name), ...cells(each))));
}

function parts(candidates) {
  const names = new Set(candidates.flatMap((each) => Object.keys(each).filter((key) => typeof each[key] === "number")));
  return [...names].filter((name) => !NO_PARTS.includes(name));
}

function why([first, second], columns) {
  if (!second) return "There is no other candidate.";
  const gains = columns.filter((part) => part in first && part in second).map((part) => [part, first[part] - second[part]]);
  gains.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const said = gains.filter(([, gain]) => Math.abs(gain) >= 0.005).map(([part, gain]) => `${part} ${gain > 0 ? "+" : "−"}${Math.abs(gain).toFixed(2)}`);
  return `${first.name} is ${(first.score - second.score).toFixed(2)} ahead of ${second.name}${said.length ? `: ${said.join(", ")}` : ""}.`;
}

async function search() {
  const { entities: found } = await get(`search?k=${MAX_FOUND}&q=${encodeURIComponent($("query").value.trim())}`);
  $("found").replaceChildren(...found.map((each) => {
    const alias = each.alias && !isSame(each.alias, each.name) ? [`“${each.alias}”`] : [];
    return choice(each, make("small", {}, [each.id, ...alias].join(" · ")));
  }));
  say(`Entities found: ${found.length}`, found.length ? "unseen" : "");
}

// Corrections -------------------------------------------------------------------------------------------------------

async function correct(right, rejected = []) {
  const mention = state.mentions[state.chosen];
  const { start, end } = mention;
  await post("corrections", { text: state.text, start, end, right, rejected, linked: linked(mention), doc: state.file, author: $("author").value });
  await link(state.mentions);
  await drawCorrections();
  // What was clicked may be gone.
  $("mention").focus({ preventScroll: true });
  say("The correction is in force.");
}

async function drawCorrections() {
  const { corrections, total } = await get("corrections");
  $("log").hidden = !total && !state.text;
  $("no-corrections").hidden = total > 0 && corrections.length === total;
  $("no-corrections").textContent = total ? `The last ${corrections.length.toLocaleString("en")} of ${total.toLocaleString("en")}.` : "None.";
  $("corrections").replaceChildren(...corrections.reverse().map((each) => {
    const said = `“${each.mention}” is ${each.right.join(", ") || (each.rejected.length ? `not ${each.rejected.join(", ")}` : "no entity")}`;
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

// Export ------------------------------------------------------------------------------------------------------------

async function save() {
  const format = $("format").value;
  const data = { documents: [asked(state.mentions)], format };
  if (state.threshold !== null) data.min_confidence = state.threshold;
  const address = URL.createObjectURL(await (await post("export", data)).blob());
  make("a", { href: address, download: `${state.file.replace(/[^\w.-]/g, "_") || "links"}.${format}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000 * SECONDS);
  say(`${count(state.mentions.length, "mention")} exported`);
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
function place(given) {
  const { selection } = state;
  if (selection && slice(selection.start, selection.end) === given) return selection;
  for (let at = state.text.indexOf(given); given && at >= 0; at = state.text.indexOf(given, at + 1)) {
    const start = Array.from(state.text.slice(0, at)).length;
    const end = start + Array.from(given).length;
    if (!state.mentions.some((each) => each.start < end && each.end > start)) return { start, end };
  }
  throw new Error("These words are not in the text, or are a mention already.");
}

// A button takes the selection with it where it takes the focus.
$("add").addEventListener("pointerdown", (event) => event.preventDefault());
$("add-form").addEventListener("submit", guarded(async () => {
  const { start, end } = place($("words").value);
  const others = state.mentions.filter((each) => each.end <= start || each.start >= end);
  await link([...others, { start, end, label: $("label").value.trim() }]);
  $("words").value = "";
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
  $("example").hidden = true;
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

// What people do ----------------------------------------------------------------------------------------------------

$("form").addEventListener("submit", guarded(async () => {
  Object.assign(state, { text: $("given").value, chars: Array.from($("given").value), mentions: [], chosen: -1, threshold: null });
  say("Linking …");
  // Where nothing in the pipeline finds mentions, a person does.
  await link(state.about.finders.length ? null : []);
  $("input").hidden = Boolean(state.text);
  await drawCorrections();
  say(count(state.mentions.length, "mention"), "unseen");
}));
$("edit").addEventListener("click", () => {
  $("input").hidden = false;
  $("given").focus();
});
$("example").addEventListener("click", () => {
  show({ text: EXAMPLE, id: "" });
  $("form").requestSubmit();
});
$("given").addEventListener("drop", (event) => {
  const file = event.dataTransfer.files[0];
  // Text that is dropped is the browser's work.
  if (file) guarded(() => open(file))(event);
});
$("file").addEventListener("change", guarded(() => open($("file").files[0])));
$("document").addEventListener("change", () => {
  show(state.documents[$("document").selectedIndex]);
  if ($("input").hidden) $("form").requestSubmit();
});
$("given").addEventListener("input", () => {
  state.file = "";
  // It would replace what was typed.
  $("example").hidden = Boolean($("given").value);
});
$("threshold").addEventListener("input", () => {
  Object.assign(state, { threshold: Number($("threshold").value), viewed: "" });
  draw();
});
$("reset").addEventListener("click", () => {
  Object.assign(state, { threshold: null, viewed: "" });
  draw();
  $("threshold").focus();
});
$("mention").addEventListener("keydown", (event) => {
  const chip = $("text").querySelector(`[data-mention="${state.chosen}"]`);
  // In the search it empties the field.
  if (event.key === "Escape" && chip && event.target !== $("query")) chip.focus();
});
$("search").addEventListener("submit", guarded(search));
$("export").addEventListener("submit", guarded(save));
$("author").addEventListener("change", () => localStorage.setItem("author", $("author").value));
$("author").value = localStorage.getItem("author") || "";
$("key-form").addEventListener("submit", guarded(async () => {
  sessionStorage.setItem("key", $("key").value);
  await drawCorrections();
  $("key-form").hidden = true;
}));

// Of an address or path its date, if it has one, as most releases of ontologies do.
function version(text) {
  const day = text.includes("/") && /\d{4}-\d\d-\d\d/.exec(text);
  return day ? day[0] : text;
}

function fact(name, ...values) { return make("div", {}, make("dt", {}, name), make("dd", {}, ...values)); }

function drawFacts(about) {
  const vocabularies = about.vocabularies.flatMap((each) => {
    const release = version(each.version) || (each.source === each.name ? "version not stated" : each.source);
    const title = `${each.name || "an ontology without a name"}, ${release || "version not stated"}`;
    const licence = each.licence || each.terms.replace(/^https?:\/\//, "");
    return [fact("Vocabulary", title), fact("Licence", licence ? linkTo(each.terms, licence) : "not stated")];
  });
  $("facts").replaceChildren(
    ...vocabularies,
    fact("Entities", about.entities.toLocaleString("en")),
    fact("Mentions found by", about.finders.join(", ") || "you: no component of the pipeline finds any"),
  );
}

guarded(async () => {
  const { about } = state;
  Object.assign(about, await get("health"));
  drawFacts(about);
  $("format").replaceChildren(...about.formats.map((each) => make("option", { value: each }, `.${each}`)));
  $("labels").replaceChildren(...about.labels.map((each) => make("option", { value: each })));
  await drawCorrections();
})();
