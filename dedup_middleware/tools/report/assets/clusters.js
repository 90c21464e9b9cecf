const CLUSTER_ROWS = 40;
const MEMBER_ROWS = 50;

// Stored pages and what was dropped against them, the largest clusters first.
function clusters(data) {
  const all = data.members.map((list, at) => at).filter((at) => data.members[at].length)
    .sort((a, b) => data.members[b].length - data.members[a].length);
  const list = make("div", { id: "clusters" });
  const found = make("p", { role: "status", id: "found" });
  let waiting = 0;
  const search = make("input", {
    type: "search", id: "search", value: data.searched ?? "",
    oninput: () => { clearTimeout(waiting); waiting = setTimeout(update, 150); },
  });

  function fits(at, wanted) {
    const has = (text) => text.toLowerCase().includes(wanted);
    return has(data.stored.key[at]) || has(data.stored.title[at]) ||
      data.members[at].some((i) => has(data.key(i)) || has(data.title(i)));
  }

  function update() {
    data.searched = search.value;
    const wanted = search.value.trim().toLowerCase();
    const chosen = wanted ? all.filter((at) => fits(at, wanted)) : all;
    const pages = chosen.reduce((sum, at) => sum + data.members[at].length, 0);
    found.textContent = word("found", number(chosen.length), number(pages));
    list.replaceChildren(growing(chosen, CLUSTER_ROWS, (at) => cluster(data, at)));
  }

  update();
  return make("div", {}, make("h2", {}, word("clusters")), make("p", { class: "faint" }, word("clustersHelp")),
    make("div", { class: "row" }, make("label", { for: "search" }, word("search")), search), found, list);
}

function cluster(data, at) {
  const inside = make("div");
  const title = data.stored.title[at] || titleOfMember(data, at);
  const view = make("details", {
    class: "cluster",
    ontoggle: () => {
      if (!view.open || inside.childElementCount) return;
      const body = make("tbody");
      const rows = growing(data.members[at], MEMBER_ROWS, (i) => decision(data, i), body);
      rows.prepend(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {},
        ...[word("similarity"), word("droppedPage"), word("reason"), ""].map((text) => make("th", { scope: "col" }, text)))), body)));
      inside.append(make("p", {}, `${word("storedPage")}: `, address(data.stored.key[at])), rows);
    },
  }, make("summary", {}, make("span", { class: "count" }, number(data.members[at].length)),
    title || data.stored.key[at], title ? make("span", { class: "faint small" }, ` ${data.stored.key[at]}`) : ""), inside);
  return view;
}

function titleOfMember(data, at) {
  const named = data.members[at].find((i) => data.title(i));
  return named === undefined ? "" : data.title(named);
}
