// Every reason and outcome of a decision in plain words; docs/stats.md lists them.
const REASONS = {
  en: {
    "exact-copy": "Same text", "near-duplicate": "Nearly the same text", unchanged: "Seen again, nothing new", changed: "Seen again, with other content",
    "other-figures": "Other numbers or names", "turned-round": "Says the opposite", "other-title": "Same site, another title",
    "common-on-host": "Shares only what many pages of the site have", "too-little-in-common": "Too little in common",
    "too-short-to-compare": "Too short to compare", "too-far": "Too many differing bits", "too-different": "Too different",
    "no-signature": "Can't be compared by this method", "nothing-alike": "Nothing like it is stored", supersedes: "Holds all words of the stored page",
    "no-text": "No text", "index-unavailable": "The index was unreachable", "pending-timeout": "A similar page stayed pending",
  },
  zh: {
    "exact-copy": "正文相同", "near-duplicate": "正文几乎相同", unchanged: "再次出现，没有新内容", changed: "再次出现，内容已变",
    "other-figures": "数字或人名不同", "turned-round": "意思相反", "other-title": "同一站点，标题不同",
    "common-on-host": "只有站点许多网页共有的内容相同", "too-little-in-common": "共同内容太少",
    "too-short-to-compare": "太短，无法比较", "too-far": "不同的位太多", "too-different": "差别太大",
    "no-signature": "此方法无法比较", "nothing-alike": "没有与之相似的已存网页", supersedes: "包含已存网页的全部词语",
    "no-text": "没有正文", "index-unavailable": "索引无法访问", "pending-timeout": "相似网页一直待定",
  },
};
const OUTCOMES = {
  en: { duplicate: "Duplicate", revisit: "Seen again", empty: "Empty", unchecked: "Not checked", new: "Kept" },
  zh: { duplicate: "重复", revisit: "再次出现", empty: "空白", unchecked: "未检查", new: "保留" },
};

// Methods of the literature give their own name as the reason.
function reasonWords(reason) {
  return REASONS[language][reason] ?? word("byMethod", reason);
}

function outcomeWords(outcome) {
  return OUTCOMES[language][outcome] ?? outcome;
}
