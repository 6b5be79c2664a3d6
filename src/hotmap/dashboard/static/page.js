// Draws what the local server has decided on; every text of the cluster is set as textContent.

const POLL = 2000; // milliseconds between two requests
const LOST = 15000; // without an answer, after which nothing counts as known
const MOST_GLYPHS = 10;

// A shape for each state, so that none is told from another by its colour alone.
const RING = "M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 1 1 0-13z";
const TRIANGLE = "M8 1.8 15 14.2H1z";
const MARKS = {
  current: { fill: RING, cut: "M4.8 8.2l2.3 2.3 4.2-4.7" },
  delivered: { line: RING, fill: "M8 3.5a4.5 4.5 0 0 1 0 9z" },
  unverified: { line: RING, dash: "2.4 2.4" },
  waiting: { line: `${RING}M8 4.2V8l2.6 1.8` },
  paused: { line: RING, fill: "M5.6 5h1.7v6H5.6zM8.7 5h1.7v6H8.7z" },
  latent: { line: `${TRIANGLE}M8 6.2v3.6M8 11.8v.4` },
  unknown: { line: `${RING}M6 6.3C6.2 4 9.9 4.1 9.9 6.4 9.9 8 8 7.9 8 9.3M8 11.5v.3` },
  held: { fill: "M2 2h12v12H2z", cut: "M5 8h6" },
  refused: { fill: RING, cut: "M5.5 5.5l5 5M10.5 5.5l-5 5" },
  stuck: { fill: "M8 .8 15.2 8 8 15.2 .8 8z", cut: "M8 4.5v4M8 11v.3" },
  failed: { fill: TRIANGLE, cut: "M8 6.2v3.6M8 11.9v.3" },
  source: { line: "M3.5 1.5h6l3 3v10h-9zM5.8 7.5h4.4M5.8 10.5h4.4" },
  missing: { line: "M3.5 1.5h6l3 3v10h-9zM6 7l4 4M10 7l-4 4", dash: "2 2" },
};
const BY_TONE = {
  good: "current", calm: "delivered", busy: "waiting", warn: "unknown", bad: "refused", lost: "unknown",
};

const byId = (id) => document.getElementById(id);

function element(tag, settings = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== ""));
  return made;
}

