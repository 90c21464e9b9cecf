const CLUSTER_ROWS = 40;
const MEMBER_ROWS = 50;
const CLUSTER_COLUMNS = ["stored", "stored_host", "kind", "key", "host", "title", "time", "similarity", "reason", "spider", "crawl", "seen"];

// Stored pages with their duplicates and, if ``near``, near misses, by the newest decision on each.
function groups(data, chosen, near) {
  const found = new Map();
  for (const i of chosen) {
    const at = data.pages.match[i];
    if (at < 0 || !(data.isCopy(i) || (near && !data.isDropped(i)))) continue;
    const pages = found.get(at) ?? new Map();
    found.set(at, pages);
    const name = `${data.isCopy(i) ? "mirror" : "near"} ${data.key(i)}`;
    pages.set(name, { i, seen: (pages.get(name)?.seen ?? 0) + 1 });
  }
  return [...found].map(([at, pages]) => ({
    at, pages: [...pages.values()].sort((a, b) => data.pages.time[a.i] - data.pages.time[b.i] || (data.key(a.i) < data.key(b.i) ? -1 : 1)),
    mirrors: [...pages.values()].filter(({ i }) => data.isCopy(i)).length,
    newest: [...pages.values()].reduce((most, { i }) => Math.max(most, data.pages.time[i]), 0),
    sites: new Set([...pages.values()].map(({ i }) => data.pages.host[i])).size,
  }));
}

function clusters(data, query) {
  const columns = {
    size: { label: "size", of: (one) => one.pages.length, number: true },
    newest: { label: "time", of: (one) => one.newest, number: true },
    sites: { label: "sites", of: (one) => one.sites, number: true },
    site: { label: "storedPage", of: (one) => data.stored.key[one.at] },
  };
  const list = make("div", { id: "clusters" });
  const found = make("p", { role: "status", id: "found" });
  let made = [];
  const order = sorting(query, columns, "-size", () => draw());
  const near = make("input", {
    type: "checkbox", id: "near", checked: query.get("near") === "1", onchange: () => {
      if (near.checked) query.set("near", "1");
      else query.delete("near");
      setQuery(query);
      update();
    },
  });

  function draw() {
    list.replaceChildren(growing(sorted(made, order.order(), columns), CLUSTER_ROWS, (one) => cluster(data, one)));
  }

  function update() {
    made = groups(data, choose(data, data.source, query), near.checked);
    found.textContent = word("found", number(made.length), number(made.reduce((sum, one) => sum + one.mirrors, 0)));
    draw();
  }

  const inOrder = () => sorted(made, order.order(), columns);
  const rows = () => inOrder().flatMap((one) => one.pages.map((page) => clusterRow(data, one.at, page)));
  const bar = filterBar(data, query, update, ["outcome"]);
  update();
  return make("div", {}, make("h2", {}, word("clusters")), make("p", { class: "faint" }, word("clustersHelp")), bar, found,
    make("div", { class: "row" }, order.field, make("label", {}, near, word("withNear")),
      ...exports("clusters", CLUSTER_COLUMNS, rows, () => inOrder().map((one) => clusterState(data, one)))), list);
}

function clusterRow(data, at, { i, seen }) {
  const { outcome, stored, stored_host, ...page } = decisionState(data, i);
  return { stored: data.stored.key[at], stored_host: data.hosts[data.stored.host[at]], kind: outcome === "new" ? "near" : "mirror", ...page, seen };
}

// A cluster in the format of `scrapy dedup clusters`.
function clusterState(data, one) {
  const pages = one.pages.map((page) => clusterRow(data, one.at, page));
  const of = (kind) => pages.filter((page) => page.kind === kind).map(({ stored, stored_host, kind: _, ...page }) => page);
  const near = of("near");
  return { stored: data.stored.key[one.at], host: data.hosts[data.stored.host[one.at]], mirrors: of("mirror"), ...(near.length ? { near } : {}) };
}

function cluster(data, one) {
  const inside = make("div");
  const key = data.stored.key[one.at];
  const title = data.stored.title[one.at] || titleOfMember(data, one);
  const view = make("details", {
    class: "cluster",
    ontoggle: () => {
      if (!view.open || inside.childElementCount) return;
      const body = make("tbody");
      const rows = growing(one.pages, MEMBER_ROWS, (page) => member(data, page), body);
      rows.prepend(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": word("clusterOf", title || key) },
        make("table", { class: "list members" }, make("thead", {}, make("tr", {},
          ...["time", "similarity", "page", "site", "reason"].map((name) => make("th", { scope: "col" }, word(name))),
          make("th", { scope: "col" }, make("span", { class: "unseen" }, word("compare"))))), body)));
      inside.append(make("p", {}, `${word("storedPage")}: `, address(key)), rows);
    },
  }, make("summary", {}, make("span", { class: "count" }, number(one.pages.length)),
    title || key, title ? make("span", { class: "faint small" }, ` ${key}`) : ""), inside);
  return view;
}

function member(data, { i, seen }) {
  const host = data.host(i);
  return make("tr", { tabindex: "-1" },
    make("td", { class: "when" }, moment(data.pages.time[i])), make("td", { class: "number" }, digits(data.pages.similarity[i])),
    make("td", { class: "page" }, address(data.key(i), data.title(i))),
    make("td", { class: "site" }, host ? make("a", { href: link("decisions", { site: host }) }, host) : "–"),
    make("td", { class: "why" }, `${data.isCopy(i) ? "" : `${word("nearMiss")}: `}${reasonWords(data.reason(i))}${seen > 1 ? ` (${word("times", number(seen))})` : ""}`),
    make("td", {}, compareLink(data, i)));
}

function titleOfMember(data, one) {
  const named = one.pages.find(({ i }) => data.title(i));
  return named === undefined ? "" : data.title(named.i);
}
