// The page: a choice in its address, a form for it, and the project that render.js makes of it.

const data = JSON.parse(document.getElementById("data").textContent);
const byName = new Map(data.tricks.map((trick) => [trick.name, trick]));
const listable = data.tricks.filter((trick) => !trick.choices).map((trick) => trick.name);
const element = (id) => document.getElementById(id);
const DEFAULTS = { name: "Leaf Diseases", preset: "recommended", file: "train.py" };
const ANSWERS = ".copier-answers.yml";
const CONTEXT = 3;
const HELLO = element("status").textContent;
const FORM = "tricks";

let state; // The name, the preset, the answers to questions with choices, the tricks, and what custom had.
/**
 * What an entry of the history holds besides its address: the state that the project is compared with,
 * what the comparison is about, whether it is that without this trick, and what is shown of the page.
 */
const FRESH = { than: null, about: "", lines: false, only: false, pane: FORM, filter: "", typed: null };
let view = FRESH;
let open = DEFAULTS.file;
let reading = ""; // The trick whose page of the handbook is shown.
let pages; // All of them, in HTML, once one was wanted.
let held = false; // Whether a reader has chosen the file that is open.
let opener; // The button that led to the code, to which Escape returns.
let project, changes; // The files now, and of each the lines with what became of them.
const unfolded = new Set();

// ---- Choices

/** The state of a preset, or of wishes of one's own, with answers to what it asks. */
function stateOf({ name, preset, wishes, own = null, ...answers }) {
  const { chosen, ...choice } = ofPreset(data, preset, answers);
  if (preset !== "custom") return { name, own, ...choice, tricks: listable.filter((trick) => chosen.has(trick)) };
  const forms = data.questions.filter(({ asked }) => !asked.includes(DEFAULTS.preset)).map(({ name }) => name);
  // The history may have a trick of another version.
  const known = wishes.filter((trick) => listable.includes(trick));
  const kept = { wishes: known, ...Object.fromEntries(forms.map((form) => [form, choice[form]])) };
  return { name, own: kept, ...choice, tricks: fitting(known, choice) };
}

/** The tricks of a list that go together and with the answers: of two that do not, the first. */
function fitting(wishes, answers) {
  const kept = [];
  const add = (name) => {
    beside(byName.get(name), true).filter((other) => wishes.includes(other) && !kept.includes(other)).forEach(add);
    if (!kept.includes(name) && !obstacle(name, { ...answers, tricks: kept })) kept.push(name);
  };
  wishes.forEach(add);
  return listable.filter((name) => kept.includes(name));
}

/** What custom would hold: the tricks, and those that only answers leave out. */
const wishesIn = ({ preset, own, tricks }) => preset === "custom" ? own.wishes : tricks;

/** A choice of one's own in place of the tricks of a state; what its answers left out is kept. */
function custom(from, tricks, answers = {}) {
  const barred = wishesIn(from).filter((name) => against(byName.get(name), from).length);
  return stateOf({ ...from, ...answers, preset: "custom", wishes: [...new Set([...tricks, ...barred])] });
}

/** The other tricks that must be in, or out, beside a trick. */
const beside = (trick, level) => Object.keys(trick.bounds).filter((name) => trick.bounds[name].includes(level));

/** The tricks that need a trick. */
const needing = (name, tricks) => tricks.filter((other) => beside(byName.get(other), true).includes(name));

/** Why a trick cannot be ticked, or unticked, as copier.yml would refuse it; or an empty text. */
function obstacle(name, answers) {
  const { tricks } = answers;
  const trick = byName.get(name), has = (other) => tricks.includes(other);
  if (has(name)) {
    const others = needing(name, tricks);
    return others.length ? `${others.join(" and ")} ${others.length === 1 ? "needs" : "need"} it` : "";
  }
  const [bound] = against(trick, answers);
  if (bound) {
    const [question, choices] = bound, listed = choices.join(" or ");
    return byName.has(question) ? `needs ${question}=${listed}` : `not for ${answers[question]}, only for ${listed}`;
  }
  const missing = beside(trick, true).filter((other) => !has(other));
  if (missing.length) return `needs ${missing.join(" and ")}`;
  const excluded = excluding(trick, tricks);
  return excluded.length ? `does not go with ${excluded.join(" and ")}` : "";
}

