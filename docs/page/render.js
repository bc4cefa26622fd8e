"use strict";

// What Copier renders, from the template as data: files as blocks of lines, each with the number
// of a condition. Nothing here knows of a page, so Node can run it, too.

const NAME = /^[A-Za-z0-9._-]([A-Za-z0-9 ._-]{0,58}[A-Za-z0-9._-])?$/;

/** Whether a condition holds for a choice of tricks, and the answers to questions with choices. */
function holds(tree, choice) {
  const [kind, ...parts] = tree;
  switch (kind) {
    case "in": return choice.chosen.has(parts[0]);
    case "==": return choice[parts[0]] === parts[1];
    case "not": return !holds(parts[0], choice);
    case "and": return parts.every((part) => holds(part, choice));
    case "or": return parts.some((part) => holds(part, choice));
  }
  throw new Error(`unknown condition ${kind}`);
}

/** Adds the tricks because of which a condition has this value. */
function addCauses(tree, value, choice, causes) {
  const [kind, ...parts] = tree;
  if (kind === "in") {
    if (value) causes.add(choice[parts[0]] ?? parts[0]);
  } else if (kind === "==") {
    if (value !== (parts[1] === "none")) causes.add(choice[parts[0]]);
  } else if (kind === "not") {
    addCauses(parts[0], !value, choice, causes);
  } else {
    for (const part of parts) {
      if (holds(part, choice) === value) addCauses(part, value, choice, causes);
    }
  }
}

/** The questions whose answers a trick does not go with, each with the choices that it goes with. */
const against = (trick, answers) =>
  Object.entries(trick.bounds).filter(([name, levels]) => name in answers && !levels.includes(answers[name]));

/** The tricks of a preset that go with the answers, or those that are ticked. */
function chosenOf(data, state) {
  const { preset, tricks = [] } = state;
  const has = (trick) => {
    if (trick.choices) return state[trick.name] !== "none";
    if (preset === "custom") return tricks.includes(trick.name);
    return trick.presets.includes(preset) && !against(trick, state).length;
  };
  return new Set(data.tricks.filter(has).map((trick) => trick.name));
}

/** The answers of a state to questions with choices, less those that its preset does not ask. */
const answersTo = (data, state) =>
  data.questions.filter(({ asked }) => asked.includes(state.preset)).map(({ name }) => [name, state[name]]);

/** Those of them that are other ones than the defaults of the preset. */
const changedAnswers = (data, state) => answersTo(data, state).filter(([name, answer]) =>
  data.questions.some((question) => question.name === name && question.defaults[state.preset] !== answer));

/** A preset as a choice, with what it holds, and with the answers of a state to what it asks. */
function ofPreset(data, preset, state = {}) {
  const defaults = data.questions.map((question) => [question.name, question.defaults[preset]]);
  const kept = answersTo(data, { ...state, preset }).filter(([, answer]) => answer);
  const choice = { preset, ...Object.fromEntries([...defaults, ...kept]) };
  return { ...choice, chosen: chosenOf(data, choice) };
}

/** The import name of a project's package, as copier.yml derives it. */
function packageName(data, name) {
  const words = name.toLowerCase().replace(/[^a-z0-9]+/g, "_");
  const short = words.replace(/^[0-9_]+/, "").slice(0, 30).replace(/^_+|_+$/g, "");
  const free = short.replace(/^(test_)+/, "");
  return data.reserved.includes(free) ? `my_${free}` : free || "project";
}

/** Why a project cannot have this name, or an empty text. */
function nameFault(data, name) {
  if (!name) return "Give the project a name.";
  if (name.length > 60) return "Use at most 60 characters.";
  if (!NAME.test(name)) return "Use letters a to z, digits, spaces, dots, hyphens and underscores.";
  const imported = packageName(data, name);
  if (!/^[a-z]/.test(imported)) return `Its package would be ${imported}: let a letter come first.`;
  return "";
}

/** A name as a value in YAML, as PyYAML writes it: quoted if it would be read as anything else. */
function yaml(name) {
  const other = [
    /^(yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF|null|Null|NULL)$/,
    /^-?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$/,
    /^(-?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE]-[0-9]+)?$/,
    /^(-?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$/,
    /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/,
    /^(-( |$)|---|\.\.\.)/,
  ];
  return other.some((pattern) => pattern.test(name)) ? `'${name}'` : name;
}

