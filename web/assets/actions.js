"use strict";
// Changes go through the JSON API, with the page's token: forms with `data-api="METHOD /address"` are sent as JSON, and
// say how it went. `{name}` in their texts and addresses is filled from the button that opened them, then from their fields, then
// from the answer. A button may have an address of its own, and say in `data-shows` where the answer is shown; then nothing was changed. A form with `data-keep` goes on showing what was sent; others are emptied. What `data-also` says, as JSON, is sent with the fields. With `data-json="ID"` the JSON that this element shows is sent in the place of the fields, with `data-file="ID"` the file chosen there.

const words = JSON.parse(document.querySelector('meta[name="words"]').content);
const csrf = document.querySelector('meta[name="csrf-token"]').content;
const NOTE_MS = 12000;

// Says something at the top of the page, and to a screen reader.
function note(tone, title, text, id) {
  const line = document.createElement("p");
  line.className = `status ${tone}`;
  if (id) line.id = id;
  if (title) {
    const strong = document.createElement("strong");
    strong.textContent = title;
    line.append(strong, " ");
  }
  line.append(text);
  document.getElementById("notes").append(line);
  if (!id) setTimeout(() => line.remove(), NOTE_MS);
  return line;
}

// Numbers are written as the server writes them, whatever the language.
const asShown = (value) =>
  typeof value === "number" ? value.toLocaleString("en-US") : (/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? dateAndTime.format(new Date(value)) : String(value));
const fill = (text, values, shown = asShown) =>
  text.replace(/\{(\w+)\}/g, (_, name) => (values[name] === undefined ? "" : shown(values[name])));

// Lines of `key=value` as an object.
const pairs = (text) =>
  Object.fromEntries(
    text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
      const [key, ...value] = line.split("=");
      return [key.trim(), value.join("=").trim()];
    }),
  );

// What a field adds to a list: its value if it is ticked, or all words of a text.
const listed = (field) =>
  field.type === "checkbox" ? [field.value].filter(() => field.checked) : field.value.split(/[\s,，、]+/).filter(Boolean);

// What a form says, as JSON: empty fields are left out, and so are those that do not belong to what is chosen.
function bodyOf(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || field.closest("[hidden]")) continue;
    // `a.b` is the field b of the object a.
    const [name, inner] = field.name.split(".");
    const put = (value) => (inner ? ((body[name] ??= {})[inner] = value) : (body[name] = value));
    if ("list" in field.dataset) put([...(body[name] ?? []), ...listed(field)]);
    else if (field.type === "checkbox") put(field.checked);
    else if (field.type === "number" && field.value !== "") put(Number(field.value));
    else if ("pairs" in field.dataset) put(pairs(field.value));
    else if (field.value !== "") put(field.value);
  }
  for (const name of (form.dataset.body ?? "").split(" ").filter(Boolean)) body[name] = form.given[name];
  return { ...body, ...JSON.parse(form.dataset.also ?? "{}") };
}

// What fields with `data-address` say: it stands in the address, not in the body.
const addressOf = (form) =>
  Object.fromEntries([...form.elements].filter((field) => field.dataset.address).map((field) => [field.dataset.address, field.value.trim()]));

async function ask(method, address, body) {
  const headers = { Accept: "application/json" };
  const init = { method, headers, credentials: "same-origin" };
  if (method !== "GET") {
    headers["X-CSRF-Token"] = csrf;
    if (body instanceof Blob || Object.keys(body).length > 0) {
      headers["Content-Type"] = "application/json";
      init.body = body instanceof Blob ? body : JSON.stringify(body);
    }
  }
  const answer = await fetch(address, init);
  const json = await answer.json().catch(() => ({}));
  if (answer.ok) return json;
  if (answer.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  throw new Error(json.detail ?? answer.statusText);
}

// What the server shows now of what this page does not follow live. What it does follow comes by one way only: by two, an
// older state could overtake a newer one.
async function refresh() {
  const answer = await fetch(location.href, { credentials: "same-origin" });
  if (!answer.ok) return;
  // Who has ended the own login is led to another one.
  if (answer.redirected) return location.assign(answer.url);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const name of ["tbody", "dialog"]) {
    const [old, fresh] = [document.querySelectorAll(name), page.querySelectorAll(name)];
    if (name === "tbody" && old.length === fresh.length) {
      fresh.forEach((part, nth) => {
        if (old[nth].dataset.live === "yes") return;
        localise(part);
        settleChildren(old[nth], part);
      });
    }
  }
  gate();
}

function problemIn(form, text) {
  const place = form.querySelector(".problem");
  if (!place) return note("bad", words.failed, text);
  place.hidden = text === "";
  place.textContent = text;
}

// Whatever a form was told of what it said before is of no use any more.
function forget(form) {
  form.sends = (form.sends ?? 0) + 1;
  for (const place of form.querySelectorAll(".tried")) place.hidden = true;
}