/** The tricks that a trick does not go with. */
const excluding = (trick, tricks) => tricks.filter((other) =>
  beside(trick, false).includes(other) || beside(byName.get(other), false).includes(trick.name));

/** The state with a trick that is refused, or without one that others need, and with all that this takes. */
function wayOut(name, from) {
  const answers = {}, wishes = new Set(from.tricks);
  const remove = (one) => wishes.delete(one) && needing(one, [...wishes]).forEach(remove);
  const add = (one) => {
    const trick = byName.get(one);
    for (const [question, choices] of against(trick, { ...from, ...answers })) {
      answers[question] = nearest(question, choices, from[question]);
    }
    excluding(trick, [...wishes]).forEach(remove);
    wishes.add(one);
    beside(trick, true).filter((other) => !wishes.has(other)).forEach(add);
  };
  (wishes.has(name) ? remove : add)(name);
  return custom(from, [...wishes], answers);
}

/** The choice that stands closest to another one; of two, one that is not the absence of a trick. */
function nearest(question, choices, choice) {
  const all = Object.keys(data.questions.find(({ name }) => name === question).choices);
  const distance = (one) => Math.abs(all.indexOf(one) - all.indexOf(choice)) + (one === "none" ? 0.5 : 0);
  return choices.reduce((best, one) => (distance(one) < distance(best) ? one : best));
}

/** The words for a way out, or an empty text if it asks for another task. */
function wordsFor(name, next) {
  const answers = data.questions.filter((question) => state[question.name] !== next[question.name]);
  if (answers.some((question) => !byName.has(question.name))) return "";
  const less = (some, others) => some.tricks.filter((one) => one !== name && !others.tricks.includes(one));
  const left = less(state, next).join(" and ");
  if (state.tricks.includes(name)) return `Untick it and ${left}`;
  const taken = [...answers.map((question) => `${question.name}=${next[question.name]}`), ...less(next, state)];
  return `Tick it${taken.length ? ` with ${taken.join(" and ")}` : ""}${left ? ` without ${left}` : ""}`;
}

/** A state without a trick. */
const without = (name, from) => ({
  ...from, preset: "custom", tricks: from.tricks.filter((other) => other !== name),
  ...(name in from && { [name]: "none" }),
});

/** A state with a trick, and with all that it takes. */
function including(name, from) {
  const { choices } = byName.get(name);
  if (choices) return from[name] === "none" ? custom(from, from.tricks, { [name]: choices[0] }) : from;
  return from.tricks.includes(name) ? from : wayOut(name, from);
}

/** What an address stands for, and what of it cannot be had. */
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1)), lost = [];
  const name = (asked.get("name") ?? DEFAULTS.name).trim(), fault = nameFault(data, name);
  if (fault) lost.push(`the name “${name}” (${fault.replace(/\.$/, "")})`);
  const oneOf = (options, entry, instead) => {
    const wanted = asked.get(entry) ?? instead;
    if (Object.hasOwn(options, wanted)) return wanted;
    lost.push(`${entry}=${wanted} (not in this version)`);
    return instead;
  };
  const preset = asked.has("tricks") ? "custom" : oneOf(data.presets, "preset", DEFAULTS.preset);
  const answers = {};
  for (const { name: question, choices, defaults, asked: presets } of data.questions) {
    const usual = answers[question] = defaults[preset];
    if (presets.includes(preset)) answers[question] = oneOf(choices, question, usual);
    else if ((asked.get(question) ?? usual) !== usual) {
      lost.push(`${question}=${asked.get(question)} (the preset ${preset} decides on it)`);
    }
  }
  const wanted = [...new Set((asked.get("tricks") ?? "").split(",").filter(Boolean))];
  const own = history.state?.own ?? null, wishes = preset === "custom" && own ? own.wishes : wanted;
  let read = stateOf({ name: fault ? DEFAULTS.name : name, preset, own, wishes, ...answers });
  for (const trick of wanted.filter((one) => !read.tricks.includes(one))) {
    lost.push(`${trick} (${listable.includes(trick) ? obstacle(trick, read) : "not in this version"})`);
  }
  const linesOf = asked.get("lines") ?? "";
  if (byName.has(linesOf)) read = including(linesOf, read);
  else if (linesOf) lost.push(`the lines of ${linesOf} (not in this version)`);
  const page = asked.get("page") ?? "";
  if (page && !byName.has(page)) lost.push(`the page of ${page} (not in this version)`);
  return { read, lost, file: asked.get("file"), page: byName.has(page) ? page : "", lines: byName.has(linesOf) ? linesOf : "" };
}

