// The search of the site: takes the place of Sphinx's ranking, and leaves its page and its way of showing results. sections.js, which
// docs/site/sections.py writes, has the weight of each word in each section.
"use strict";

const Sections = {
  index: null,
  set: index => { Sections.index = index; },

  // word -> share, for a query. A name counts as a whole and, half as much, by its parts: GradientReducer finds "the gradient reducer", too.
  words(query) {
    const stemmer = new Stemmer(), found = new Map();
    const add = (word, share) => {
      const lower = word.toLowerCase(), stem = stemmer.stemWord(lower);
      if (!stopwords.has(lower)) found.set(stem, Math.max(found.get(stem) ?? 0, share));
    };
    for (const word of query.match(/[\p{L}\p{N}_]+/gu) ?? []) {
      const parts = word.split(/_+|(?<=[a-z])(?=[A-Z])/).filter(part => part);
      add(word, 1);
      if (parts.length > 1) parts.forEach(part => add(part, 0.5));
    }
    return found;
  },

  // section -> weight. A word that the index does not have stands for all that begin with it, at half their weight.
  weights(word) {
    const { terms } = Sections.index, found = new Map();
    const take = (list, share) => {
      for (let at = 0; at < list.length; at += 2) found.set(list[at], Math.max(found.get(list[at]) ?? 0, share * list[at + 1]));
    };
    if (Object.hasOwn(terms, word)) take(terms[word], 1);
    else if (word.length > 2) for (const term of Object.keys(terms)) if (term.startsWith(word)) take(terms[term], 0.5);
    return found;
  },

  // [page, section, score] of each page with words of the query, best first. A page counts with its best section, and with each word's best
  // place on it; one that lacks words counts less.
  ranked(query) {
    const { pages, sections } = Sections.index, words = Sections.words(query);
    const bySection = new Map(), byPage = new Map();
    let all = 0;
    for (const [word, share] of words) {
      const best = new Map();
      all += share;
      for (const [section, weight] of Sections.weights(word)) {
        const page = sections[section][0];
        bySection.set(section, (bySection.get(section) ?? 0) + share * weight);
        best.set(page, Math.max(best.get(page) ?? 0, share * weight));
      }
      for (const [page, weight] of best) {
        const { sum, has } = byPage.get(page) ?? { sum: 0, has: 0 };
        byPage.set(page, { sum: sum + weight, has: has + share });
      }
    }
    const best = new Map();
    for (const [section, weight] of bySection) {
      const page = sections[section][0];
      if (weight > (best.get(page)?.weight ?? 0)) best.set(page, { section, weight });
    }
    return [...best].map(([page, { section, weight }]) => {
      const { sum, has } = byPage.get(page);
      return [page, section, (weight + 0.3 * sum) * (has / all) ** 2];
    }).sort((a, b) => b[2] - a[2] || pages[a[0]][0].localeCompare(pages[b[0]][0]));
  },

  // What Sphinx's page shows: [page, title, anchor, description, score, file, kind], the best one last.
  results(query) {
    const { pages, sections } = Sections.index;
    return Sections.ranked(query).slice(0, 50).map(([page, section, score]) => {
      const [name, title] = pages[page], [, anchor, heading, opening] = sections[section];
      return [name, heading ? `${title} > ${heading}` : title, anchor, opening, score, name, "text"];
    }).reverse();
  },
};

document.addEventListener("DOMContentLoaded", () => { Search._performSearch = query => Sections.results(query); });
