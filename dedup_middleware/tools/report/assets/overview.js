const SITES = 20;
const SITE_ROWS = 25;

function overview(data) {
  const { hours, sites, reasons } = data.activity;
  const sum = (at) => sites.reduce((total, row) => total + row[at], 0);
  const [seen, stored, dropped] = [sum(1), sum(2), sum(3)];
  const shown = data.query.cut ? `${number(data.count)} (${word("ofAll", number(data.total))})` : number(data.count);
  const figures = [
    ["seen", number(seen)], ["stored", number(stored)], ["dropped", number(dropped)],
    ["share", seen ? percent(dropped / seen) : "–"], ["decisions", shown],
  ];
  return make("div", {},
    make("h2", {}, word("overview")),
    make("dl", { class: "figures" }, ...figures.map(([name, value]) =>
      make("div", {}, make("dt", {}, word(name)), make("dd", {}, value)))),
    make("h3", {}, word("overTime")),
    hours.length ? timeChart(hours) : make("p", {}, word("noHours")),
    make("h3", {}, word("reasons")), reasonTable(data, reasons),
    make("h3", {}, word("copies")), matrix(data),
    make("h3", {}, word("sites")), siteTable(data, sites),
    make("h3", {}, word("settings")),
    table(word("made", moment(data.made)), [], Object.entries(data.about).map(([name, value]) =>
      make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "page" }, value)))));
}

function reasonTable(data, reasons) {
  const rows = reasons.map(([reason, many]) =>
    make("tr", {}, make("th", { scope: "row" }, make("a", { href: link("decisions", { reason: data.reasons[reason] }) }, reasonWords(data.reasons[reason]))), make("td", { class: "number" }, number(many))));
  return rows.length ? table(word("reasons"), [word("reason"), word("pages")], rows, {}, true) : make("p", {}, word("none"));
}

// Rows: sites of copies; columns: sites of originals.
function matrix(data) {
  const pairs = new Map();
  const weight = new Map();
  for (const i of data.matched) {
    if (!data.isDropped(i)) continue;
    const copy = data.pages.host[i];
    const original = data.stored.host[data.pages.match[i]];
    if (!data.hosts[copy] || !data.hosts[original]) continue;
    pairs.set(`${copy},${original}`, (pairs.get(`${copy},${original}`) ?? 0) + 1);
    for (const host of new Set([copy, original])) weight.set(host, (weight.get(host) ?? 0) + 1);
  }
  const sites = [...weight].sort((a, b) => b[1] - a[1]).slice(0, SITES).map(([host]) => host);
  if (!sites.length) return make("p", {}, word("noSites"));
  const most = Math.max(...pairs.values());
  const rows = sites.map((copy) => make("tr", {}, make("th", { scope: "row" }, data.hosts[copy]),
    ...sites.map((original) => {
      const many = pairs.get(`${copy},${original}`) ?? 0;
      const level = many ? Math.max(1, Math.ceil((4 * Math.log1p(many)) / Math.log1p(most))) : 0;
      return make("td", { class: `level${level}` }, many ? make("a", {
        href: link("decisions", { site: data.hosts[copy], original: data.hosts[original], outcome: "dropped" }), "data-column": original,
        "aria-label": word("cell", number(many), data.hosts[copy], data.hosts[original]),
      }, number(many)) : "");
    })));
  const below = (links, at, step) => {
    for (let to = at + step; to >= 0 && to < links.length; to += step) {
      if (links[to].dataset.column === links[at].dataset.column) return to;
    }
    return at;
  };
  return roving(table(word("copiesHelp", SITES), [word("copier"), ...sites.map((host) => data.hosts[host])], rows, { class: "matrix" }), "td a", below);
}

function siteTable(data, counted) {
  const sites = counted.filter(([host]) => data.hosts[host]).sort((a, b) => b[1] - a[1]);
  if (!sites.length) return make("p", {}, word("noSites"));
  const body = make("tbody");
  const list = growing(sites, SITE_ROWS, ([host, seen, stored, dropped]) => {
    const share = seen ? dropped / seen : 0;
    return make("tr", { tabindex: "-1" }, make("th", { scope: "row" }, make("a", { href: link("decisions", { site: data.hosts[host] }) }, data.hosts[host])),
      ...[seen, stored, dropped].map((value) => make("td", { class: "number" }, number(value))),
      make("td", {}, make("meter", { value: share, min: 0, max: 1, "aria-label": word("share") }), ` ${percent(share)}`));
  }, body);
  const view = make("table", { class: "sites" },
    make("thead", {}, make("tr", {}, ...["site", "seen", "stored", "dropped", "share"].map((name) => make("th", { scope: "col" }, word(name))))), body);
  list.prepend(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": word("sites") }, view));
  return list;
}