/** Writes the address, and what it does not hold into the history: as a new entry, or in place of the newest. */
function remember(push) {
  const { name, preset, tricks, own } = state;
  const asked = new URLSearchParams({ name, preset, ...Object.fromEntries(answersTo(data, state)) });
  if (preset === "custom") asked.set("tricks", tricks.join(","));
  if (view.lines) asked.set("lines", view.about);
  asked.set("file", open);
  if (reading) asked.set("page", reading);
  const address = `#${asked}`.replaceAll("%2C", ",").replaceAll("%2F", "/");
  const entry = { ...view, own }, moved = address !== location.hash || view.pane !== history.state?.pane;
  if (moved || JSON.stringify(entry) !== JSON.stringify(history.state)) {
    history[push && moved ? "pushState" : "replaceState"](entry, "", address);
  }
  const part = reading ? `Handbook: ${byName.get(reading).title}` : !isNarrow() || view.pane === FORM ? ""
    : view.pane === "code" ? open : element(view.pane).ariaLabel;
  const parts = [part, view.than ? subject() : preset, name];
  document.title = `${parts.filter(Boolean).join(" – ")} – torch-tricks`;
}

// ---- What a choice leads to

/** Takes a state, and compares it with another: the one before, unless told otherwise. */
function take(next, { about = "", than = state, lines = false, file, push = true } = {}) {
  view = { ...view, than: than && { ...than, name: next.name }, about, lines };
  state = next;
  unfolded.clear();
  project = render(data, state);
  const old = than ? render(data, view.than) : project;
  if (lines) old.files.set(ANSWERS, project.files.get(ANSWERS));
  changes = new Map();
  for (const path of new Set([...project.files.keys(), ...old.files.keys()])) {
    const sides = [old.files.get(path), project.files.get(path)];
    const compared = areEqual(...sides) ? [] : compare(...sides);
    const count = (sign) => compared.filter((line) => line.sign === sign).length;
    changes.set(path, { sides, added: count("+"), removed: count("-"), choice: old.choice });
  }
  const changed = [...changes.keys()].filter(isChanged);
  const shown = changes.has(file) ? file : fileToShow(changed);
  [open, held] = [shown, held && shown === open];
  remember(push);
  // All is written before anything is measured: a layout takes as long as the rest.
  inPlace(() => {
    showForm();
    showFiles();
    showCode();
  });
  findOpenFile();
  scrollToChange();
  say(changed.length);
}

/** The file that a reader has chosen if it changed, or else the first to read of those that did. */
function fileToShow(changed) {
  const isNew = (path) => !changes.get(path).sides[0];
  // The task of a project is its file of this name.
  const own = byName.has(view.about) ? "" : `${packageName(data, state.name)}/${view.about}.py`;
  // Before files that it shares with other tricks.
  const isNamed = (path) => `/${path}`.endsWith(`/${view.about}.py`);
  const first = (path) => path === own ? -1 : path === "train.py" ? 0 : path.startsWith("tests/") ? 5
    : !path.endsWith(".py") ? 4 : !isNew(path) ? 3 : isNamed(path) ? 1 : 2;
  const others = changed.filter((path) => path !== ANSWERS).sort((a, b) => first(a) - first(b));
  if (others.length && (first(others[0]) < 0 || !(held && changed.includes(open)))) return others[0];
  return changes.has(open) ? open : DEFAULTS.file;
}

const isChanged = (path) => changes.get(path).added + changes.get(path).removed > 0;

const numbered = (count, unit) => `${count.toLocaleString("en")} ${unit}${count === 1 ? "" : "s"}`;

/** Says what the last choice changed. */
function say(files) {
  const status = element("status");
  if (!view.than) return (status.textContent = HELLO);
  const sum = (entry) => [...changes.values()].reduce((total, change) => total + change[entry], 0);
  const spans = [["plus", "added"], ["minus", "removed"]].filter(([, entry]) => sum(entry))
    .map(([kind, entry]) => `<span class="${kind}">${numbered(sum(entry), "line")} ${entry}</span>`);
  status.innerHTML = `${escaped(subject())}: ${files ? `${spans.join(", ")}, in ${numbered(files, "file")}` : "no lines changed"}`;
}

