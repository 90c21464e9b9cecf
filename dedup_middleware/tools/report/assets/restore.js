// The command that restores the pages shown.
const MOST_SITES = 10;

// A word of a command line, quoted for a POSIX shell.
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// Options of the command for the filters; null: they can only be expressed as a list of keys.
function restoreOptions(data, query) {
  const value = (name) => query.get(name) ?? "";
  if (value("q").trim() || value("original") || value("min") || value("max")) return null;
  const chosen = { ...data.query };
  if (value("site")) {
    const sites = [...sitesLike(data, value("site"))].map((at) => data.hosts[at]);
    if (!sites.length || sites.length > MOST_SITES || sites.includes("")) return null;
    chosen.host = sites;
  }
  for (const name of ["reason", "spider", "crawl"]) if (value(name)) chosen[name] = [value(name)];
  const options = ["key", "host", "reason", "spider", "crawl"].flatMap((name) => chosen[name].map((one) => [`--${name}`, one]));
  // Older decisions that are not in the report are not restored.
  const since = Math.max(chosen.since ?? 0, Number(value("since")), data.query.cut && data.count ? data.pages.time.reduce((a, b) => Math.min(a, b)) : 0);
  const until = Math.min(chosen.until ?? Infinity, value("until") ? Number(value("until")) : Infinity);
  if (since) options.push(["--since", isoTime(since)]);
  if (until < data.made) options.push(["--until", isoTime(until)]);
  return options;
}

function restoreCommand(data, query) {
  let options = restoreOptions(data, query);
  // Control characters must not be pasted into a terminal.
  if (options === null || options.some(([, value]) => /[\u0000-\u001f\u007f-\u009f]/.test(value))) {
    options = [["--keys", "decisions.json"]];
  }
  // Pages dropped after the report was made are not restored.
  if (!options.some(([name]) => name === "--until")) options.push(["--until", isoTime(data.made)]);
  const given = Object.entries(data.given).map(([name, value]) => `-s ${quoted(`${name}=${value}`)}`);
  const words = options.map(([name, value]) => `${name}=${quoted(value)}`);
  return ["scrapy dedup restore -o restored.jsonl", ...words, ...given].join(" ");
}

// A part of the view that opens on demand.
function restorePanel(data, query, chosen) {
  const command = make("textarea", { id: "command", readonly: true, rows: "3", spellcheck: "false", "aria-label": word("command") });
  const told = make("p");
  const copy = make("button", { type: "button", id: "copy", onclick: async () => {
    command.select();
    try {
      await navigator.clipboard.writeText(command.value);
    } catch {
      document.execCommand("copy");
    }
    say(word("copied"));
  } }, word("copy"));
  const panel = make("section", { id: "restore", class: "panel", hidden: true, "aria-label": word("restore") }, told, command, make("div", { class: "row" }, copy));
  const button = make("button", { type: "button", id: "restore-these", "aria-expanded": "false", "aria-controls": "restore", onclick: () => {
    panel.hidden = !panel.hidden;
    button.setAttribute("aria-expanded", String(!panel.hidden));
    update();
  } }, word("restore"));

  function update() {
    if (panel.hidden) return;
    const pages = new Set(chosen().filter((i) => data.isDropped(i)).map((i) => data.key(i)));
    const text = restoreCommand(data, query);
    const first = text.includes("--keys") ? ` ${word("restoreFile")}` : "";
    told.textContent = pages.size ? `${word("restoreHelp", number(pages.size))}${first}` : word("restoreNone");
    command.value = text;
    command.hidden = copy.hidden = !pages.size;
  }

  return { button, panel, update };
}
