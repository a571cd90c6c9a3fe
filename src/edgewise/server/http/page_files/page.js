// A live view of the hub. It reads the same API as everybody else, with the token that the
// person types in; the token stays in this tab.

const $ = (id) => document.getElementById(id);
const locations = new Map();
const sessions = new Map();
const clients = new Map();
let chosen = null;
let allStream = null;
let sessionStream = null;

// EventSource cannot send a token, so the stream is read by hand. It goes on where it was cut.
class Stream {
  constructor(path, token, on) {
    Object.assign(this, { path, token, on, lastId: "", ended: false, abort: new AbortController() });
    this.run();
  }

  close() {
    this.ended = true;
    this.abort.abort();
  }

  async run() {
    for (let wait = 500; !this.ended; wait = Math.min(wait * 2, 10000)) {
      try {
        const headers = { Authorization: `Bearer ${this.token}` };
        if (this.lastId) headers["Last-Event-ID"] = this.lastId;
        const answer = await fetch(this.path, { headers, signal: this.abort.signal, cache: "no-store" });
        if (!answer.ok) {
          const problem = await answer.json().catch(() => ({}));
          this.on.refused?.(answer.status, problem.detail ?? answer.statusText);
          if (answer.status < 500 && answer.status !== 429) return;
        } else {
          this.on.open?.();
          wait = 500;
          await this.read(answer.body.getReader());
        }
      } catch (error) {
        if (this.ended) return;
      }
      this.on.closed?.();
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.ended) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) this.event(block);
    }
  }

  event(block) {
    const fields = {};
    for (const line of block.split("\n")) {
      const at = line.indexOf(": ");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
    }
    if (fields.event) this.on.event(fields.event, JSON.parse(fields.data));
    if (fields.id) this.lastId = fields.id;
  }
}

function row(cells) {
  const tr = document.createElement("tr");
  for (const cell of cells) {
    const td = document.createElement("td");
    if (typeof cell === "object" && cell !== null) {
      td.textContent = cell.text;
      if (cell.state) td.dataset.state = cell.state;
      if (cell.title) td.title = cell.title;
    } else {
      td.textContent = cell ?? "—";
      if (typeof cell === "number") td.className = "number";
    }
    tr.append(td);
  }
  return tr;
}

const sorted = (map) => [...map.entries()].sort(([a], [b]) => a.localeCompare(b)).map(([, value]) => value);
const state = (view) => ({ text: view.state, state: view.state, title: view.reason ?? view.message ?? "" });

function draw() {
  $("locations").replaceChildren(...sorted(locations).map((view) => {
    const templates = Object.keys(view.degraded);
    const shown = state(view);
    if (templates.length) {
      shown.text += `, degraded for ${templates.join(", ")}`;
      shown.title = Object.entries(view.degraded).map(([name, why]) => `${name}: ${why.reason} ${why.message}`).join("; ");
      if (view.state === "ready") shown.state = "degraded";
    }
    const tr = row([view.name, view.region, shown, view.clients, view.capacity, `${Math.round(view.load * 100)} %`]);
    tr.dataset.location = view.name;
    return tr;
  }));
  $("sessions").replaceChildren(...sorted(sessions).map((view) => {
    const tr = row([view.name, view.template, view.owner, state(view), view.clients, view.ready, view.suspect, view.disconnected, view.queued]);
    tr.dataset.choose = view.name;
    tr.tabIndex = 0;
    tr.setAttribute("aria-selected", view.name === chosen);
    return tr;
  }));
  $("no-sessions").hidden = sessions.size > 0;
  $("chosen").hidden = chosen === null;
  $("chosen-name").textContent = chosen ?? "";
  $("clients").replaceChildren(...sorted(clients).map((view) => {
    const endpoints = Object.entries(view.endpoints)
      .flatMap(([pod, ports]) => Object.entries(ports).map(([port, address]) => `${pod}/${port}: ${address}`));
    const tr = row([view.client, state(view), view.location, endpoints.join(", "), view.why]);
    tr.dataset.client = view.client;
    return tr;
  }));
}

let drawing = false;
function soon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; draw(); });
}

function fill(map, views, key) {
  map.clear();
  for (const view of views) map.set(view[key], view);
}

function allEvent(name, data) {
  if (name === "snapshot") {
    fill(sessions, data.sessions, "name");
    fill(locations, data.locations, "name");
  } else if (name === "session") sessions.set(data.name, data);
  else if (name === "session-gone") { sessions.delete(data.session); if (data.session === chosen) choose(null); }
  else if (name === "location") locations.set(data.name, data);
  else if (name === "location-gone") locations.delete(data.location);
  soon();
}

function sessionEvent(name, data) {
  if (name === "snapshot") fill(clients, Object.values(data?.clientsById ?? {}), "client");
  else if (name === "client") clients.set(data.client, data);
  else if (name === "client-gone") clients.delete(data.client);
  soon();
}

function choose(name) {
  chosen = name;
  sessionStream?.close();
  sessionStream = null;
  clients.clear();
  if (name !== null) {
    const path = `/v1/sessions/${encodeURIComponent(name)}/events`;
    sessionStream = new Stream(path, sessionStorage.getItem("token"), { event: sessionEvent });
  }
  soon();
}

function connection(text, open) {
  $("connection").textContent = text;
  $("connection").dataset.state = open ? "open" : "closed";
}

function show(connected) {
  $("login").hidden = connected;
  $("overview").hidden = !connected;
  $("forget").hidden = !connected;
}

function connect(token) {
  allStream?.close();
  allStream = new Stream("/v1/events", token, {
    event: allEvent,
    open: () => { sessionStorage.setItem("token", token); $("refusal").textContent = ""; connection("live", true); show(true); },
    closed: () => connection("connection lost, trying again…", false),
    refused: (status, why) => {
      $("refusal").textContent = why;
      if (status === 401 || status === 403) forget(why);
    },
  });
}

function forget(why = "") {
  allStream?.close();
  choose(null);
  sessionStorage.removeItem("token");
  connection(why || "not connected", false);
  show(false);
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  connect($("token").value.trim());
  $("token").value = "";
});
// Before this, a click would only load the page again.
document.querySelector("#login button").disabled = false;
$("forget").addEventListener("click", () => forget());
for (const kind of ["click", "keydown"]) {
  $("sessions").addEventListener(kind, (event) => {
    if (kind === "keydown" && event.key !== "Enter") return;
    const name = event.target.closest("[data-choose]")?.dataset.choose;
    if (name) choose(name === chosen ? null : name);
  });
}

// A link may bring the token behind its #, which no browser sends to a server. It leaves the
// address at once, so that it is not in the history or in a copy of the address.
function fromLink() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

window.addEventListener("hashchange", () => {
  const token = fromLink();
  if (token) connect(token);
});
const known = fromLink() ?? sessionStorage.getItem("token");
if (known) connect(known); else show(false);