/** What the last choice was about. */
function subject() {
  const { about, lines } = view;
  if (lines) return `Lines of ${about}`;
  if (about in state) return `${about}=${state[about]}`;
  return byName.has(about) && !state.tricks.includes(about) ? `Without ${about}` : about || "This choice";
}

function toggle(name) {
  const reason = obstacle(name, state);
  if (reason) return refuse(`${name}: ${reason}`);
  const { tricks } = state;
  take(custom(state, tricks.includes(name) ? tricks.filter((one) => one !== name) : [...tricks, name]), { about: name });
}

/** Takes an answer, and leaves out the tricks that do not work with it. */
function answer({ name, asked }, choice) {
  const preset = asked.includes(state.preset) ? state.preset : "custom";
  take(stateOf({ ...state, preset, wishes: wishesIn(state), [name]: choice }), { about: name });
}

/** The tricks that an answer leaves out of those that are wished for, or that there were before. */
function leftOut({ name }) {
  const before = view.about === name && view.than ? view.than.tricks : [];
  const wishes = state.preset === "custom" ? wishesIn(state) : [];
  return listable.filter((trick) => [...before, ...wishes].includes(trick) && !state.tricks.includes(trick)
    && against(byName.get(trick), state).some(([question]) => question === name));
}

function refuse(reason) {
  showForm();
  element("status").textContent = reason;
}

// ---- The form, which is made once

function makeForm() {
  if (location.protocol === "file:") document.querySelector("h1 a").removeAttribute("href");
  element("version").textContent = `template ${data.version}`;
  makeSegments("presets", Object.keys(data.presets), (preset) =>
    take(stateOf({ ...state, wishes: state.tricks, ...(preset === "custom" && state.own), preset }), { about: "preset" }));
  for (const question of data.questions) {
    const { name, choices, examples } = question;
    const trick = byName.get(name);
    const legend = trick ? `<h2>${escaped(trick.title)}</h2> ${linesButton(name)}${linkTo(name)}`
      : `<h2>${name[0].toUpperCase() + name.slice(1)}</h2>`;
    element(trick ? "questions" : "first").insertAdjacentHTML("beforeend",
      `<fieldset id="${name}" class="segments"><legend>${legend}</legend></fieldset>`);
    makeSegments(name, Object.keys(choices), (choice) => answer(question, choice), examples);
    element(name).insertAdjacentHTML("beforeend", `<p class="left" aria-live="polite" hidden><span></span> <button type="button">Undo</button></p>`);
    element(name).querySelector(".left button").addEventListener("click", () => {
      element(name).querySelector(`[value="${view.than[name]}"]`).focus();
      take(view.than, { about: name });
    });
  }
  const groups = grouped(listable.map((name) => byName.get(name)), (trick) => trick.group);
  element("groups").innerHTML = groups.map(([group, tricks]) =>
    `<fieldset class="group"><legend><h2>${escaped(group)}</h2></legend>${tricks.map(rowOf).join("")}</fieldset>`).join("");
  element("groups").addEventListener("change", ({ target }) => toggle(target.value));
  element("starts").lastElementChild.innerHTML = data.starts.map(({ title }, place) =>
    `<button type="button" data-start="${place}">${escaped(title)}</button>`).join("");
  element("name").addEventListener("input", () => {
    const name = element("name").value.trim();
    view = { ...view, typed: element("name").value };
    if (nameFault(data, name)) remember(false);
    else rename(name);
    showName(name);
  });
  element("filter").addEventListener("input", () => {
    view = { ...view, filter: element("filter").value };
    remember(false);
    showFiltered();
  });
  element("tricks").addEventListener("submit", (event) => event.preventDefault());
}

/** Takes another name, with the same file open and the same lines marked. */
function rename(name) {
  const [room, next] = [state.name, name].map((one) => `${packageName(data, one)}/`);
  if (open.startsWith(room)) open = next + open.slice(room.length);
  take({ ...state, name }, { ...view, file: open, push: false });
}

/** Compares the project with what it would be without a trick. */
function showLinesOf(name, button) {
  view = { ...view, only: true, pane: "code" };
  take(state, { about: name, than: without(name, state), lines: true });
  goToCode(button);
}

