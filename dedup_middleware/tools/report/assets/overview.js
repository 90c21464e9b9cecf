const SITES = 20;
const SITE_ROWS = 25;

function overview(data) {
  let seen = 0;
  let stored = 0;
  let dropped = 0;
  const byReason = new Map();
  const bySite = new Map();
  for (const [, host, met, kept, reasons] of data.hours) {
    const site = bySite.get(host) ?? { seen: 0, stored: 0, dropped: 0 };
    bySite.set(host, site);
    seen += met;
    stored += kept;
    site.seen += met;
    site.stored += kept;
    for (const [reason, many] of reasons) {
      dropped += many;
      site.dropped += many;
      byReason.set(reason, (byReason.get(reason) ?? 0) + many);
    }
  }
  const shown = data.count < data.total ? `${number(data.count)} (${word("ofAll", number(data.total))})` : number(data.count);
  const figures = [
    ["seen", number(seen)], ["stored", number(stored)], ["dropped", number(dropped)],
    ["share", seen ? percent(dropped / seen) : "–"], ["decisions", shown],
  ];
  return make("div", {},
    make("h2", {}, word("overview")),
    make("dl", { class: "figures" }, ...figures.map(([name, value]) =>
      make("div", {}, make("dt", {}, word(name)), make("dd", {}, value)))),
    make("h3", {}, word("overTime")),
    data.hours.length ? timeChart(data.hours) : make("p", {}, word("noHours")),
    make("h3", {}, word("reasons")), reasonTable(data, byReason),
    make("h3", {}, word("copies")), matrix(data),
    make("h3", {}, word("sites")), siteTable(data, bySite),
    make("h3", {}, word("settings")),
    table(word("made", moment(data.made)), [], Object.entries(data.about).map(([name, value]) =>
      make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "page" }, value)))));
}

function reasonTable(data, byReason) {
  const rows = [...byReason].sort((a, b) => b[1] - a[1]).map(([reason, many]) =>
    make("tr", {}, make("th", { scope: "row" }, data.reasons[reason]), make("td", { class: "number" }, number(many))));
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
      return make("td", { class: `level${level}` }, many ? number(many) : "");
    })));
  return table(word("copiesHelp", SITES), [word("copier"), ...sites.map((host) => data.hosts[host])], rows, { class: "matrix" });
}

function siteTable(data, bySite) {
  const sites = [...bySite].filter(([host]) => data.hosts[host]).sort((a, b) => b[1].seen - a[1].seen);
  if (!sites.length) return make("p", {}, word("noSites"));
  const body = make("tbody");
  const list = growing(sites, SITE_ROWS, ([host, site]) => {
    const share = site.seen ? site.dropped / site.seen : 0;
    return make("tr", { tabindex: "-1" }, make("th", { scope: "row" }, data.hosts[host]),
      ...[site.seen, site.stored, site.dropped].map((value) => make("td", { class: "number" }, number(value))),
      make("td", {}, make("meter", { value: share, min: 0, max: 1, "aria-label": word("share") }), ` ${percent(share)}`));
  }, body);
  const view = make("table", { class: "sites" },
    make("thead", {}, make("tr", {}, ...["site", "seen", "stored", "dropped", "share"].map((name) => make("th", { scope: "col" }, word(name))))), body);
  list.prepend(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": word("sites") }, view));
  return list;
}
