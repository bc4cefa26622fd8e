// The page: a choice in its address, a form for it, and the project that render.js makes of it.

const data = JSON.parse(document.getElementById("data").textContent);
const byName = new Map(data.tricks.map((trick) => [trick.name, trick]));
const listable = data.tricks.filter((trick) => !trick.choices).map((trick) => trick.name);
const element = (id) => document.getElementById(id);
const DEFAULTS = { name: "Leaf Diseases", preset: "recommended", file: "train.py" };
const ANSWERS = ".copier-answers.yml";
const CONTEXT = 3;

let state; // The name, the preset, the answers to questions with choices, and the tricks that are ticked.
let before = null; // The state that the project is compared with.
let about = ""; // The trick that this is about, if it is one.
let open = DEFAULTS.file;
let reading = ""; // The trick whose page of the handbook is shown.
let pages; // All of them, in HTML, once one was wanted.
let held = false; // Whether a reader has chosen the file that is open.
let sameAnswers = false; // Whether the answers file is taken as unchanged.
let project, changes; // The files now, and of each the lines with what became of them.
const unfolded = new Set();

// ---- Choices

/** The state of a preset, with answers to what it asks: what it holds is ticked. */
function presetState(name, preset, answers = state) {
  const { chosen, ...choice } = ofPreset(data, preset, answers);
  return { name, ...choice, tricks: listable.filter((trick) => chosen.has(trick)) };
}

/** Why a trick cannot be ticked, or unticked, as copier.yml would refuse it; or an empty text. */
function obstacle(name, answers) {
  const { tricks } = answers;
  const trick = byName.get(name), has = (other) => tricks.includes(other);
  const others = (entry) => listable.filter((other) => has(other) && byName.get(other)[entry]?.includes(name));
  if (has(name)) {
    const needing = others("needs");
    return needing.length ? `${needing.join(" and ")} needs it` : "";
  }
  const [bound] = against(trick, answers);
  if (bound) return `needs ${bound[0]} to be ${bound[1].join(" or ")}`;
  const missing = (trick.needs ?? []).filter((other) => !has(other));
  if (missing.length) return `needs ${missing.join(" and ")}`;
  const excluded = [...(trick.excludes ?? []).filter(has), ...others("excludes")];
  return excluded.length ? `does not go with ${excluded.join(" and ")}` : "";
}

/** The preset after an answer to a question, which it may follow. */
const presetAfter = ({ asked }) => asked.includes(state.preset) ? state.preset : "custom";

/** The ticked tricks because of which a question cannot have a choice. */
const barring = (question, choice) => presetAfter(question) !== "custom" ? [] : state.tricks.filter((name) =>
  !(byName.get(name).works_with?.[question.name] ?? [choice]).includes(choice));

/** The state that an address stands for, less what does not exist or go together. */
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const name = (asked.get("name") ?? DEFAULTS.name).trim(), lost = [];
  const oneOf = (options, entry, instead) => {
    const wanted = asked.get(entry) ?? instead;
    if (Object.hasOwn(options, wanted)) return wanted;
    lost.push(`${entry}=${wanted} (not in this version)`);
    return instead;
  };
  if (nameFault(data, name)) lost.push("a name that cannot be used");
  const preset = oneOf(data.presets, "preset", DEFAULTS.preset);
  const answers = {};
  for (const question of data.questions.filter(({ asked }) => asked.includes(preset))) {
    answers[question.name] = oneOf(question.choices, question.name, question.defaults[preset]);
  }
  const read = presetState(nameFault(data, name) ? DEFAULTS.name : name, preset, answers);
  if (preset === "custom") {
    const wanted = (asked.get("tricks") ?? "").split(",").filter(Boolean);
    read.tricks = listable.filter((trick) => wanted.includes(trick));
    // A trick that goes may take another with it.
    for (let count = -1; count !== read.tricks.length; ) {
      count = read.tricks.length;
      read.tricks = read.tricks.filter((trick) =>
        !obstacle(trick, { ...read, tricks: read.tricks.filter((other) => other !== trick) }));
    }
    for (const trick of wanted.filter((one) => !read.tricks.includes(one))) {
      lost.push(`${trick} (${listable.includes(trick) ? obstacle(trick, read) : "not in this version"})`);
    }
  }
  return { read, file: asked.get("file") ?? DEFAULTS.file, page: asked.get("page") ?? "", lost };
}