/** Takes what a situation asks for, beside what is recommended. */
function start({ title, answers, with: taken, without: left }) {
  const isWanted = (name) => taken.includes(name) || (byName.get(name).presets.includes(DEFAULTS.preset) && !left.includes(name));
  take(stateOf({ ...state, ...answers, preset: "custom", wishes: listable.filter(isWanted) }), { about: title });
}

/** Lists of items by what they have in common, in the order in which that comes first. */
function grouped(items, common) {
  const groups = new Map();
  for (const item of items) groups.set(common(item), [...(groups.get(common(item)) ?? []), item]);
  return [...groups];
}

function makeSegments(id, values, choose, examples = {}) {
  const example = (value) => (examples[value] ? `<small>${escaped(examples[value])}</small>` : "");
  const labels = values.map((value) => `<label><input type="radio" name="${id}" value="${value}"`
    + ` aria-describedby="${id}-note">${value}${example(value)}</label>`);
  element(id).insertAdjacentHTML("beforeend", `<div>${labels.join("")}</div><p id="${id}-note" class="note"></p>`);
  element(id).addEventListener("change", ({ target }) => choose(target.value));
}

/** The name of a trick, which opens its page of the handbook. */
const linkTo = (name) =>
  `<button type="button" class="page" data-page="${name}" aria-label="Handbook page of ${name}">`
  + `${name.replaceAll("_", "_<wbr>")}</button>`;

const linesButton = (name) =>
  `<button type="button" class="lines-of" data-lines="${name}" aria-label="its lines: ${name}">its lines</button>`;

function rowOf({ name, title, buys, wants }) {
  return `<div class="trick">
    <input type="checkbox" id="t-${name}" value="${name}" aria-describedby="b-${name} w-${name}">
    <label for="t-${name}">${escaped(title)}</label>${linkTo(name)}
    <p class="what"><span id="b-${name}">${escaped(buys)}${wants ? `. <em>Requires ${escaped(wants)}</em>` : ""}</span>
      ${linesButton(name)}</p>
    <p class="why-not" id="w-${name}"></p>
  </div>`;
}

/** Runs what changes the form, and keeps the control in use where it is on the screen. */
function inPlace(change) {
  const top = () => document.activeElement.getBoundingClientRect().top;
  const before = top();
  change();
  if (element("tricks").contains(document.activeElement)) element("tricks").scrollTop += top() - before;
}

function showForm() {
  for (const input of document.querySelectorAll("#presets input")) input.checked = input.value === state.preset;
  element("presets-note").textContent = `${data.presets[state.preset]}.`;
  for (const question of data.questions) {
    const { name, choices } = question, left = leftOut(question);
    for (const input of document.querySelectorAll(`#${name} input`)) input.checked = input.value === state[name];
    const wants = state[name] === "none" ? "" : byName.get(name)?.wants;
    element(`${name}-note`).textContent = `${choices[state[name]]}.${wants ? ` Requires ${wants}.` : ""}`;
    const line = element(name).querySelector(".left");
    line.hidden = left.length === 0;
    line.firstElementChild.textContent = `Left out with ${name}=${state[name]}: ${left.join(", ")}.`;
    line.lastElementChild.hidden = view.about !== name || view.than === null;
  }
  for (const name of listable) showRow(name);
  for (const button of document.querySelectorAll("[data-lines]")) {
    const name = button.dataset.lines;
    button.hidden = byName.get(name)?.choices ? state[name] === "none" : !state.tricks.includes(name);
  }
  const { ours, theirs } = commandsOf(data, state);
  const folder = packageName(data, state.name).replaceAll("_", "-");
  const train = ["ddp", "fsdp"].includes(state.parallel) ? "torchrun --standalone --nproc-per-node 2 train.py" : "python train.py";
  element("install").textContent = `pipx install git+https://github.com/${data.published.replace("gh:", "")}`;
  element("ours").textContent = ours;
  element("theirs").textContent = theirs;
  element("then").textContent = `cd ${folder} && pip install -e ".[dev]" && ${train}`;
}

