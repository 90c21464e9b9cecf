const VIEWS = { overview, explorer, clusters, review };

function show(data) {
  const [name, argument] = location.hash.slice(1).split("/");
  const view = name === "pair" ? "pair" : name in VIEWS ? name : "overview";
  data.keys = {};
  for (const node of document.querySelectorAll("[data-word]")) node.textContent = word(node.dataset.word);
  document.documentElement.lang = language;
  document.title = `${word("title")}: ${view === "pair" ? word("compare") : word(view)}`;
  const button = document.getElementById("language");
  button.textContent = word("other");
  button.lang = language === "en" ? "zh" : "en";
  document.getElementById("views").replaceChildren(...Object.keys(VIEWS).map((one) =>
    make("a", { href: `#${one}`, "aria-current": one === view ? "page" : null }, word(one))));
  const main = document.getElementById("main");
  main.replaceChildren(view === "pair" ? pair(data, Number(argument)) : VIEWS[view](data));
  return main;
}

async function start() {
  let data;
  try {
    data = new Data(await unpack());
  } catch (error) {
    document.getElementById("loading").textContent = word("failed", error.message);
    return;
  }
  window.addEventListener("hashchange", () => {
    if (location.hash === "#main") return;
    show(data).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  });
  document.getElementById("language").addEventListener("click", () => {
    language = language === "en" ? "zh" : "en";
    show(data);
  });
  document.getElementById("scheme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.scheme ?? (dark ? "dark" : "light");
    document.documentElement.dataset.scheme = now === "dark" ? "light" : "dark";
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    data.keys[event.key]?.();
  });
  show(data);
  document.body.dataset.ready = "yes";
}

start();