function writeAddress(push) {
  const { name, preset, tricks } = state;
  const asked = new URLSearchParams({ name, preset, ...Object.fromEntries(answersTo(data, state)) });
  if (preset === "custom") asked.set("tricks", tricks.join(","));
  asked.set("file", open);
  if (reading) asked.set("page", reading);
  const address = `#${asked}`.replaceAll("%2C", ",").replaceAll("%2F", "/");
  if (address !== location.hash) history[push ? "pushState" : "replaceState"](null, "", address);
}

// ---- What a choice leads to

/** Takes a state, and compares it with another: the one before, unless told otherwise. */
function take(next, { trick = "", than = state, push = true, same = false } = {}) {
  const renamed = than && { ...than, name: next.name };
  [state, before, about, sameAnswers] = [next, renamed, trick, same];
  unfolded.clear();
  project = render(data, state);
  const old = before ? render(data, before) : project;
  if (sameAnswers) old.files.set(ANSWERS, project.files.get(ANSWERS));
  changes = new Map();
  for (const path of new Set([...project.files.keys(), ...old.files.keys()])) {
    const sides = [old.files.get(path), project.files.get(path)];
    const lines = areEqual(...sides) ? [] : compare(...sides);
    const count = (sign) => lines.filter((line) => line.sign === sign).length;
    changes.set(path, { sides, added: count("+"), removed: count("-"), choice: old.choice });
  }
  const changed = [...changes.keys()].filter(isChanged);
  const shown = fileToShow(changed);
  [open, held] = [shown, held && shown === open];
  writeAddress(push);
  showForm();
  showFiles();
  showCode();
  scrollToChange();
  say(changed.length);
}

/** The file that a reader has chosen if it changed, or else the first to read of those that did. */
function fileToShow(changed) {
  const isNew = (path) => !changes.get(path).sides[0];
  const first = (path) => path === "train.py" ? 0 : path.startsWith("tests/") ? 4 : !path.endsWith(".py") ? 3
    : isNew(path) ? 1 : 2;
  const others = changed.filter((path) => path !== ANSWERS).sort((a, b) => first(a) - first(b));
  if (others.length && !(held && changed.includes(open))) return others[0];
  return changes.has(open) ? open : DEFAULTS.file;
}

const isChanged = (path) => changes.get(path).added + changes.get(path).removed > 0;

/** Says what the last choice changed. */
function say(files) {
  if (!before) return;
  const sum = (entry) => [...changes.values()].reduce((total, change) => total + change[entry], 0);
  const [added, removed] = [sum("added"), sum("removed")];
  element("status").innerHTML = files === 0 ? `${subject()}: no lines changed`
    : `${subject()}: <span class="plus">${added} lines added</span>, <span class="minus">${removed} removed</span>, `
      + `in ${files} ${files === 1 ? "file" : "files"}`;
}

/** What the last choice was about. */
function subject() {
  if (!about) return "This choice";
  if (about in state) return `${about}=${state[about]}`;
  return state.tricks.includes(about) ? about : `Without ${about}`;
}

function toggle(name) {
  const reason = obstacle(name, state);
  if (reason) return refuse(`${name}: ${reason}`);
  const tricks = listable.filter((other) => (other === name) !== state.tricks.includes(other));
  take({ ...state, preset: "custom", tricks }, { trick: name });
}

function answer(question, choice) {
  const { name } = question, others = barring(question, choice);
  if (others.length) return refuse(`${name}=${choice} does not go with ${others.join(" and ")}`);
  const preset = presetAfter(question), next = { ...state, preset, [name]: choice };
  take(preset === "custom" ? next : presetState(state.name, preset, next), { trick: name });
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
    take(preset === "custom" ? { ...state, preset } : presetState(state.name, preset)));
  for (const question of data.questions) {
    const { name, choices } = question;
    const trick = byName.get(name);
    const legend = trick ? escaped(trick.title) + linkTo(name) : name[0].toUpperCase() + name.slice(1);
    element(trick ? "questions" : "first").insertAdjacentHTML("beforeend",
      `<fieldset id="${name}" class="segments"><legend>${legend}</legend></fieldset>`);
    makeSegments(name, Object.keys(choices), (choice) => answer(question, choice));
  }
  const groups = grouped(listable.map((name) => byName.get(name)), (trick) => trick.group);
  element("groups").innerHTML = groups.map(([group, tricks]) =>
    `<fieldset class="group"><legend>${escaped(group)}</legend>${tricks.map(rowOf).join("")}</fieldset>`).join("");
  element("groups").addEventListener("change", ({ target }) => toggle(target.value));
  element("groups").addEventListener("click", ({ target }) => {
    const name = target.dataset.lines;
    if (name) showLinesOf(name);
  });
  element("name").addEventListener("input", () => {
    const name = element("name").value.trim();
    if (!nameFault(data, name)) rename(name);
    showName(name);
  });
  element("tricks").addEventListener("submit", (event) => event.preventDefault());
}