/** What the answers file holds, in the order of the alphabet. */
function answersOf(data, state, imported) {
  const listed = data.tricks.filter((trick) => !trick.choices && state.tricks.includes(trick.name));
  const list = listed.map((trick) => `\n- ${trick.name}`).join("") || " []";
  const lines = [
    `description: ${data.descriptions[state.task]}\n`,
    `package_name: ${yaml(imported)}\n`,
    `preset: ${state.preset}\n`,
    `project_name: ${yaml(state.name)}\n`,
    ...(state.preset === "custom" ? [`tricks:${list}\n`] : []),
    ...answersTo(data, state).map(([name, answer]) => `${name}: ${answer}\n`),
  ];
  return data.recorded + lines.sort().join("");
}

/**
 * The files of a project by their paths, each with its blocks.
 *
 * A state has the project's name, the preset, the answers to questions with choices, and what is ticked.
 */
function render(data, state) {
  const answers = data.questions.map(({ name }) => [name, state[name]]);
  const choice = { chosen: chosenOf(data, state), ...Object.fromEntries(answers) };
  const values = data.conditions.map((tree) => holds(tree, choice));
  const imported = packageName(data, state.name);
  const names = {
    package_name: imported,
    distribution_name: imported.replaceAll("_", "-"),
    project_name: state.name,
    task: state.task,
    description: data.descriptions[state.task],
    answers: answersOf(data, state, imported),
  };
  const fill = (text) => text.replace(/[\ue000-\uf8ff]/g, (mark) => names[data.names[mark]]);
  const files = new Map();
  for (const [path, mode, parts] of data.files) {
    for (const [place, [whole, blocks]] of parts.entries()) {
      if (!values[whole]) continue;
      const kept = [];
      for (const [index, [condition, text]] of blocks.entries()) {
        if (values[condition]) kept.push({ key: [place, index], conditions: [whole, condition], text: fill(text) });
      }
      files.set(fill(path), { mode, blocks: kept });
    }
  }
  return { files, choice };
}

/** The tricks because of which a block is there. */
function causesOf(data, block, choice) {
  const causes = new Set();
  for (const number of block.conditions) addCauses(data.conditions[number], true, choice, causes);
  return [...causes];
}

const textOf = (file) => file.blocks.map((block) => block.text).join("");

/** Whether two files have the same text. */
function areEqual(one, other) {
  return one?.blocks.length === other?.blocks.length
    && one.blocks.every(({ text }, place) => text === other.blocks[place].text);
}

/** The lines of a text, without their ends. */
const linesOf = (text) => (text ? text.replace(/\n$/, "").split("\n") : []);

/**
 * The lines of a file after a change and those that it took, each with its sign.
 *
 * Blocks that both have are the same lines. Between them, lines that stand on both sides are.
 */
function compare(before, after) {
  const [old, now] = [before?.blocks ?? [], after?.blocks ?? []];
  const result = [], removed = [], added = [];
  const settle = () => result.push(...aligned(removed.splice(0), added.splice(0)));
  const linesIn = (block) => linesOf(block.text).map((text) => ({ text, block }));
  for (let i = 0, j = 0; i < old.length || j < now.length; ) {
    const order = i === old.length ? 1 : j === now.length ? -1
      : old[i].key[0] - now[j].key[0] || old[i].key[1] - now[j].key[1];
    if (order < 0) removed.push(...linesIn(old[i++]));
    else if (order > 0) added.push(...linesIn(now[j++]));
    else if (old[i].text !== now[j].text) {
      removed.push(...linesIn(old[i++]));
      added.push(...linesIn(now[j++]));
    } else {
      settle();
      result.push(...linesIn(now[j]).map((line) => ({ ...line, sign: " " })));
      i++, j++;
    }
  }
  settle();
  return result;
}

/** Merges two lists of lines by their longest common subsequence. */
function aligned(old, now) {
  const longest = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      longest[i][j] = old[i].text === now[j].text
        ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const result = [];
  for (let i = 0, j = 0; i < old.length || j < now.length; ) {
    if (i < old.length && j < now.length && old[i].text === now[j].text) {
      result.push({ ...now[j++], sign: " " });
      i++;
    } else if (j === now.length || (i < old.length && longest[i + 1][j] >= longest[i][j + 1])) {
      result.push({ ...old[i++], sign: "-" });
    } else {
      result.push({ ...now[j++], sign: "+" });
    }
  }
  return result;
}