/** Shows a row as free, locked, unfit or with advice, and the way out of what it refuses. */
function showRow(name) {
  const input = element(`t-${name}`), trick = byName.get(name), ticked = state.tricks.includes(name);
  const reason = obstacle(name, state);
  const [missing] = ticked ? (trick.goes_with ?? []).filter((other) => !state.tricks.includes(other)) : [];
  input.parentElement.dataset.look = reason ? (ticked ? "locked" : "unfit") : missing ? "advice" : "free";
  input.checked = ticked;
  input.setAttribute("aria-disabled", reason !== "");
  const [text, way, words] = reason ? [reason, name, wordsFor(name, wayOut(name, state))]
    : missing ? [`works best with ${missing}`, missing, obstacle(missing, state) ? "" : `Tick ${missing}, too`]
    : ["", name, ""];
  const html = escaped(text) + (words && ` <button type="button" data-way="${way}">${escaped(words)}</button>`);
  if (element(`w-${name}`).innerHTML !== html) element(`w-${name}`).innerHTML = html;
}

/** Hides the rows that do not have all words of the filter. */
function showFiltered() {
  const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const name of listable) {
    const { title, buys, group, wants = "", keywords = [] } = byName.get(name);
    const text = [name, title, buys, group, wants, ...keywords].join(" ").toLowerCase();
    const isFound = words.every((word) => text.includes(word));
    element(`t-${name}`).parentElement.hidden = !isFound;
    found += isFound;
  }
  for (const group of document.querySelectorAll(".group")) group.hidden = !group.querySelector(".trick:not([hidden])");
  element("found").textContent = words.length ? `${found} of ${numbered(listable.length, "trick")}` : "";
}

function showName(name) {
  const fault = nameFault(data, name);
  element("name").setAttribute("aria-invalid", fault !== "");
  element("name-note").textContent =
    fault ? `${fault} Until then it is ${state.name}.` : `package ${packageName(data, name)}`;
}

// ---- Files and code

function showFiles() {
  const imported = packageName(data, state.name);
  const rooms = grouped([...changes.keys()].sort(), (path) => path.slice(0, path.lastIndexOf("/") + 1));
  const rank = (room) => (room === "" ? 0 : room.startsWith(imported) ? 1 : room.startsWith(".") ? 3 : 2);
  rooms.sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1));
  element("tree").innerHTML = rooms.map(([room, paths]) => {
    const same = paths.some(isChanged) ? "" : "same";
    const files = paths.map((path) => fileRow(path, room)).join("");
    return `<div class="${room ? "" : "top"} ${same}">${room ? `<h3>${room}</h3>` : ""}<ul>${files}</ul></div>`;
  }).join("");
  const lines = [...project.files.values()].reduce((total, file) => total + linesOf(textOf(file)).length, 0);
  element("total").textContent = `${numbered(project.files.size, "file")}, ${numbered(lines, "line")}`;
}

function fileRow(path, room) {
  const kind = `${isChanged(path) ? "" : "same"} ${project.files.has(path) ? "" : "gone"}`;
  return `<li class="${kind}"><button type="button" data-file="${path}" aria-current="${path === open}">
    <span>${path.slice(room.length)}</span>${counts(changes.get(path))}</button></li>`;
}

/** Brings the file that is open into sight in its list. */
const findOpenFile = () => element("tree").querySelector("[aria-current=true]").scrollIntoView({ block: "nearest" });

const counts = ({ added, removed }) =>
  [["plus", "+", added, "added"], ["minus", "−", removed, "removed"]].map(([kind, sign, count, what]) => count
    ? `<span class="${kind}">${sign}${count}<span class="unseen"> line${count === 1 ? "" : "s"} ${what}</span></span>` : "").join("");

function showCode() {
  const change = changes.get(open);
  const { about, than } = view, only = view.only && than !== null;
  document.body.classList.toggle("only-changed", only);
  [element("only").checked, element("only").disabled] = [view.only, than === null];
  element("only-label").lastElementChild.textContent =
    state.tricks.includes(about) ? `Only what ${about} adds` : "Only what changed";
  element("path").textContent = open;
  element("change").innerHTML = counts(change);
  const lines = codeLines(change);
  const rows = only ? foldedRows(lines) : lines.map((line, place) => lineRow(line, lines[place - 1]));
  element("lines").innerHTML = rows.join("") || '<li class="empty">This file is empty.</li>';
  const widest = Math.max(0, ...lines.map((line) => line.why.length));
  element("lines").style.setProperty("--why", `${Math.min(widest, 20)}ch`);
}