function drawing(settings, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", settings.tag ?? "path");
  for (const [name, value] of Object.entries(settings)) if (name !== "tag") made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function mark(state, tone) {
  const shape = MARKS[state] ?? MARKS[BY_TONE[tone]];
  const line = { fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round" };
  const parts = [];
  if (shape.line) parts.push(drawing({ d: shape.line, ...line, ...(shape.dash && { "stroke-dasharray": shape.dash }) }));
  if (shape.fill) parts.push(drawing({ d: shape.fill, fill: "currentColor" }));
  if (shape.cut) parts.push(drawing({ d: shape.cut, ...line, stroke: "var(--card)" }));
  return drawing({ tag: "svg", class: `mark ${tone}`, viewBox: "0 0 16 16", "aria-hidden": "true" }, ...parts);
}

function objectName(name) {
  const [kind, rest] = [name.slice(0, name.indexOf("/") + 1), name.slice(name.indexOf("/") + 1)];
  return [element("span", { class: "kind" }, kind), rest];
}

// -- the URL, which has what the page shows, so that it can be shared ---------------------------

const parameter = (name) => new URLSearchParams(location.search).get(name) ?? "";

function navigate(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
  if (drawn && byId("problem").hidden && !byId("map").hidden) drawMap(drawn, parameter("select"));
  poll();
}

function toggleState(state) {
  const states = new Set(parameter("state").split(",").filter(Boolean));
  states.delete(state) || states.add(state);
  navigate({ state: [...states].join(","), rows: "" });
}

const select = (id) => navigate({ select: parameter("select") === id ? "" : id });

// -- the map -----------------------------------------------------------------------------------

let drawn = null; // the map that is shown

function pods(item) {
  const { count, behind, text } = item.pods;
  const box = element("div", { class: `pods ${item.tone}` });
  const [isCurrent, isDelivered] = [item.state === "current", item.state === "delivered"];
  const outline = { fill: isCurrent ? "currentColor" : "none", stroke: "currentColor" };
  const isKnown = isCurrent || isDelivered;
  if (count > MOST_GLYPHS) {
    const bar = { tag: "rect", x: 0.5, y: 2, width: 99, height: 7, rx: 3.5, ...outline };
    const part = { ...bar, width: isDelivered ? 50 : Math.max((100 * behind) / count, 4), fill: "currentColor" };
    const shapes = behind || isDelivered ? [bar, part] : [bar];
    box.append(drawing({ tag: "svg", viewBox: "0 0 100 11" }, ...shapes.map((shape) => drawing(shape))));
  } else if (!item.group) {
    const triangle = { d: "M5.5 .8 10.8 10.2H.2z", fill: "currentColor" };
    const square = { tag: "rect", x: 1, y: 1, width: 9, height: 9, rx: 2, ...outline, ...(!isKnown && { "stroke-dasharray": "2 1.6" }) };
    const half = { d: "M5.5 1.5H8.5a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1H5.5z", fill: "currentColor" };
    for (let number = 0; number < count; number += 1) {
      const shapes = number < behind ? [triangle] : isDelivered ? [square, half] : [square];
      box.append(drawing({ tag: "svg", viewBox: "0 0 11 11" }, ...shapes.map((shape) => drawing(shape))));
    }
  }
  if (text) box.append(element("span", {}, text));
  return box;
}

function card(item, shape, onclick, ...body) {
  return element(
    "button",
    { type: "button", id: item.id, class: `card ${item.tone}${item.group ? " group" : ""}`, "aria-pressed": "false", onclick },
    mark(shape, item.tone),
    element("span", { class: "body" }, ...body),
  );
}

const place = (item) => (drawn.namespaces > 1 && item.namespace ? element("span", { class: "namespace" }, ` in ${item.namespace}`) : "");

function workload(item) {
  const show = () => (item.group ? navigate({ state: item.group, rows: "1000" }) : select(item.id));
  const title = item.group ? [item.name] : [...objectName(item.name), place(item)];
  const isQuiet = item.group || item.tone === "good" || item.tone === "lost";
  return element(
    "li",
    {},
    card(item, item.state, show,
      element("span", { class: "state" }, item.state),
      element("span", { class: "name" }, ...title),
      isQuiet ? "" : element("span", { class: "reason" }, item.reason),
      item.group ? "" : element("span", { class: "uses" }, item.sources.map((id) => id.split("/").filter((_, at) => at !== 1).join("/").toLowerCase()).join(", "))),
    item.pods.count ? element("div", { class: `wire ${item.tone}` }) : element("div"),
    pods(item),
  );
}

function source(item) {
  const title = item.group ? [item.name] : [...objectName(item.name), place(item)];
  const body = [element("span", { class: "name" }, ...title), element("span", { class: "note" }, item.note)];
  return element("li", {}, card(item, item.missing ? "missing" : "source", () => !item.group && select(item.id), ...body));
}

// Replaces the rows that differ, so that focus and scroll position stay.
function update(list, items, make) {
  const known = new Map([...list.children].map((row) => [row.dataset.text, row]));
  const rows = items.map((item) => {
    const text = JSON.stringify([item, drawn.namespaces > 1]);
    const row = known.get(text) ?? make(item);
    row.dataset.text = text;
    return row;
  });
  const isSame = rows.length === list.children.length && rows.every((row, at) => row === list.children[at]);
  if (isSame) return;
  const focused = document.activeElement?.id;
  list.replaceChildren(...rows);
  if (focused && document.activeElement?.id !== focused) byId(focused)?.focus({ preventScroll: true });
}

function drawMap(map, selected) {
  drawn = map;
  update(byId("workloads"), map.workloads, workload);
  update(byId("sources"), map.sources, source);
  highlight(selected);
  layOut();
}

function highlight(selected) {
  const item = drawn.workloads.find((each) => each.id === selected);
  const users = drawn.workloads.filter((each) => each.sources.includes(selected)).map((each) => each.id);
  const path = new Set([selected, ...(item?.sources ?? []), ...users]);
  const isOnMap = item || users.length;
  for (const each of document.querySelectorAll("#map .card")) {
    each.setAttribute("aria-pressed", String(each.id === selected));
    each.closest("li").classList.toggle("dim", Boolean(isOnMap) && !path.has(each.id));
  }
  drawn.isOn = (from, to) => (isOnMap ? (from === selected || to === selected ? "on" : "off") : "");
}

// Each source is placed near the middle of its workloads, in the given order and without overlap.
function layOut() {
  const { top, left } = byId("map").getBoundingClientRect();
  const rows = [...byId("sources").children];
  for (const row of rows) row.style.marginTop = "0";
  const boxes = new Map();
  for (const each of document.querySelectorAll("#map .card")) boxes.set(each.id, each.getBoundingClientRect());
  const middle = (box) => box.top + box.height / 2 - top;
  const start = (rows[0]?.getBoundingClientRect().top ?? top) - top;
  const heights = rows.map((row) => row.getBoundingClientRect().height);
  const places = [];
  let end = start;
  drawn.sources.forEach(({ id }, at) => {
    const ends = drawn.workloads.filter((each) => each.sources.includes(id)).map((each) => middle(boxes.get(each.id)));
    const wish = ends.reduce((sum, each) => sum + each, 0) / (ends.length || 1) - boxes.get(id).height / 2;
    places.push(Math.max(end, wish));
    end = places[at] + heights[at];
  });
  const total = heights.reduce((sum, each) => sum + each, start);
  let limit = Math.max(total, byId("workloads").getBoundingClientRect().bottom - top);
  for (let at = places.length - 1; at >= 0; at -= 1) limit = places[at] = Math.min(places[at], limit - heights[at]);
  const middles = new Map();
  rows.forEach((row, at) => {
    row.style.marginTop = `${places[at] - (at ? places[at - 1] + heights[at - 1] : start)}px`;
    middles.set(drawn.sources[at].id, places[at] + boxes.get(drawn.sources[at].id).height / 2);
  });
  const lines = drawn.workloads.flatMap((item) => item.sources.map((id) => {
    const [x1, x2, y1, y2] = [boxes.get(id).right - left, boxes.get(item.id).left - left, middles.get(id), middle(boxes.get(item.id))];
    const bend = (x2 - x1) / 2;
    return drawing({ d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, class: `${item.tone} ${drawn.isOn(id, item.id)}` });
  }));
  byId("lines").replaceChildren(...lines.reverse()); // trouble is drawn over the others
}

// -- beside the map ----------------------------------------------------------------------------

function drawTools(map) {
  const chosen = new Set(parameter("state").split(","));
  const chips = map.found.map(({ state, tone, count }) => element(
    "button",
    { type: "button", id: `state-${state}`, class: tone, "aria-pressed": String(chosen.has(state)), onclick: () => toggleState(state) },
    mark(state, tone), `${count.toLocaleString("en")} ${state}`,
  ));
  const focused = document.activeElement?.id;
  byId("states").replaceChildren(...chips);
  if (focused?.startsWith("state-")) byId(focused)?.focus();
  byId("summary").textContent = map.behind;
}

function command(text) {
  const copy = element("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return element("div", { class: "command" }, element("code", {}, ...text.split(" ").flatMap((word) => [element("span", {}, word), " "])), navigator.clipboard ? copy : "");
}

const heading = (text, list) => (list.length ? [element("h3", {}, text), element("ul", {}, ...list)] : []);

function link(id, name) {
  return id ? element("button", { type: "button", class: "link", onclick: () => navigate({ select: id }) }, name) : element("b", {}, name);
}

function drawPanel(panel) {
  const box = byId("panel");
  const text = JSON.stringify(panel);
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.hidden = !panel;
  box.replaceChildren();
  if (!panel) return;
  const { sources = [], pods: listed = [], users = [], decisions = [], commands = [] } = panel;
  const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");
  box.replaceChildren(
    element("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => navigate({ select: "" }) }, "×"),
    element("h2", {}, panel.title),
    element("p", { class: "quiet" }, panel.namespace ? `in namespace ${panel.namespace}` : ""),
    panel.state ? element("p", { class: `verdict ${panel.tone}` }, mark(panel.state, panel.tone), panel.verdict) : "",
    element("p", {}, panel.reason),
    element("p", { class: "quiet" }, panel.note ?? ""),
    ...commands.map(command),
    ...heading("Sources", sources.map((each) => element("li", {}, mark("source", "lost"), element("div", {}, link(each.id, each.name), element("div", { class: "note" }, each.text))))),
    ...heading("Workloads that use it", users.map((each) => element("li", {}, mark(each.state, each.tone), element("div", {}, link(each.id, each.name)), element("span", { class: "quiet" }, each.state)))),
    element("p", { class: "quiet" }, panel.usersNote ?? ""),
    ...heading("Pods", listed.map((each) => element("li", {}, mark(each.state, each.tone), element("div", {}, element("b", {}, each.name), element("div", { class: "note" }, each.text))))),
    element("p", { class: "quiet" }, panel.podsNote ?? ""),
    ...heading("Latest decisions", decisions.map((each) => element("li", {}, element("time", {}, clock(each.at)), element("div", {}, element("b", {}, each.actions), element("div", { class: "note" }, each.reason))))),
  );
}

function drawEmpty(answer) {
  const hasRows = Boolean(answer.map?.workloads.length);
  byId("map").hidden = !hasRows;
  byId("empty").hidden = hasRows || !answer.map || Boolean(answer.problem);
  if (byId("empty").hidden) return;
  const parts = answer.map.total
    ? [element("h2", {}, "No workload matches the filter"), element("p", { class: "quiet" }, `${answer.map.total.toLocaleString("en")} are followed here.`)]
    : [element("h2", {}, `hotmap follows no workload here (${answer.scope})`), element("p", { class: "quiet" }, "Opt one in:"), command(answer.optIn)];
  byId("empty").replaceChildren(...parts);
}

// -- polling -----------------------------------------------------------------------------------

let timer = 0;
let request = new AbortController();
let answered = performance.now(); // when the last answer came
let age = 0; // of its content then, in seconds
let lost = ""; // why the local server does not answer

function show(answer) {
  [answered, age, lost] = [performance.now(), answer.age, ""];
  byId("scope").textContent = [answer.scope, answer.server].filter(Boolean).join(" · ");
  byId("problem").replaceChildren(element("b", {}, "Status unknown, retrying: "), answer.problem);
  byId("problem").hidden = !answer.problem;
  drawEmpty(answer);
  drawTools(answer.map ?? { found: [], behind: "" });
  if (byId("map").hidden) for (const id of ["workloads", "sources", "lines"]) byId(id).replaceChildren();
  else drawMap(answer.map, answer.problem ? "" : parameter("select"));
  drawPanel(answer.panel);
  const current = answer.map?.found.find((each) => each.state === "current")?.count ?? 0;
  const all = answer.map?.found.reduce((sum, each) => sum + each.count, 0) ?? 0;
  document.title = answer.problem ? "? hotmap" : all > current ? `${all - current} not current · hotmap` : "hotmap";
  tick();
}

function lose(problem) {
  if (lost === problem) return;
  show({ scope: byId("scope").textContent, problem, age: NaN, map: null, panel: null });
  lost = problem;
}

function tick() {
  const waited = performance.now() - answered;
  if (waited > LOST && !document.hidden) lose("The command 'hotmap dashboard' does not answer.");
  const seconds = Math.round(age + (performance.now() - answered) / 1000);
  const isLost = !byId("problem").hidden;
  byId("live").className = isLost ? "lost" : "";
  const when = seconds < 2 ? "now" : seconds < 100 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
  byId("live").textContent = Number.isNaN(seconds) || (isLost && !drawn) ? "not connected" : isLost ? `last answer ${when}` : `updated ${when}`;
}

async function poll() {
  clearTimeout(timer);
  request.abort();
  if (document.hidden) return;
  const own = new AbortController();
  request = own;
  try {
    const answer = await fetch(`map${location.search}`, { signal: own.signal });
    if (answer.status === 500) lose("The dashboard's server failed; its terminal shows why.");
    else show(await answer.json());
  } catch (error) {
    if (own.signal.aborted) return;
    lose("The command 'hotmap dashboard' has ended, or was started again: open the URL that it prints.");
  }
  if (request === own) timer = setTimeout(poll, POLL);
}

let typing = 0;
byId("filter").value = parameter("filter");
byId("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => navigate({ filter: byId("filter").value.trim(), rows: "" }), 200);
});
byId("tools").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && parameter("select")) navigate({ select: "" });
  if (event.key === "/" && document.activeElement !== byId("filter")) {
    event.preventDefault();
    byId("filter").focus();
  }
});
document.addEventListener("visibilitychange", () => { tick(); poll(); });
new ResizeObserver(() => drawn && !byId("map").hidden && layOut()).observe(byId("map"));
setInterval(tick, 1000);
poll();