/** A ZIP file, in which nothing is compressed, with its files in one folder. */
function zip(folder, files, now = new Date()) {
  const encoder = new TextEncoder(), local = [], central = [];
  const date = ((now.getFullYear() - 1980) << 9) | ((now.getMonth() + 1) << 5) | now.getDate();
  const time = (now.getHours() << 11) | (now.getMinutes() << 5) | (now.getSeconds() >> 1);
  let offset = 0, listing = 0;
  for (const [path, file] of files) {
    const name = encoder.encode(`${folder}/${path}`), content = encoder.encode(textOf(file));
    // Needs version 2.0, has names in UTF-8, is stored.
    const about = [[2, 20], [2, 0x0800], [2, 0], [2, time], [2, date], [4, crc32(content)],
      [4, content.length], [4, content.length], [2, name.length], [2, 0]];
    local.push(packed([4, 0x04034b50], ...about), name, content);
    // Made on Unix, whose permissions stand in the upper half of the attributes.
    central.push(packed([4, 0x02014b50], [2, 0x0314], ...about, [2, 0], [2, 0], [2, 0],
      [4, (0o100000 | file.mode) * 65536], [4, offset]), name);
    offset += 30 + name.length + content.length;
    listing += 46 + name.length;
  }
  const end = packed([4, 0x06054b50], [2, 0], [2, 0], [2, files.size], [2, files.size],
    [4, listing], [4, offset], [2, 0]);
  return new Blob([...local, ...central, end], { type: "application/zip" });
}

/** Numbers of so many bytes each, the lowest byte first. */
function packed(...fields) {
  return Uint8Array.from(fields.flatMap(([size, value]) =>
    Array.from({ length: size }, (_, place) => Math.floor(value / 256 ** place) % 256)));
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

/** The checksum that ZIP asks for. */
function crc32(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) sum = CRC_TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}

/** What to type for a project, with torch-tricks and with Copier. */
function commandsOf(data, state) {
  const folder = packageName(data, state.name).replaceAll("_", "-");
  const ours = ["torch-tricks new", folder, `--name="${state.name}"`, ...optionsFor(data, state)];
  if (data.source !== data.published) ours.push("--template", data.source);
  ours.push("--ref", data.version);
  const theirs = ["uvx copier copy --defaults", `-d "project_name=${state.name}"`, `-d preset=${state.preset}`];
  theirs.push(...changedAnswers(data, state).map(([name, answer]) => `-d ${name}=${answer}`));
  if (state.preset === "custom") theirs.push(`-d "tricks=[${state.tricks.join(",")}]"`);
  theirs.push("--vcs-ref", data.version, data.source, folder);
  return { ours: ours.join(" "), theirs: theirs.join(" ") };
}

/** The options for a choice, by the preset from which it is the fewest words away. */
function optionsFor(data, state) {
  const isTrick = (name) => data.tricks.some((trick) => trick.name === name);
  const others = changedAnswers(data, state).filter(([name]) => !isTrick(name))
    .map(([name, answer]) => `--${name} ${answer}`);
  if (state.preset !== "custom") return ["--preset", state.preset, ...others];
  const withChoices = data.tricks.filter((trick) => trick.choices).map((trick) => trick.name);
  const bases = ["minimal", "recommended", "everything"].map((preset) => {
    const base = ofPreset(data, preset, state), { chosen } = base;
    const taken = state.tricks.filter((name) => !chosen.has(name));
    const left = [...chosen].filter((name) => !withChoices.includes(name) && !state.tricks.includes(name));
    for (const name of withChoices) {
      if (state[name] === "none" && base[name] !== "none") left.push(name);
      else if (state[name] !== base[name]) taken.push(`${name}=${state[name]}`);
    }
    return { preset, taken, left, words: taken.length + left.length };
  });
  // Without a difference to it, a project would follow its preset.
  const same = bases.some((base) => base.words === 0);
  const best = same ? { ...bases[1], preset: "custom" } : bases.reduce((a, b) => (b.words < a.words ? b : a));
  return [
    "--preset", best.preset,
    ...(best.taken.length ? ["--with", best.taken.join(",")] : []),
    ...(best.left.length ? ["--without", best.left.join(",")] : []),
    ...(same ? ["--defaults"] : []),
    ...others,
  ];
}

if (typeof module !== "undefined") {
  module.exports = { render, textOf, causesOf, compare, zip, commandsOf, chosenOf, packageName, nameFault, yaml };
}
