// Texts of pages come from strangers, so they become text nodes only, never markup.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const number = (value) => value.toLocaleString(language);
const percent = (value) => value.toLocaleString(language, { style: "percent", maximumFractionDigits: 1 });
const digits = (value) => (value === null ? "–" : value.toFixed(3));
const moment = (seconds) => new Date(seconds * 1000).toLocaleString(language);

// Make many links one tab stop; arrow keys move between them, up and down as ``across`` returns.
function roving(container, selector, across = (links, at, step) => at + step) {
  const links = [...container.querySelectorAll(selector)];
  links.forEach((one, at) => one.setAttribute("tabindex", at ? "-1" : "0"));
  container.addEventListener("keydown", (event) => {
    const at = links.indexOf(document.activeElement);
    const to = {
      ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: links.length - 1,
      ArrowDown: across(links, at, 1), ArrowUp: across(links, at, -1),
    }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = links[Math.min(Math.max(to, 0), links.length - 1)];
    links[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  return container;
}

function say(text) {
  document.getElementById("status").textContent = text;
}

// Only addresses of the web become links: a key may begin with javascript:
function address(key, title = "") {
  const shown = title || key;
  const linked = /^https?:\/\//i.test(key)
    ? make("a", { href: key, rel: "noreferrer noopener", target: "_blank", title: key }, shown)
    : document.createTextNode(shown);
  return title ? make("span", {}, linked, make("br"), make("span", { class: "faint small" }, key)) : linked;
}

// The caption is for screen readers. Others see it above, where it may be wider than the table,
// unless a heading says the same.
function table(caption, head, rows, attributes = {}, hidden = false) {
  const view = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", attributes, make("caption", { class: "unseen" }, caption),
      make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows)));
  return hidden ? view : make("div", {}, make("p", { class: "faint caption", "aria-hidden": "true" }, caption), view);
}

// A list that grows on demand, so that 100,000 entries cost no more than a screen of them.
function growing(entries, size, show, container = make("div")) {
  let shown = 0;
  const button = make("button", { type: "button", onclick: () => more() }, word("showMore"));
  const row = make("div", { class: "row" }, button);
  function more() {
    const part = entries.slice(shown, shown + size).map(show);
    container.append(...part);
    shown += part.length;
    row.hidden = shown >= entries.length;
    if (shown > size && part.length) part[0].focus?.();
  }
  more();
  return make("div", {}, container, row);
}
