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

  const drawAll = async () => {
    await Promise.all(Array.from(document.querySelectorAll("script[data-chart]"), draw));
    document.documentElement.dataset.drawn = "yes";
  };

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

  drawAll();
})();