/** The lines of a file and those that it lost, in HTML, each with its number and its tricks. */
function codeLines({ sides, choice }) {
  const [old, now] = sides.map((file) => (file ? highlighted(textOf(file), open) : []));
  let i = 0, j = 0;
  return compare(...sides).map(({ sign, block }) => {
    const html = sign === "-" ? old[i] : now[j];
    if (sign !== "+") i++;
    if (sign !== "-") j++;
    const causes = causesOf(data, block, sign === "-" ? choice : project.choice);
    const why = causes.length > 2 ? `${causes[0]} +${causes.length - 1}` : causes.join(", ");
    return { sign, html, number: sign === "-" ? "" : j, why, title: causes.join(", ") };
  });
}

/** The lines around changes, and a button for each gap between them. */
function foldedRows(lines) {
  const near = nearChanges(lines), rows = [];
  const isShown = (place) => near.has(place) || unfolded.has(place);
  for (let place = 0; place < lines.length; ) {
    const from = place;
    while (place < lines.length && !isShown(place)) place++;
    if (place > from) rows.push(foldRow(from, place - from));
    for (let first = true; place < lines.length && isShown(place); place++, first = false) {
      rows.push(lineRow(lines[place], first ? undefined : lines[place - 1]));
    }
  }
  return rows;
}

const foldRow = (from, count) =>
  `<li class="fold"><button type="button" data-from="${from}" data-count="${count}">`
  + `${numbered(count, "line")} as before</button></li>`;

const SIGNS = { "+": ["added", "ins", "+"], "-": ["removed", "del", "−"], " ": ["", "span", ""] };

/** A line; its trick is named if the line above has another one. */
function lineRow({ sign, html, number, why, title }, above) {
  const [kind, tag, mark] = SIGNS[sign];
  return `<li class="${kind}${why ? " due" : ""}">`
    + `<span class="why" title="${title}">${why === above?.why ? "" : why}</span>`
    + `<span class="number" data-n="${number}"></span><span class="sign" aria-hidden="true">${mark}</span>`
    + `<${tag}>${html || " "}</${tag}></li>`;
}

/** The places of lines that changed, and of those around them. */
function nearChanges(lines) {
  const near = new Set();
  for (const [index, { sign }] of lines.entries()) {
    for (let place = index - CONTEXT; sign !== " " && place <= index + CONTEXT; place++) near.add(place);
  }
  return near;
}

function scrollToChange() {
  const first = element("lines").querySelector(".added, .removed");
  if (first && isChanged(open)) element("scroll").scrollTop = Math.max(0, first.offsetTop - 90);
  else if (!view.than) element("scroll").scrollTop = 0;
}

// ---- The handbook, beside the code

/** Shows the page of a trick, or none. */
function showPage(name) {
  reading = name;
  element("handbook").hidden = !name;
  document.body.classList.toggle("reading", name !== "");
  // The handbook comes last, so that nothing else waits for it.
  if (!name || document.readyState === "loading") return;
  findOpenFile();
  pages ??= JSON.parse(element("pages").textContent);
  element("page").innerHTML = pages[name];
  for (const code of element("page").querySelectorAll("pre > .language-python")) {
    code.innerHTML = highlighted(code.textContent, "a.py").join("\n");
  }
  element("page").scrollTop = 0;
  element("page-lines").dataset.lines = name;
  // A page opened as a file has no site around it.
  for (const link of element("handbook").querySelectorAll("a:not([href^=https])")) {
    if (link === element("elsewhere")) link.href = data.handbook.replace("NAME", name);
    if (location.protocol === "file:") link.removeAttribute("href");
  }
}

function openPage(name) {
  showPage(name);
  showPane("handbook", true);
  element("page").focus();
}

function closePage() {
  const name = reading;
  showPage("");
  showPane(FORM, true);
  document.querySelector(`#tricks [data-page="${name}"]`).focus();
}

// ---- The rest of the page

async function copy(text, button) {
  const name = button.dataset.name ??= button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure address there is no clipboard but that of the selection.
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    button.focus();
    if (!isCopied) return refuse("Select it and copy it yourself.");
  }
  button.textContent = "Copied";
  element("status").textContent = `${button.ariaLabel ?? name}: done.`;
  setTimeout(() => (button.textContent = name), 1500);
}