/** Takes another name, with the same file open and the same lines marked. */
function rename(name) {
  const [room, next] = [state.name, name].map((one) => `${packageName(data, one)}/`);
  if (open.startsWith(room)) open = next + open.slice(room.length);
  take({ ...state, name }, { trick: about, than: before, push: false, same: sameAnswers });
}

/** Compares the project with what it would be without a trick. */
function showLinesOf(name) {
  const tricks = state.tricks.filter((other) => other !== name);
  element("only").checked = true;
  take(state, { trick: name, than: { ...state, preset: "custom", tricks }, same: true });
  if (isNarrow()) showPaneOfCode();
}

/** Lists of items by what they have in common, in the order in which that comes first. */
function grouped(items, common) {
  const groups = new Map();
  for (const item of items) groups.set(common(item), [...(groups.get(common(item)) ?? []), item]);
  return [...groups];
}

function makeSegments(id, values, choose) {
  const labels = values.map((value) =>
    `<label><input type="radio" name="${id}" value="${value}" aria-describedby="${id}-note">${value}</label>`);
  element(id).insertAdjacentHTML("beforeend", `<div>${labels.join("")}</div><p id="${id}-note" class="note"></p>`);
  element(id).addEventListener("change", ({ target }) => choose(target.value));
}

/** The name of a trick, which opens its page of the handbook. */
const linkTo = (name) =>
  `<button type="button" class="page" data-page="${name}" aria-label="Handbook page of ${name}">`
  + `${name.replaceAll("_", "_<wbr>")}</button>`;

function rowOf({ name, title, buys }) {
  return `<div class="trick">
    <input type="checkbox" id="t-${name}" value="${name}" aria-describedby="b-${name} w-${name}">
    <label for="t-${name}">${escaped(title)}</label>${linkTo(name)}
    <p class="what"><span id="b-${name}">${escaped(buys)}</span>
      <button type="button" class="lines-of" data-lines="${name}" aria-label="its lines: ${name}">its lines</button></p>
    <p class="why-not" id="w-${name}"></p>
  </div>`;
}

function showForm() {
  for (const input of document.querySelectorAll("#presets input")) input.checked = input.value === state.preset;
  element("presets-note").textContent = data.presets[state.preset];
  for (const question of data.questions) {
    const { name, choices } = question, barred = [];
    for (const input of document.querySelectorAll(`#${name} input`)) {
      const others = barring(question, input.value);
      input.checked = input.value === state[name];
      input.setAttribute("aria-disabled", others.length > 0);
      if (others.length) barred.push(`${input.value} does not go with ${others.join(" and ")}.`);
    }
    element(`${name}-note`).textContent = [`${choices[state[name]]}.`, ...barred].join(" ");
  }
  for (const name of listable) {
    const input = element(`t-${name}`), trick = byName.get(name), ticked = state.tricks.includes(name);
    const missing = ticked ? (trick.goes_with ?? []).filter((other) => !state.tricks.includes(other)) : [];
    const reason = obstacle(name, state);
    input.checked = ticked;
    input.setAttribute("aria-disabled", reason !== "");
    element(`w-${name}`).textContent = reason
      || (missing.length ? `wants ${trick.wants}: choose ${missing.join(" and ")}, too` : "");
    document.querySelector(`[data-lines=${name}]`).hidden = !ticked;
  }
  if (document.activeElement !== element("name")) {
    element("name").value = state.name;
    showName(state.name);
  }
  const { ours, theirs } = commandsOf(data, state);
  element("ours").textContent = ours;
  element("theirs").textContent = theirs;
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
    return `<div class="${room ? "" : "top"} ${same}">${room ? `<h2>${room}</h2>` : ""}<ul>${files}</ul></div>`;
  }).join("");
  const lines = [...project.files.values()].reduce((total, file) => total + linesOf(textOf(file)).length, 0);
  element("total").textContent = `${project.files.size} files, ${lines.toLocaleString("en")} lines`;
}

function fileRow(path, room) {
  const kind = `${isChanged(path) ? "" : "same"} ${project.files.has(path) ? "" : "gone"}`;
  return `<li class="${kind}"><button type="button" data-file="${path}" aria-current="${path === open}">
    <span>${path.slice(room.length)}</span>${counts(changes.get(path))}</button></li>`;
}

