const VIEWS = { overview, decisions, explorer, clusters, changes, comparison, review };
const NAMES = { decisions: "decisionsOf", pair: "compare" };

function viewsOf(data) {
  return Object.keys(VIEWS).filter((one) => one !== "comparison" || data.other);
}

function show(data) {
  const { view: name, argument, query } = route();
  const views = viewsOf(data);
  const view = name === "pair" ? "pair" : views.includes(name) ? name : "overview";
  data.keys = {};
  for (const node of document.querySelectorAll("[data-word]")) node.textContent = word(node.dataset.word);
  document.documentElement.lang = language;
  document.title = `${word("title")}: ${word(NAMES[view] ?? view)}`;
  const button = document.getElementById("language");
  button.textContent = word("other");
  button.lang = language === "en" ? "zh" : "en";
  document.getElementById("views").setAttribute("aria-label", word("views"));
  document.getElementById("views").replaceChildren(...views.map((one) =>
    make("a", { href: link(one), "data-view": one, "aria-current": one === view ? "page" : null }, word(NAMES[one] ?? one))));
  linkViews(view, view === "pair" ? data.last ?? query : query);
  data.last = view === "pair" ? data.last : query;
  const main = document.getElementById("main");
  main.replaceChildren(view === "pair" ? pair(data, Number(argument)) : VIEWS[view](data, query));
  return main;
}

// Links to the views keep the filters.
function linkViews(view, query) {
  for (const one of document.querySelectorAll("#views a")) one.setAttribute("href", link(one.dataset.view, kept(query)));
}

async function start() {
  language = recall("language") ?? language;
  document.documentElement.dataset.scheme = recall("scheme") ?? "";
  let data;
  try {
    data = new Data(await unpack("packed"));
  } catch (error) {
    document.getElementById("loading").textContent = word("failed", error.message);
    return;
  }
  window.addEventListener("hashchange", () => {
    show(data).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  });
  // The link must not replace the view in the address.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  document.getElementById("language").addEventListener("click", () => {
    language = language === "en" ? "zh" : "en";
    remember("language", language);
    show(data);
  });
  document.getElementById("scheme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.scheme || (dark ? "dark" : "light");
    document.documentElement.dataset.scheme = now === "dark" ? "light" : "dark";
    remember("scheme", document.documentElement.dataset.scheme);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    data.keys[event.key]?.();
  });
  show(data);
  document.body.dataset.ready = "yes";
  performance.mark("ready");
}

start();
