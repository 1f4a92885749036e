"use strict";
(() => {
  const draw = async (source) => {
    const place = document.getElementById(source.dataset.chart);
    await vegaEmbed(place, JSON.parse(source.textContent), {
      actions: false,
      renderer: "svg",
      tooltip: { theme: "custom" },
    });
  };

  // A chart takes its width from its place, which has none while its chapter is folded.
  const drawWithin = async (element) => {
    const waiting = Array.from(element.querySelectorAll("script[data-chart]:not([data-drawn])")).filter(
      (source) => !source.closest("details.chapter:not([open])"),
    );
    for (const source of waiting) source.dataset.drawn = "yes";
    await Promise.all(waiting.map(draw));
  };

  const drawAll = async () => {
    await drawWithin(document);
    document.documentElement.dataset.drawn = "yes";
  };

  const chapters = Array.from(document.querySelectorAll("details.chapter"));
  for (const chapter of chapters) chapter.addEventListener("toggle", () => drawWithin(chapter));
  const unfoldTarget = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const chapter = target && target.querySelector("details.chapter");
    if (chapter) chapter.open = true;
  };
  window.addEventListener("hashchange", unfoldTarget);
  for (const link of document.querySelectorAll("nav a")) link.addEventListener("click", () => setTimeout(unfoldTarget));
  window.addEventListener("beforeprint", () => {
    for (const chapter of chapters) chapter.open = true;
  });

  const outline = document.getElementById("tree-outline");
  for (const button of document.querySelectorAll("button[data-fold]")) {
    button.addEventListener("click", () => {
      for (const node of outline.querySelectorAll("details")) node.open = button.dataset.fold === "open";
    });
  }

  const search = document.getElementById("rule-search");
  if (search) {
    const rows = Array.from(document.querySelectorAll("#rules-table tbody tr"), (row) => ({
      row,
      text: row.textContent.toLowerCase(),
    }));
    const count = document.getElementById("rule-count");
    search.addEventListener("input", () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const { row, text } of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        if (!row.hidden) shown += 1;
      }
      const all = rows.length.toLocaleString("en");
      count.textContent = words.length ? `${shown.toLocaleString("en")} of ${all} rules` : `${all} rules`;
    });
  }

  unfoldTarget();
  drawAll();
})();