const counts = ({ added, removed }) =>
  (added ? `<span class="plus">+${added}<span class="unseen"> lines added</span></span>` : "")
  + (removed ? `<span class="minus">−${removed}<span class="unseen"> lines removed</span></span>` : "");

function showCode() {
  const change = changes.get(open);
  const only = element("only").checked && before !== null;
  document.body.classList.toggle("only-changed", only);
  element("only").disabled = before === null;
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
  + `${count} ${count === 1 ? "line" : "lines"} as before</button></li>`;

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
  else if (!before) element("scroll").scrollTop = 0;
}

// ---- The handbook, beside the code

/** Shows the page of a trick, or none. */
function showPage(name) {
  reading = name;
  element("handbook").hidden = !name;
  document.body.classList.toggle("reading", name !== "");
  if (name ? isNarrow() : document.body.dataset.pane === "handbook") showPane(name ? "handbook" : "tricks");
  // The handbook comes last, so that nothing else waits for it.
  if (!name || document.readyState === "loading") return;
  pages ??= JSON.parse(element("pages").textContent);
  element("page").innerHTML = pages[name];
  for (const code of element("page").querySelectorAll("pre > .language-python")) {
    code.innerHTML = highlighted(code.textContent, "a.py").join("\n");
  }
  element("page").scrollTop = 0;
  // A page opened as a file has no site around it.
  for (const link of element("handbook").querySelectorAll("a:not([href^=https])")) {
    if (link === element("elsewhere")) link.href = data.handbook.replace("NAME", name);
    if (location.protocol === "file:") link.removeAttribute("href");
  }
}

function openPage(name) {
  showPage(name);
  writeAddress(true);
  element("page").focus();
}

function closePage() {
  const name = reading;
  showPage("");
  writeAddress(true);
  document.querySelector(`#tricks [data-page="${name}"]`).focus();
}

// ---- The rest of the page

async function copy(id, button) {
  const text = element(id).textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure address there is no clipboard but that of the selection.
    getSelection().selectAllChildren(element(id));
    if (!document.execCommand("copy")) return refuse("Select the command and copy it yourself.");
  }
  button.textContent = "Copied";
  element("status").textContent = "The command is copied.";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function download() {
  const folder = packageName(data, state.name).replaceAll("_", "-");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(zip(folder, project.files));
  link.download = `${folder}.zip`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const isNarrow = () => matchMedia("(max-width: 860px)").matches;

function showPane(name) {
  document.body.dataset.pane = name;
  for (const tab of document.querySelectorAll("[data-tab]")) tab.setAttribute("aria-pressed", tab.dataset.tab === name);
  if (name === "code") scrollToChange();
}

/** Shows the code in place of the button that was pressed, which had the focus. */
function showPaneOfCode() {
  showPane("code");
  element("scroll").focus({ preventScroll: true });
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("button, [data-skip]");
  if (!button) return;
  const { file, from, count, tab, page } = button.dataset;
  if (file) {
    [open, held] = [file, true];
    writeAddress(false);
    for (const other of document.querySelectorAll("[data-file]")) other.setAttribute("aria-current", other === button);
    unfolded.clear();
    showCode();
    element("scroll").scrollTop = 0;
    scrollToChange();
    if (isNarrow()) showPaneOfCode();
  } else if (from) {
    for (let place = 0; place < Number(count); place++) unfolded.add(Number(from) + place);
    showCode();
    element("scroll").focus();
  } else if (page) openPage(page);
  else if (button.id === "close") closePage();
  else if (tab) showPane(tab);
  else if (button.dataset.copy) copy(button.dataset.copy, button);
  else if (button.id === "download") download();
});
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape" && reading) closePage();
});
document.querySelector("[data-skip]").addEventListener("click", (event) => {
  event.preventDefault();
  showPane("code");
  element("code").focus();
});
element("only").addEventListener("change", showCode);

/** Takes the choice of the address, and says what of it cannot be had. */
function follow(than) {
  const { read, file, page, lost } = readAddress();
  [open, held] = [file, file !== DEFAULTS.file];
  showPage(byName.has(page) ? page : "");
  take(read, { than, push: false });
  if (lost.length) element("status").textContent = `The address also asks for ${lost.join(", ")}.`;
}

window.addEventListener("popstate", () => follow(state));
document.addEventListener("DOMContentLoaded", () => showPage(reading));

makeForm();
showPane("tricks");
follow(null);