async function send(form, button) {
  const body = bodyOf(form);
  const [method, address] = fill(button?.dataset.api ?? form.dataset.api, { ...body, ...form.given, ...addressOf(form) }, encodeURIComponent).split(" ");
  const said = form.querySelector(".said");
  if (said) said.textContent = "";
  problemIn(form, "");
  forget(form);
  const nth = form.sends;
  if (button) [button.dataset.busy, button.disabled] = ["yes", true];
  try {
    const shown = form.dataset.json && JSON.parse(document.getElementById(form.dataset.json).textContent);
    const file = form.dataset.file && document.getElementById(form.dataset.file).files[0];
    const answer = await ask(method, address, file || shown || body);
    if (answer.whole === false) throw new Error(answer.problem);
    if (button?.dataset.shows) return form.sends === nth && showAnswer(document.getElementById(button.dataset.shows), { ...flat(answer), ...answer });
    const values = { ...form.given, ...body, ...flat(answer) };
    form.closest("dialog")?.close();
    if (form.dataset.then) return location.assign(form.dataset.then);
    // A name by which no ID was given has no page any more.
    if (form.dataset.gone && answer.in_use === false && location.pathname !== form.dataset.gone) return location.assign(form.dataset.gone);
    if (said) said.textContent = fill(form.dataset.done, values);
    else note("well", "", fill(form.dataset.done, values));
    if (answer.warning) {
      document.getElementById("warned")?.remove();
      note("warn", "", answer.warning, "warned");
    }
    reveal(form, answer);
    if (!("keep" in form.dataset)) form.reset();
    switches(form);
    await refresh();
  } catch (error) {
    if (form.sends === nth || !button?.dataset.shows) problemIn(form, error instanceof TypeError ? words.unreachable : error.message);
  } finally {
    if (button) [button.dataset.busy, button.disabled] = ["no", false];
    gate();
  }
}

// What an answer says, where `data-of` names it; what it leaves out is not shown.
function showAnswer(place, answer) {
  for (const part of place.querySelectorAll("[data-of]")) {
    const value = answer[part.dataset.of];
    part.closest("div").hidden = value === undefined;
    part.textContent = Array.isArray(value) ? value.join("\n") : (part.dataset[value] ?? asShown(value));
  }
  place.hidden = false;
}

// An answer with its parts beside each other: `names: {new: 1}` as `names_new`, lists as one text.
const flat = (answer) =>
  Object.fromEntries(
    Object.entries(answer).flatMap(([name, value]) => {
      if (Array.isArray(value)) return [[name, value.join(", ") || "\u2013"]];
      return value && typeof value === "object" ? Object.entries(value).map(([part, it]) => [`${name}_${part}`, it]) : [[name, value]];
    }),
  );

// A secret that is shown once: in the form, or where it says, as a dialog is closed by then.
function reveal(form, answer) {
  const place = document.getElementById(form.dataset.reveals) ?? form.querySelector(".secret");
  if (!place) return;
  place.hidden = false;
  place.querySelector("code").textContent = answer[form.dataset.secret] ?? "";
}

// Fields and options that belong to one choice of another field, or to some, and of several fields: `kind=a|b form=c`.
function switches(form) {
  const holds = (choice) => {
    const [name, values] = choice.split("=");
    return values.split("|").includes(form.elements[name].value);
  };
  for (const part of form.querySelectorAll("[data-when]")) {
    part.hidden = !part.dataset.when.split(" ").every(holds);
    if (part instanceof HTMLOptionElement) {
      part.disabled = part.hidden;
      if (part.hidden && part.selected) part.closest("select").selectedIndex = 0;
    }
    for (const field of part.querySelectorAll("input, select")) field.disabled = part.hidden;
  }
}

function confirmed(form) {
  if (!form.dataset.confirm) return;
  const wanted = fill(form.dataset.confirm, { ...form.given, ...addressOf(form) }, String);
  const button = form.querySelector("button[type=submit]");
  const typed = form.querySelector("[data-confirms]") ?? form.querySelector("input[required]");
  button.dataset.unconfirmed = typed.value.trim() === wanted ? "no" : "yes";
  gate();
}

// What a change would do to others, asked before it is made: by the address that the element says, told in its words.
async function preview(form) {
  for (const place of form.querySelectorAll("[data-preview]")) {
    const given = form.given;
    const say = (text) => (place.textContent = form.given === given ? text : place.textContent);
    say("");
    try {
      const answer = await ask(...fill(place.dataset.preview, given, encodeURIComponent).split(" "), {});
      const names = answer.cut_off.map((row) => row.agent_id);
      const named = names.length < answer.agents ? [...names, "\u2026"] : names;
      say(names.length ? fill(place.dataset.some, { ...answer, cut_off: named.join(", ") }) : place.dataset.none);
    } catch (error) {
      say(error instanceof TypeError ? words.unreachable : error.message);
    }
  }
}

function open(button) {
  const dialog = document.getElementById(button.dataset.open);
  const form = dialog.querySelector("form");
  form.reset();
  form.given = { ...button.dataset };
  for (const place of dialog.querySelectorAll("[data-text]")) place.textContent = fill(place.dataset.text, form.given, String);
  for (const place of dialog.querySelectorAll("[data-time]")) place.textContent = asShown(form.given[place.dataset.time]);
  for (const field of dialog.querySelectorAll("[data-value]")) field.value = form.given[field.dataset.value];
  problemIn(form, "");
  confirmed(form);
  preview(form);
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.open) open(button);
  else if (button.hasAttribute("data-close")) button.closest("dialog").close();
  else if (button.dataset.run) {
    const form = document.getElementById(button.dataset.run);
    form.given = { ...button.dataset };
    send(form, button);
  } else if (button.hasAttribute("data-copy")) {
    const text = button.parentElement.querySelector("code").textContent;
    navigator.clipboard?.writeText(text).then(() => note("well", "", words.copied));
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.api) return;
  event.preventDefault();
  send(form, event.submitter);
});

document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form) forget(form);
  if (form?.dataset.confirm) confirmed(form);
});

document.addEventListener("change", (event) => {
  if (event.target.dataset?.switch) switches(event.target.form);
});

document.querySelectorAll("form[data-api]").forEach(switches);