function download() {
  const folder = packageName(data, state.name).replaceAll("_", "-");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(zip(folder, project.files));
  link.download = `${folder}.zip`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  element("status").innerHTML = `Next: <code>unzip ${folder}.zip && ${escaped(element("then").textContent)}</code>`;
}

const isNarrow = () => matchMedia("(max-width: 1100px)").matches;

/** Shows one part of the page where there is no room for all: an entry of the history, if it is chosen. */
function showPane(name, push) {
  view = { ...view, pane: name };
  document.body.dataset.pane = name;
  for (const tab of document.querySelectorAll("[data-tab]")) tab.setAttribute("aria-pressed", tab.dataset.tab === name);
  if (state) remember(push);
  if (name === "code") scrollToChange();
}

/** Leads to the code, from which Escape returns to the button that was pressed. */
function goToCode(button) {
  opener = button;
  showPane("code", isNarrow());
  element("scroll").focus({ preventScroll: true });
}

function showFile(file, button) {
  [open, held] = [file, true];
  for (const other of document.querySelectorAll("[data-file]")) other.setAttribute("aria-current", other === button);
  unfolded.clear();
  showCode();
  element("scroll").scrollTop = 0;
  scrollToChange();
  if (isNarrow()) goToCode(button);
  else remember(false);
}

/** Shows the lines of a fold, of which the first is then in focus. */
function unfold({ from, count }, row) {
  const place = [...row.parentElement.children].indexOf(row), { scrollTop } = element("scroll");
  for (let line = 0; line < Number(count); line++) unfolded.add(Number(from) + line);
  showCode();
  const first = element("lines").children[place];
  first.tabIndex = -1;
  first.focus({ preventScroll: true });
  element("scroll").scrollTop = scrollTop;
}

const ACTIONS = {
  file: showFile,
  from: (_, button) => unfold(button.dataset, button.parentElement),
  tab(pane) {
    showPage("");
    showPane(pane, true);
  },
  page: openPage,
  lines: showLinesOf,
  start: (place) => start(data.starts[place]),
  copy: (id, button) => copy(id === "link" ? location.href : element(id).textContent, button),
  way(name, button) {
    button.closest(".trick").querySelector("input").focus();
    take(wayOut(name, state), { about: name });
  },
  skip(id) {
    showPane(id, isNarrow());
    element(id).focus();
  },
};
document.addEventListener("click", (event) => {
  const button = event.target.closest("button, [data-skip]");
  if (!button) return;
  if (button.id === "close") closePage();
  else if (button.id === "download") download();
  const action = Object.keys(ACTIONS).find((name) => name in button.dataset);
  if (!action) return;
  event.preventDefault();
  ACTIONS[action](button.dataset[action], button);
});
document.addEventListener("keydown", ({ key, target }) => {
  // There it empties the field.
  if (key !== "Escape" || target === element("filter")) return;
  if (opener && element("code").contains(target)) {
    showPane(element("files").contains(opener) ? "files" : FORM, isNarrow());
    opener.focus();
  } else if (reading) closePage();
});
element("only").addEventListener("change", ({ target }) => {
  view = { ...view, only: target.checked };
  remember(false);
  showCode();
});

/** Takes the choice of the address and what the history has of it, and says what cannot be had. */
function follow(than) {
  const { read, lost, file, page, lines } = readAddress();
  view = { ...FRESH, than, ...(lines && { only: true, pane: "code" }), ...(page && { pane: "handbook" }), ...history.state };
  showPage(page);
  element("name").value = view.typed ?? read.name;
  element("filter").value = view.filter;
  [open, held] = [file ?? DEFAULTS.file, (file ?? DEFAULTS.file) !== DEFAULTS.file];
  take(read, {
    ...view, file: file ?? (lines ? undefined : DEFAULTS.file), push: false,
    ...(lines && { about: lines, than: without(lines, read), lines: true }),
  });
  showPane(view.pane, false);
  showName(element("name").value.trim());
  showFiltered();
  if (file && !changes.has(file)) lost.push(`${file} (no file of this project)`);
  if (lost.length) element("status").textContent = `The address also asks for ${lost.join(", ")}.`;
}

window.addEventListener("popstate", () => follow(state));
document.addEventListener("DOMContentLoaded", () => showPage(reading));

makeForm();
follow(null);
